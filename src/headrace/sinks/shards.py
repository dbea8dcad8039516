"""Files `out/train-00000-of-00080.tfrecord`, which get these names together, once all of them are whole."""

from __future__ import annotations

import glob
import os
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from headrace.records.files import as_path, local_path, remote
from headrace.storage.files import TEMPORARY, settle
from headrace.storage.locks import lock


class Shards:
    """The files of one prefix. Until `publish` they have other names; left without it, there are none.

    The first one stays open and locked until then: if nobody holds its lock, a run was killed, and the next removes
    its files.
    """

    def __init__(self, prefix: Any, suffix: str, *, overwrite: bool) -> None:
        self._prefix = as_path(prefix)
        self._suffix = suffix
        local = local_path(self._prefix)
        self.local = local is not None
        where: tuple[Any, str] = (None, local) if local is not None else remote(self._prefix)
        self._system, self._base = where
        if not Path(self._base).name or self._base.endswith("/"):
            raise ValueError(f"{self._prefix!r} is a folder: give the beginning of the names of files, as 'out/train'")
        self._token = uuid.uuid4().hex[:8]
        self._opened: list[tuple[str, IO[bytes]]] = []
        self._old = self._there()
        if self._old and not overwrite:
            raise FileExistsError(
                f"{self._old[0]} is there already, of {len(self._old)} such files; remove them, or say overwrite=True"
            )
        if self._system is None:
            Path(self._base).parent.mkdir(parents=True, exist_ok=True)
            self._clear()

    def _there(self) -> list[str]:
        """What is left of an earlier run that came to its end."""
        pattern = f"{glob.escape(self._base)}-?????-of-?????{self._suffix}"
        found = glob.glob(pattern) if self._system is None else self._system.glob(pattern)  # noqa: PTH207
        return sorted(found)

    def _clear(self) -> None:
        """Remove what killed runs left."""
        folder, stem = Path(self._base).parent, Path(self._base).name
        left = re.compile(re.escape(stem) + r"\.([0-9a-f]{8})-\d+" + re.escape(TEMPORARY) + r"(\.idx)?")
        runs: dict[str, list[Path]] = {}
        for path in folder.iterdir():
            if found := left.fullmatch(path.name):
                runs.setdefault(found[1], []).append(path)
        for token, paths in runs.items():
            if not _locked(Path(self._temporary(token, 0))):
                for path in paths:
                    path.unlink(missing_ok=True)

    def _temporary(self, token: str, number: int) -> str:
        return f"{self._base}.{token}-{number}{TEMPORARY}"

    def open(self) -> IO[bytes]:
        """The next file, to be written to in order."""
        path = self._temporary(self._token, len(self._opened))
        if self._system is None:
            file: IO[bytes] = Path(path).open("wb")  # noqa: SIM115 - closed by `finish`, or at the end
            if not self._opened:
                lock(file)
        else:
            file = self._system.open(path, "wb")
        self._opened.append((path, file))
        return file

    def __len__(self) -> int:
        return len(self._opened)

    def finish(self, number: int) -> str:
        """Have all that was written to a file on the disk; returns where it is for now."""
        path, file = self._opened[number]
        file.flush()
        if self._system is None:
            os.fsync(file.fileno())
        if number or self._system is not None:
            file.close()
        return path

    def publish(self) -> list[str]:
        """Give the files their names, and remove those they replace."""
        count = len(self._opened)
        ends = [f"-{i:05d}-of-{count:05d}{self._suffix}" for i in range(count)]
        done: list[str] = []
        try:
            for (path, _), end in reversed(list(zip(self._opened, ends, strict=True))):  # the lock comes last
                done.append(self._base + end)
                self._move(path, done[-1])
        except BaseException:
            for path in done:
                self._remove(path)
            raise
        for path in set(self._old) - set(done):
            self._remove(path)
        if self._system is None:
            settle(Path(self._base).parent)
        return [self._prefix + end for end in ends]

    def _move(self, path: str, name: str) -> None:
        if self._system is not None:
            self._system.mv(path, name)
            return
        self._remove(name)
        if Path(path + ".idx").exists():
            Path(path + ".idx").replace(name + ".idx")
        Path(path).replace(name)

    def _remove(self, path: str) -> None:
        if self._system is None:
            for name in (path, path + ".idx"):
                Path(name).unlink(missing_ok=True)
        elif self._system.exists(path):
            self._system.rm_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path, file in self._opened:
            with suppress(OSError):  # such as a full disk, which has been told by now
                file.close()
            self._remove(path)


def _locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            lock(file)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
