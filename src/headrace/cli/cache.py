"""Look into the cache of remote files on disk, check it, and make it smaller."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import bytes_text, say
from headrace.records.disk_cache import DiskCache, Kept, is_whole

cache = typer.Typer(help="The cache of remote files on disk: Options(remote_cache=FOLDER).", no_args_is_help=True)
Folder = Annotated[str, typer.Argument(help="The folder that remote_cache names.", show_default=False)]
LOOK = 1 << 16


def _ranges(folder: str) -> list[Kept]:
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r}")
    cache = DiskCache(folder)
    if not cache.is_there():
        raise FileNotFoundError(f"{folder!r} is no cache of remote files: it is the folder of Options(remote_cache=…)")
    return cache.kept()


@cache.command()
def ls(folder: Folder) -> None:
    """List the files that ranges are kept of, and how many bytes of each."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for kept in _ranges(folder):
        with kept.path.open("rb") as file:
            told = _told(file.read(LOOK))
        sizes[told] += kept.nbytes
        counts[told] += 1
    for name, size in sorted(sizes.items()):
        say(f"{bytes_text(size):>10}  {counts[name]:6} ranges  {name}")
    say(f"{bytes_text(sum(sizes.values())):>10}  {sum(counts.values()):6} ranges in all")


def _told(data: bytes) -> str:
    import json

    try:
        return str(json.loads(data.partition(b"\n")[0])["of"])
    except (ValueError, KeyError, TypeError):
        return "(damaged)"


@cache.command("verify")
def verify_ranges(folder: Folder) -> None:
    """Check every range against its checksum; those that are damaged are removed. Exits with 1 if there are any."""
    kept = _ranges(folder)
    bad = [each.path for each in kept if not is_whole(each.path)]
    for path in bad:
        say(f"{path} is damaged; removed")
        path.unlink(missing_ok=True)
    say(f"{len(kept) - len(bad)} of {len(kept)} ranges are whole")
    if bad:
        raise typer.Exit(1)


@cache.command()
def prune(
    folder: Folder,
    to: Annotated[str, typer.Option("--to", help="How many bytes may stay: 500000000, 500MB, 20GB.")] = "0",
) -> None:
    """Remove what was not used for longest, until no more than `--to` bytes are left; all of it by default."""
    limit = _bytes(to)
    before = sum(each.nbytes for each in _ranges(folder))
    after = DiskCache(folder).prune(limit)
    say(f"{bytes_text(before - after)} removed, {bytes_text(after)} left")


def _bytes(text: str) -> int:
    """A number of bytes as people write it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(f"--to {text!r} is no number of bytes: write 500000000, 500MB or 20GB")
    return int(float(found[1]) * 1000 ** ["", "K", "M", "G", "T"].index(found[2].upper()))
