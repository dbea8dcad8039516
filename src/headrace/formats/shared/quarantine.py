"""Policies for records that cannot be read."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from headrace.core.paths import local_only
from headrace.core.types import Reduced
from headrace.errors import QuarantineError

log: logging.Logger = logging.getLogger("headrace")

MANIFEST = "manifest.jsonl"
RECORDS = "records.bin"
LINE_START = b'{"file": '


class Quarantine:
    """Store the records that a reader cannot read: `on_error=hr.Quarantine("bad")`.

    The folder gets their bytes in `records.bin` and a line for each in `manifest.jsonl`: file, byte offset, record
    number, reason, and the offset in `records.bin`. Reading continues after them; once more than `max_fraction`
    of the records are bad it fails. A single bad record never fails. In a damaged part of a Parquet or Arrow file each
    row counts.

    Args:
        path: Folder for bad records.
        max_fraction: Largest share of bad records to accept.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "lines").write_bytes(b"fine" + bytes([10, 255, 10]) + b"fine too")
    ...     bad = hr.Quarantine(Path(folder, "bad"))
    ...     list(hr.TextLineDataset(Path(folder, "lines"), on_error=bad)), bad.count
    (['fine', 'fine too'], 1)
    """

    def __init__(self, path: str | os.PathLike[str], max_fraction: float = 0.001) -> None:
        if not 0 <= max_fraction <= 1:
            raise ValueError(f"max_fraction must be between 0 and 1, not {max_fraction}")
        self.path: Path = local_only(path, "hr.Quarantine", "give a local folder, and copy what is in it afterwards")
        self.max_fraction = max_fraction
        self.count: int = 0
        self.read: int = 0
        self._known: set[tuple[str, int]] | None = None
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "quarantine"

    def __reduce__(self) -> Reduced:
        return Quarantine, (self.path, self.max_fraction)

    def fine(self, rows: int) -> None:
        """Count records that could be read."""
        with self._lock:
            self.read += rows

    def keep(self, file: str, offset: int, number: int, reason: str, pieces: list[bytes], *, rows: int = 1) -> None:
        """Store a bad record, or `rows` of them, once even if it is met again. Raise if the budget is exceeded."""
        with self._lock:
            self.count += rows
            self.read += rows
            if self._known is None:
                self._known = self._met()
            if (file, offset) not in self._known:
                self._write(file, offset, number, reason, pieces, rows)
                self._known.add((file, offset))
            allowed = max(1.0, self.max_fraction * self.read)
            if self.count > allowed:
                raise QuarantineError(
                    f"{self.count} of {self.read} records are bad, more than max_fraction={self.max_fraction} allows; "
                    f"see {self.path / MANIFEST}. The last one: {file}, record {number}, byte {offset}: {reason}"
                )

    def _met(self) -> set[tuple[str, int]]:
        """Return what earlier runs have put there."""
        manifest = self.path / MANIFEST
        if not manifest.exists():
            return set()
        known: set[tuple[str, int]] = set()
        for number, line in enumerate(manifest.read_bytes().split(b"\n"), 1):
            met = _read_line(line)
            if met is not None:
                known.add(met[:2])
            if line and (met is None or not met.whole):
                log.warning(
                    "line %d of %s is damaged: a run that wrote it may have been killed, or the disk was full. The bad "
                    "record that it named is stored again when it is met again",
                    number,
                    manifest,
                )
        return known

    def _write(self, file: str, offset: int, number: int, reason: str, pieces: list[bytes], rows: int) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / RECORDS).open("ab") as records:
            at = records.tell()
            for piece in pieces:
                records.write(piece)
            length = records.tell() - at
        line = {"file": file, "offset": offset, "record": number, "reason": reason, "at": at, "length": length}
        line |= {"records": rows} if rows > 1 else {}
        with (self.path / MANIFEST).open("a+b") as manifest:
            if manifest.tell():
                manifest.seek(-1, os.SEEK_END)
                if manifest.read(1) != b"\n":  # the last line was cut short
                    manifest.write(b"\n")
            manifest.write(json.dumps(line).encode() + b"\n")


class _Met(NamedTuple):
    """A bad record that a line of a manifest names, and whether the line holds nothing else."""

    file: str
    offset: int
    whole: bool


def _read_line(line: bytes) -> _Met | None:
    """Return what a line of a manifest names; None if it names no record.

    Earlier versions appended lines to one that was cut short: the last one of these is whole.
    """
    start = 0
    while start >= 0:
        try:
            found = json.loads(line[start:])
            return _Met(str(found["file"]), int(found["offset"]), not start)
        except (ValueError, TypeError, LookupError):
            start = line.find(LINE_START, start + 1)
    return None


class SkipPolicy:
    """`on_error="skip"`: bad records are logged and left out."""

    def __str__(self) -> str:
        return "skip"

    def fine(self, rows: int) -> None:
        """Nothing to count."""

    def keep(self, file: str, offset: int, number: int, reason: str, _pieces: list[bytes], *, rows: int = 1) -> None:
        """Log the bad record."""
        more = f" and {rows - 1} after it" if rows > 1 else ""
        log.warning("skipped %s, record %d%s, byte %d: %s", file, number, more, offset, reason)


class PolicyEvents:
    """The events of an error policy, recorded by a worker and applied in the order of the records.

    After `go_direct` nothing is recorded: the policy is called at once.
    """

    def __init__(self, policy: Quarantine | SkipPolicy | PolicyEvents) -> None:
        self._policy = policy
        self._events: list[Callable[[], None]] = []
        self._direct = False

    def fine(self, rows: int) -> None:
        """Record the policy's call."""
        self._tell(partial(self._policy.fine, rows))

    def keep(self, file: str, offset: int, number: int, reason: str, pieces: list[bytes], *, rows: int = 1) -> None:
        """Record the policy's call."""
        self._tell(partial(self._policy.keep, file, offset, number, reason, pieces, rows=rows))

    def _tell(self, event: Callable[[], None]) -> None:
        if self._direct:
            event()
        else:
            self._events.append(event)

    def take(self) -> list[Callable[[], None]]:
        """Return what was recorded since the last time."""
        taken, self._events = self._events, []
        return taken

    def go_direct(self) -> None:
        """Forget what was recorded and record no more: the records are read again, in order."""
        self._events = []
        self._direct = True


def policy(on_error: str | Quarantine) -> Quarantine | SkipPolicy | None:
    """Return what to do about bad records; None: they are failures in their places."""
    if on_error is None or on_error == "raise":
        return None
    if on_error == "skip":
        return SkipPolicy()
    if isinstance(on_error, Quarantine):
        return on_error
    raise ValueError(f'on_error must be "raise", "skip" or an hr.Quarantine, not {on_error!r}')
