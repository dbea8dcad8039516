"""The interface of a format: how the bytes of a file are split into rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column
from headrace.formats.shared.files import Bytes
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF, Structure

Offsets = NDArray[np.int64]
ALL = 2**62
"""More rows than there are."""


class ScannedRows(NamedTuple):
    """Good rows, the first of which begins `start` bytes into what was scanned, on the `line`-th line of it.

    As columns, or as `RecordRefs` in their place.
    """

    columns: list[Column]
    rows: int
    start: int
    line: int = 0
    nbytes: int = -1
    """The memory of the columns in bytes, if known."""


class Bad(NamedTuple):
    """A row that could not be made from the bytes from `start` to `stop`.

    `lost`: the offset of the next row is unknown. `ends`: nothing after it is read, unless the user asks to continue.
    """

    reason: str
    start: int
    stop: int
    lost: bool = False
    line: int = 0
    ends: bool = False


ScanPart: TypeAlias = ScannedRows | Bad


class CutPoints(NamedTuple):
    """Offsets at which a file may be divided, with what precedes each of them in the bytes that were looked at.

    `offsets` increase strictly; each is the first byte of a record. `rows` counts the records before it, bad ones
    included, and `lines` the line ends, 0 for formats that do not count lines.
    """

    offsets: Offsets
    rows: Offsets
    lines: Offsets


class PreferredRows(NamedTuple):
    """Rows to cut before if there is a choice: those whose number is a multiple of `group`. `before` rows come before
    the bytes that are cut.
    """

    group: int = 1
    before: int = 0

    def at_or_after(self, row: int) -> int:
        """Return the first preferred row from `row` of these bytes on."""
        return row + -(self.before + row) % self.group


ANY_ROW = PreferredRows()


def choose_cuts(starts: Offsets, target: int, prefer: PreferredRows = ANY_ROW) -> Offsets:
    """Return the numbers of the records to cut before: at least `target` bytes apart and at least one record each.

    Args:
        starts: The offset of each record, in increasing order.
        target: The least number of bytes between two cuts, and before the first.
        prefer: Records to cut before if that takes at most twice as many bytes.
    """
    chosen: list[int] = []
    number, offset = 0, 0
    while (number := max(number + 1, int(np.searchsorted(starts, offset + target)))) < len(starts):
        better = prefer.at_or_after(number)
        if better < len(starts) and starts[better] < offset + 2 * target:
            number = better
        chosen.append(number)
        offset = int(starts[number])
    return np.array(chosen, np.int64)


class ScanHints(NamedTuple):
    """What `scan` may know about some bytes.

    `first` and `final` say that they are the beginning and the end of the file. `left` is how many bytes it has from
    there on, if known. About `most` rows are wanted. Formats may ignore these. If the bytes are those of a mapped file,
    from byte `at` on, that `stays` while it is referenced, rows may be `RecordRefs` to it. With `objects` texts are
    wanted as Python objects, and not as columns. Only formats that declare support get either. With `cut`, `final`
    bytes end at a later record of the file, and not with the file.
    """

    first: bool = False
    final: bool = True
    left: int | None = None
    most: int = ALL
    stays: _native.MappedFile | None = None
    objects: bool = False
    at: int = 0
    scan: _native.RecordScan | None = None
    cut: bool = False


class ScanResult(NamedTuple):
    """What was found in some bytes, how many of them were consumed, and how many lines these hold.

    With `more` there may be more rows in the others. `lacks` is what the end of the file lacks, if anything: its rows
    are sound, but more may have followed.
    """

    parts: list[ScanPart]
    used: int
    lines: int = 0
    more: bool = False
    lacks: str = ""

    @property
    def rows(self) -> int:
        """Return how many good rows were found."""
        return sum([part.rows for part in self.parts if isinstance(part, ScannedRows)])


@dataclass(frozen=True)
class Format(ABC):
    """The layout of records in a file. `compression` is one of tf.data's names."""

    compression: str = ""

    lasting_text = True
    """Whether its text in a state never changes."""
    is_text = False
    """Whether a file that begins like compressed data cannot have this format."""
    counts_lines = False
    """Whether an error names the line."""
    indexed = False
    """Whether records can be read without those before them, once their offsets are known."""
    skimmed = False
    """Whether `starts` finds the records of a file."""
    sure = False
    """Whether each record that `starts` finds is a row: then records may be counted even if bad ones do not count."""
    joinable = False
    """Whether `scan_files` finds the records of concatenated files."""
    pointed = False
    """Whether `scan` can return references into persistent bytes instead of rows."""
    boxes = False
    """Whether `scan` can make objects of texts at once."""
    terminated = False
    """Whether LF ends a record, though the last one may lack it."""
    has_end = False
    """Whether a file ends with a marker, which `missing_end` looks for."""
    prefers_rows = False
    """Whether `cut` takes `prefer`, the rows to cut before if there is a choice."""
    divisible = False
    """Whether `cut` finds record boundaries; `cuttable` says whether it may be called."""

    @property
    def cuttable(self) -> bool:
        """Whether pieces of a file can be read from the file itself; compressed ones are strands (`strand.py`)."""
        return self.divisible and not self.compression

    @property
    def structure(self) -> Structure:
        """How the components of a row are put together."""
        return LEAF

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """What a row looks like."""

    @property
    def bare(self) -> Format:
        """The format of records by themselves, without what a file has around them."""
        return self

    @abstractmethod
    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        """Split bytes into rows. Bytes that are not consumed come again, with more after them unless they are final."""

    def pick(self, parts: list[Bytes], which: Offsets, bounds: Offsets) -> ScannedRows | None:
        """Return rows by their offsets in several files' bytes, in this order; None if one of them is bad."""
        joined = _native.bytes_pick(parts, which, bounds)
        found = self.bare.scan(joined, ScanHints()).parts
        whole = found[0] if len(found) == 1 else None
        return whole if isinstance(whole, ScannedRows) and whole.rows == len(which) else None

    def scan_files(self, data: bytes, ends: Offsets) -> tuple[ScannedRows, Offsets] | None:  # noqa: ARG002
        """Return the rows of concatenated files, if `joinable`, and how many there are up to the end of each.

        Return None if one is bad, or the boundaries are ambiguous.
        """
        return None

    def refusal(self, size: int) -> str | None:  # noqa: ARG002
        """Return why a file of this size cannot be one of this format."""
        return None

    def doubt(self, head: bytes) -> str:  # noqa: ARG002
        """Return what to add to the error of a file that begins like this, and in which not even the first record is
        found.
        """
        return ""

    def first_size(self, head: bytes) -> int:  # noqa: ARG002
        """Return the size in bytes of the first record of a file that begins like this; 0 if unknown."""
        return 0

    def find_record(self, data: Bytes, start: int, left: int | None) -> tuple[int, int] | None:  # noqa: ARG002
        """Return where the next record begins, at `start` or after it; None if these bytes do not show it.

        Also return how many bytes from that offset on are needed to be sure of it; 0 if it is sure.
        """
        return None

    def lead(self, data: Bytes) -> int:  # noqa: ARG002
        """Return how many bytes at the start of a file, which begins with `data`, precede its first record."""
        return 0

    def starts(self, data: Bytes, *, final: bool) -> tuple[Offsets, int, str | None]:
        """Return where each record begins, how many bytes they take, and what is wrong with the one after them."""
        raise NotImplementedError(f"{type(self).__name__} files have no index")

    def missing_end(self, data: Bytes) -> str:  # noqa: ARG002
        """Return what the end of a file lacks whose last bytes are `data`, from some record on; empty if nothing.

        The records are sound: only what is missing shows that the file was cut between two of them.
        """
        return ""

    def cut(self, data: Bytes, target: int, *, first: bool, final: bool) -> CutPoints:
        """Find offsets at which a file can be divided into pieces that are read independently.

        Nothing is parsed, but the records and lines are counted as `scan` counts them. Only offsets at which a record
        certainly begins are returned: at the first doubtful byte the cuts end, and the rest of the file is one piece.

        Args:
            data: Bytes that begin at a record, or at the start of the file if `first`.
            target: The least number of bytes between two cuts, and before the first.
            first: Whether `data` begins at the start of the file.
            final: Whether `data` ends at the end of the file.

        Returns:
            The cuts; each piece before one holds at least one record.
        """
        raise NotImplementedError(f"{type(self).__name__} files cannot be cut")
