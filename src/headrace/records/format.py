"""What a format is: how the bytes of a file are cut into rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF, Structure
from headrace.records.files import Bytes

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
    """How much memory the columns take, where that is known."""


class Bad(NamedTuple):
    """A row that could not be made, of the bytes from `start` to `stop`.

    `lost`: nobody can tell where the next is. `ends`: nothing behind it is read, unless the user asks to go on.
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


def choose_cuts(starts: Offsets, target: int) -> Offsets:
    """Return the numbers of the records to cut before: at least `target` bytes apart and at least one record each.

    Args:
        starts: Where each record begins, in increasing order.
        target: The least number of bytes between two cuts, and before the first.
    """
    chosen: list[int] = []
    number, offset = 0, 0
    while (number := max(number + 1, int(np.searchsorted(starts, offset + target)))) < len(starts):
        chosen.append(number)
        offset = int(starts[number])
    return np.array(chosen, np.int64)


class ScanHints(NamedTuple):
    """How to look at some bytes.

    `first` and `final` say that they are the beginning and the end of the file; `left` how many bytes it has from there
    on, where that is known. About `most` rows are wanted of them. Formats that cannot do better do without. Where
    the bytes are those of a mapped file, from byte `at` on, that `stays` as long as somebody holds it, rows may be
    `RecordRefs` to it, which `scan` knows where to find.
    With `objects` texts are wanted as these, and not as columns. Only formats that say they can are asked for either.
    With `cut`, `final` bytes end where a later record of the file begins, and not with the file.
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
    """What was found in some bytes, how many of them are used up, and how many lines these hold.

    With `more` there may be more rows in the others.
    """

    parts: list[ScanPart]
    used: int
    lines: int = 0
    more: bool = False

    @property
    def rows(self) -> int:
        """How many good rows were found."""
        return sum([part.rows for part in self.parts if isinstance(part, ScannedRows)])


@dataclass(frozen=True)
class Format(ABC):
    """How records lie in a file. `compression` is one of tf.data's names."""

    compression: str = ""

    is_text = False
    """Whether a file that begins as packed data do cannot be one of this format."""
    counts_lines = False
    """Whether an error names the line."""
    indexed = False
    """Whether records can be found without reading those before them, once it is known where they begin."""
    skimmed = False
    """Whether `starts` finds the records of a file."""
    sure = False
    """Whether each record that `starts` finds is a row: then records may be counted even if bad ones do not count."""
    joinable = False
    """Whether `scan_files` finds the records of whole files that lie end to end."""
    pointed = False
    """Whether `scan` can say where rows lie in bytes that stay, in place of making them."""
    boxes = False
    """Whether `scan` can make objects of texts at once."""
    terminated = False
    """Whether LF ends a record, though the last one may lack it."""
    divisible = False
    """Whether `cut` finds where records begin; `cuttable` says whether it may be asked to."""

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
        """Cut bytes into rows; what is not used comes again, with more behind it unless they are the final ones."""

    def pick(self, parts: list[Bytes], which: Offsets, bounds: Offsets) -> ScannedRows | None:
        """ScannedRows by where they lie in several files' bytes, in this order; None if one of them is bad."""
        joined = _native.bytes_pick(parts, which, bounds)
        found = self.bare.scan(joined, ScanHints()).parts
        whole = found[0] if len(found) == 1 else None
        return whole if isinstance(whole, ScannedRows) and whole.rows == len(which) else None

    def scan_files(self, data: bytes, ends: Offsets) -> tuple[ScannedRows, Offsets] | None:  # noqa: ARG002
        """The rows of whole files that lie end to end, if `joinable`, and how many there are up to the end of each.

        None if one is bad, or cannot be told apart.
        """
        return None

    def refusal(self, size: int) -> str | None:  # noqa: ARG002
        """Why a file of this size cannot be one of this format."""
        return None

    def doubt(self, head: bytes) -> str:  # noqa: ARG002
        """What to add to the error of a file that begins like this, and in which not even the first record is found."""
        return ""

    def first_size(self, head: bytes) -> int:  # noqa: ARG002
        """How many bytes the first record of a file that begins like this has; 0 where that is not to be seen."""
        return 0

    def find_record(self, data: Bytes, start: int, left: int | None) -> tuple[int, int] | None:  # noqa: ARG002
        """Where, at `start` or after it, the next record begins; None if that is not to be seen in these bytes.

        With it, how many bytes must be there from that place on to be sure of it; 0 if it is sure.
        """
        return None

    def lead(self, data: Bytes) -> int:  # noqa: ARG002
        """How many bytes of a file, which begins with `data`, lie before its first record and mean nothing."""
        return 0

    def starts(self, data: Bytes, *, final: bool) -> tuple[Offsets, int, str | None]:
        """Where each record begins, how many bytes they take, and what is wrong with the one after them."""
        raise NotImplementedError(f"{type(self).__name__} files have no index")

    def cut(self, data: Bytes, target: int, *, first: bool, final: bool) -> CutPoints:
        """Find offsets at which a file can be divided into pieces that are read independently.

        Nothing is parsed, but the records and lines are counted as `scan` counts them. Only offsets at which a record
        certainly begins are returned: at the first doubtful byte the cuts end, and the rest of the file is one piece.

        Args:
            data: Bytes that begin where a record does, or where the file does if `first`.
            target: The least number of bytes between two cuts, and before the first.
            first: Whether `data` begins where the file does.
            final: Whether `data` ends where the file does.

        Returns:
            The cuts; each piece before one holds at least one record.
        """
        raise NotImplementedError(f"{type(self).__name__} files cannot be cut")
