"""Files `out/train-00000-of-00080.tfrecord`, which get these names together, once all of them are complete."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from headrace.core.paths import refuse_shortened_url
from headrace.core.types import StrPath
from headrace.formats.shared.files import as_path, local_path, remote
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport
from headrace.storage.files import TEMPORARY, named_file, naming
from headrace.storage.swaps import NewFiles


class Shards(ABC):
    """The files of one prefix. Until `publish` they have temporary names; without it, none of them remains."""

    local: bool

    def __init__(self, prefix: str, suffix: str, *, overwrite: bool) -> None:
        self._prefix = prefix
        self._suffix = suffix
        self._overwrite = overwrite
        self._opened: list[tuple[str, IO[bytes] | None]] = []

    def check(self, there: list[str]) -> None:
        """Raise FileExistsError if files would be replaced, unless that was requested."""
        if there and not self._overwrite:
            raise FileExistsError(
                f"{show_path(there[0])} exists already, of {len(there)} such files; remove them, or say overwrite=True"
            )

    def open(self) -> IO[bytes]:
        """Return the next file, to be written to in order."""
        path, file = self._next(len(self._opened))
        self._opened.append((path, file))
        return file

    @abstractmethod
    def _next(self, number: int) -> tuple[str, IO[bytes]]: ...

    def __len__(self) -> int:
        return len(self._opened)

    @property
    def paths(self) -> list[str]:
        """Return the paths of the files until they are published."""
        return [path for path, _ in self._opened]

    @abstractmethod
    def place_elsewhere(self) -> str:
        """Return a name prefix for files that other processes write for this one to `adopt`."""

    def adopt(self, path: str) -> None:
        """Take a file that another process has written as the next one."""
        self._opened.append((path, None))

    def finish(self, number: int) -> str:
        """Flush all that was written to a file. Return its present path."""
        path, file = self._opened[number]
        assert file is not None
        file.flush()
        if self.local:
            with naming(f"{self._prefix}-{number:05d}{self._suffix}"):
                os.fsync(file.fileno())
        file.close()
        return path

    def publish(self) -> list[str]:
        """Give the files their names, in place of those they replace."""
        count = len(self._opened)
        ends = [f"-{i:05d}-of-{count:05d}{self._suffix}" for i in range(count)]
        self._publish(ends)
        return [self._prefix + end for end in ends]

    @abstractmethod
    def _publish(self, ends: list[str]) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for _, file in self._opened:
            with suppress(OSError):  # such as a full disk, which was reported before
                if file is not None:
                    file.close()
        self._close()

    @abstractmethod
    def _close(self) -> None: ...


class LocalShards(Shards):
    """Files on this machine: all of them get their names, or none."""

    local = True

    def __init__(self, prefix: str, suffix: str, *, overwrite: bool, base: Path) -> None:
        super().__init__(prefix, suffix, overwrite=overwrite)
        base.parent.mkdir(parents=True, exist_ok=True)
        self._base = base
        self._files = NewFiles(base.parent, base.name, suffix)
        try:
            self._check()
        except BaseException:
            self._files.close()
            raise

    def _check(self) -> None:
        self.check([str(path) for path in self._files.there()])

    def _next(self, number: int) -> tuple[str, IO[bytes]]:
        path, called = self._files.place / str(number), f"{self._prefix}-{number:05d}{self._suffix}"
        try:
            return str(path), named_file(path, called)
        except OSError as error:
            error.filename = called
            raise

    def place_elsewhere(self) -> str:
        return f"{self._files.place.absolute()}{os.sep}worker-"

    def _publish(self, ends: list[str]) -> None:
        self._check()  # another may have written the same in the meantime
        names = [self._base.name + end for end in ends]
        for (path, _), name in zip(self._opened, names, strict=True):
            Path(path).rename(self._files.place / name)
        self._files.publish(names)

    def _close(self) -> None:
        self._files.close()


class RemoteShards(Shards):
    """Files in a store, which has no atomic rename and cannot replace many files at once."""

    local = False

    def __init__(self, prefix: str, suffix: str, *, overwrite: bool, via: Transport) -> None:
        super().__init__(prefix, suffix, overwrite=False)
        self._via = via
        self._system, self._base = remote(prefix, via)
        self._token = secrets.token_hex(8)
        with self._via.hiding(prefix):
            there = sorted(self._system.glob(f"{self._base}-?????-of-?????{suffix}"))
        if there and overwrite:
            raise FileExistsError(
                f"{show_path(there[0])} is there already, and a store cannot replace {len(there)} files all at once: "
                "remove them first, or write under another name"
            )
        self.check(there)

    def _next(self, number: int) -> tuple[str, IO[bytes]]:
        path = f"{self._base}.{self._token}-{number}{TEMPORARY}"
        with self._via.hiding(self._prefix):
            return path, self._system.open(path, "wb")

    def place_elsewhere(self) -> str:
        return f"{self._prefix}.{self._token}-worker-"

    def adopt(self, path: str) -> None:
        super().adopt(self._system._strip_protocol(path))

    def _publish(self, ends: list[str]) -> None:
        done: list[str] = []
        try:
            for (path, _), end in zip(self._opened, ends, strict=True):
                done.append(self._base + end)
                with self._via.hiding(self._prefix):
                    self._system.mv(path, done[-1])
        except BaseException:
            for path in done:
                self._remove(path)
            raise

    def _close(self) -> None:
        for path, _ in self._opened:
            self._remove(path)
        self._system.invalidate_cache()  # a list from before knows nothing of what workers have written
        for path in self._system.glob(f"{self._base}.{self._token}-worker-*{TEMPORARY}"):  # of one that was killed
            self._remove(path)

    def _remove(self, path: str) -> None:
        if self._system.exists(path):
            self._system.rm_file(path)


def shards_of(path: StrPath, suffix: str, *, overwrite: bool, via: Transport = ALONE) -> Shards:
    """Return the files whose names begin with `path`; `via` is how a store is reached."""
    refuse_shortened_url(path, "the path to write to")
    prefix = as_path(path)
    local = local_path(prefix)
    name = prefix if local is None else local
    if not Path(name).name or name.endswith("/"):
        raise ValueError(f"{show_path(prefix)!r} is a folder: give the beginning of the names of files, as 'out/train'")
    if local is None:
        return RemoteShards(prefix, suffix, overwrite=overwrite, via=via)
    return LocalShards(prefix, suffix, overwrite=overwrite, base=Path(local))
