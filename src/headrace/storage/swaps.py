"""Sets of files `train-00000-of-00080.tfrecord` that replace others, all of them or none.

New files are written to a separate directory, `.train.tfrecord.RANDOM.hrtmp`. Once it is renamed to
`.train.tfrecord.hrswap` they count: the old files are removed and the new ones moved in. After a kill, the next reader
or writer finishes that.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headrace.core.types import JsonObject
from headrace.errors import StorageError
from headrace.storage.files import (
    HERE,
    LOCK,
    clear_stale,
    exclusive,
    hidden_prefix,
    new_folder,
    read_page,
    settle,
    temporary_name,
    write_page,
)
from headrace.storage.locks import HeldLock, lock

SWAP = ".hrswap"
LIST = "files.json"
NUMBERS = r"-\d{5,}-of-\d{5,}"


class NewFiles:
    """A directory for files named STEM, numbers, SUFFIX: `publish` makes them count, `discard` removes them."""

    def __init__(self, folder: Path, stem: str, suffix: str) -> None:
        self._folder = folder
        self._stem = stem
        self._suffix = suffix
        self._swap = _swap(folder, stem, suffix)
        self._counts = False
        finish_swap(self._swap)
        self._name = folder / (stem + suffix)
        clear_stale(folder, self._name.name)
        self.place: Path
        self.place, self._lock = exclusive(lambda: temporary_name(self._name), new_folder)

    def there(self) -> list[Path]:
        """Return the files of this kind that count now."""
        return sorted(_belonging(self._folder, self._stem, self._suffix))

    def publish(self, names: list[str]) -> None:
        """Replace all existing files by the files of these names, which are in `place` and synced to disk."""
        files = {name: (self.place / name).stat().st_size for name in names}
        write_page(self.place / LIST, {"stem": self._stem, "suffix": self._suffix, "files": files})
        while not self._counts:
            try:
                self.place.rename(self._swap)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                finish_swap(self._swap)  # of another writer, which came first
            else:
                self._counts = True
        settle(self._folder)
        self.close()

    def close(self) -> None:
        """Move the files that count to their places; leave nothing of others."""
        if self._lock.closed:
            return
        if self._counts:
            if _is_same_file(self._swap / LOCK, self._lock.fileno()):  # else a call before has done it
                _finish(self._swap)
        else:
            self._withdraw()
        self._lock.release()  # last: after an interrupt, a second call of close continues

    def _withdraw(self) -> None:
        """Remove the directory, although workers that know it may still be writing there."""
        with suppress(OSError):  # from here on no worker finds it to write more
            self.place = self.place.rename(temporary_name(self._name))
        for _ in range(2):  # a file that was being made while the others were listed is found the second time
            shutil.rmtree(self.place, ignore_errors=True)


def finish_swaps(names: Iterable[str]) -> None:
    """Before files of these names are read: finish what a killed writer of theirs began."""
    kinds = set()
    for name in names:
        found = re.fullmatch(f"(.*/)?([^/]+){NUMBERS}([^/]*)", name)
        if found is not None:
            kinds.add(found.groups())
    for folder, stem, suffix in kinds:
        finish_swap(_swap(Path(folder or "."), stem, suffix))


def finish_swaps_near(pattern: str) -> None:
    """Finish the swaps of killed writers in the directories of a pattern, before files are listed."""
    for found in glob.glob(os.path.join(os.path.dirname(pattern), f".*{SWAP}")):  # noqa: PTH118, PTH120, PTH207
        finish_swap(Path(found))


def finish_swap(swap: Path) -> None:
    """Move the files of a swap to their final names, once its writer is done with it or gone."""
    while swap.is_dir():
        try:
            held = HeldLock.with_flags(swap / LOCK, os.O_RDWR | HERE, "rb+")
        except FileNotFoundError:
            if not swap.is_dir():
                return
            raise StorageError(f"{swap} is damaged: it has no {LOCK}; remove it") from None
        except OSError as error:
            raise StorageError(
                f"files of {swap.parent} were being replaced when their writer was stopped, and this process may not "
                f"finish that ({error.strerror}): read them once as a user with write access"
            ) from error
        with held:
            lock(held.fileno(), wait=True)
            if _is_same_file(swap / LOCK, held.fileno()):  # else another has finished it meanwhile
                _finish(swap)


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _swap(folder: Path, stem: str, suffix: str) -> Path:
    return folder / f"{hidden_prefix(stem + suffix)}{SWAP}"


def _finish(swap: Path) -> None:
    """Remove the old files, and only then move the new ones: no reader ever sees some of both."""
    folder = swap.parent
    page = _check_list(swap, read_page(swap / LIST))
    new: dict[str, int] = page["files"]
    for path in _belonging(folder, page["stem"], page["suffix"]):
        moved = path.name in new and not (swap / path.name).exists()
        alone = path.name in new and len(new) == 1  # it takes the other's place without a gap
        if not moved and not alone:
            path.unlink(missing_ok=True)
    for name, size in new.items():
        if (swap / name).exists():
            (swap / name).replace(folder / name)
        elif not (folder / name).exists() or (folder / name).stat().st_size != size:
            raise StorageError(f"{swap} is damaged: {name} is not there; remove it, and write the files again")
    settle(folder)
    done = temporary_name(folder / (page["stem"] + page["suffix"]))
    swap.rename(done)
    shutil.rmtree(done, ignore_errors=True)


def _check_list(swap: Path, page: JsonObject) -> JsonObject:
    """Return the list of a swap after checking that it names only files of its own kind and directory."""
    stem, suffix, files = (page.get(name) for name in ("stem", "suffix", "files"))
    if isinstance(stem, str) and isinstance(suffix, str) and isinstance(files, dict) and "/" not in stem + suffix:
        kind = _kind(stem, suffix)
        if _swap(swap.parent, stem, suffix) == swap and files and all(map(kind.fullmatch, files)):
            return page
    raise StorageError(f"{swap} is no swap of headrace's; remove it")


def _kind(stem: str, suffix: str) -> re.Pattern[str]:
    return re.compile(re.escape(stem) + NUMBERS + re.escape(suffix))


def _belonging(folder: Path, stem: str, suffix: str) -> list[Path]:
    kind = _kind(stem, suffix)
    return [Path(entry.path) for entry in os.scandir(folder) if kind.fullmatch(entry.name)]
