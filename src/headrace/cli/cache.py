"""Look into the cache of remote files on disk, check it, and make it smaller."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Annotated

import typer

from headrace.cli.output import bytes_text, say
from headrace.core.paths import local_only
from headrace.remote.disk_cache import DiskCache, Kept
from headrace.remote.range_file import is_whole, name_in, open_file

cache = typer.Typer(help="The cache of remote files on disk: Options(remote_cache=FOLDER).", no_args_is_help=True)
Folder = Annotated[str, typer.Argument(help="The folder that remote_cache names.", show_default=False)]


def _ranges(folder: str) -> list[Kept]:
    if not local_only(folder, "FOLDER").is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r}")
    cache = DiskCache(folder)
    if not cache.is_there():
        raise FileNotFoundError(f"{folder!r} is no cache of remote files: it is the folder of Options(remote_cache=…)")
    return cache.kept()


@cache.command()
def ls(folder: Folder) -> None:
    """List the files that have cached ranges, and how many bytes of each."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for kept in _ranges(folder):
        with suppress(FileNotFoundError), open_file(kept.path) as descriptor:  # another process may have evicted it
            told = name_in(descriptor) or "(damaged)"
            sizes[told] += kept.nbytes
            counts[told] += 1
    for name, size in sorted(sizes.items()):
        say(f"{bytes_text(size):>10}  {counts[name]:6} ranges  {name}")
    say(f"{bytes_text(sum(sizes.values())):>10}  {sum(counts.values()):6} ranges in all")


@cache.command("verify")
def verify_ranges(folder: Folder) -> None:
    """Check every range against its checksum and remove damaged ones. Exits with 1 if there are any."""
    good = bad = 0
    for kept in _ranges(folder):
        with suppress(FileNotFoundError), open_file(kept.path) as descriptor:
            if is_whole(descriptor):
                good += 1
                continue
            bad += 1
            say(f"{kept.path} is damaged; removed")
            kept.path.unlink()
    say(f"{good} of {good + bad} ranges are whole")
    if bad:
        raise typer.Exit(1)


@cache.command()
def prune(
    folder: Folder,
    to: Annotated[str, typer.Option("--to", help="Size to shrink to, such as 500000000, 500MB or 20GB.")] = "0",
) -> None:
    """Remove the least recently used ranges until at most `--to` bytes are left; by default, remove all."""
    limit = _bytes(to)
    before = sum(each.nbytes for each in _ranges(folder))
    after = DiskCache(folder).prune(limit)
    say(f"{bytes_text(before - after)} removed, {bytes_text(after)} left")


def _bytes(text: str) -> int:
    """Return a number of bytes as people write it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(f"--to {text!r} is no number of bytes: write 500000000, 500MB or 20GB")
    return int(float(found[1]) * 1000 ** ["", "K", "M", "G", "T"].index(found[2].upper()))
