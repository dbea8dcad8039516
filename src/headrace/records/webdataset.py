"""WebDataset files: tar archives in which files that stand together and differ in their endings alone are a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace import _native
from headrace.arrow_text import binary
from headrace.columns import join, text_column
from headrace.errors import what_there_is
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure, flatten
from headrace.records.files import Bytes
from headrace.records.format import Bad, Format, Offsets, ScanHints, ScannedRows, ScanPart, ScanResult

BLOCK = 512
KEY = "__key__"
EMPTY = bytes(BLOCK)
LONGEST_NAME = 1 << 16


class Member(NamedTuple):
    """A file in an archive: its name, where its headers begin, its content lies, and the next header would be."""

    name: str
    begin: int
    start: int
    stop: int
    end: int


class Sample(NamedTuple):
    """Members of one key, by their endings."""

    key: str
    begin: int
    end: int
    members: dict[str, Member]


class DamageError(ValueError):
    """No header where one must be, or one that ends beyond the bytes; `at` is where it begins."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


class MoreNeededError(ValueError):
    """The bytes end within a member that begins `at`."""

    def __init__(self, at: int) -> None:
        super().__init__("the file ends within a member")
        self.at = at


def members(data: Bytes) -> Iterator[Member]:
    """The files of an archive, of which `data` may be a part from some header on."""
    at, begin, long_name = 0, None, ""
    while at + BLOCK <= len(data):
        header = data[at : at + BLOCK].tobytes()
        if header == EMPTY and begin is None:
            at += BLOCK
            continue
        size, name = _size_and_name(header, at)
        begin = at if begin is None else begin
        start = at + BLOCK
        end = start + -(-size // BLOCK) * BLOCK
        kind = header[156:157]
        if kind in b"LKxg" and size > LONGEST_NAME:
            raise DamageError(f"a header of {size} bytes", begin)
        if start + size > len(data):
            raise MoreNeededError(begin)
        if kind == b"L":
            long_name = _text(data[start : start + size].tobytes())
        elif kind == b"x":
            long_name = _path_of_record(data[start : start + size].tobytes()) or long_name
        elif kind not in b"Kg":
            if kind in b"0\0":
                yield Member(long_name or name, begin, start, start + size, end)
            begin, long_name = None, ""
        at = end
    if begin is not None or at < len(data):
        raise MoreNeededError(at if begin is None else begin)


def _size_and_name(header: bytes, at: int) -> tuple[int, str]:
    said = header[148:156].split(b"\0")[0].strip()
    summed = sum(header) - sum(header[148:156]) + 8 * 32
    if not said or not all(48 <= byte < 56 for byte in said) or int(said, 8) != summed:
        raise DamageError("the checksum of a tar header is wrong", at)
    field = header[124:136]
    if field[0] & 0x80:
        size = int.from_bytes(field[1:], "big")
    else:
        digits = field.split(b"\0")[0].strip() or b"0"
        if not all(48 <= byte < 56 for byte in digits):
            raise DamageError("the size in a tar header is no number", at)
        size = int(digits, 8)
    name, prefix = _text(header[:100]), _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return size, f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode(errors="surrogateescape")


def _path_of_record(content: bytes) -> str:
    """The path in an extended header, whose lines are `length key=value`."""
    while content:
        length, _, _ = content.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(content):
            return ""
        key, _, value = content[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"path":
            return value.decode(errors="surrogateescape")
        content = content[int(length) :]
    return ""


def key_and_ending(name: str) -> tuple[str, str] | None:
    """What a file is called up to the first dot of its last part, and what is behind; None if it is of no row."""
    name = name.removeprefix("./")
    folder, _, file = name.rpartition("/")
    base, dot, ending = file.partition(".")
    if not dot or not ending or not base or base.startswith("__"):
        return None
    return f"{folder}/{base}" if folder else base, ending.lower()


def samples(data: Bytes, *, final: bool) -> Iterator[Sample]:
    """The rows of an archive; of a part of it that is not the `final` one, those that are known to be whole."""
    open_one: Sample | None = None
    try:
        for member in members(data):
            named = key_and_ending(member.name)
            if named is None:
                continue
            key, ending = named
            if open_one is not None and (key != open_one.key or ending in open_one.members):
                yield open_one._replace(end=member.begin)
                open_one = None
            if open_one is None:
                open_one = Sample(key, member.begin, member.end, {})
            open_one.members[ending] = member
            open_one = open_one._replace(end=member.end)
    except MoreNeededError as error:
        if not final:
            return
        if open_one is not None:
            yield open_one._replace(end=error.at)
        raise DamageError("the file ends within a member", error.at) from None
    except DamageError:
        if open_one is not None:
            yield open_one
        raise
    if final and open_one is not None:
        yield open_one


@dataclass(frozen=True)
class TarSamples(Format):
    """One row a sample: its key, and the bytes of the `fields`, which are endings of files."""

    fields: tuple[str, ...] = ()

    indexed = True
    skimmed = True

    @property
    def structure(self) -> Structure:
        return flatten(dict.fromkeys((KEY, *self.fields), 0))[0]

    @property
    def spec(self) -> Spec:
        return Spec.of_signature(
            {
                KEY: TensorSpec((), np.str_),
                **{field: TensorSpec((), np.bytes_) for field in self.fields},
            }
        )

    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        parts: list[ScanPart] = []
        run: list[Sample] = []
        used, rows, wrong = 0, 0, None
        found = samples(data, final=hints.final)
        try:
            for sample in found:
                used = sample.end
                missing = [field for field in self.fields if field not in sample.members]
                if missing:
                    parts += self._rows(data, run)
                    run = []
                    parts.append(Bad(_lacks(sample, missing[0]), sample.begin, sample.end))
                else:
                    run.append(sample)
                rows += 1
                if rows >= hints.most:
                    return ScanResult([*parts, *self._rows(data, run)], used, more=True)
        except DamageError as error:
            wrong = Bad(f"{error}: is this a tar file?" if not rows else str(error), error.at, len(data), lost=True)
        parts += self._rows(data, run)
        if wrong is not None:
            return ScanResult([*parts, wrong], wrong.start)
        return ScanResult(parts, len(data) if hints.final else used)

    def _rows(self, data: Bytes, run: list[Sample]) -> list[ScanPart]:
        if not run:
            return []
        columns = {KEY: text_column([sample.key for sample in run])}
        which = np.zeros(len(run), np.int64)
        for field in self.fields:
            bounds = np.array([sample.members[field][2:4] for sample in run], np.int64)
            offsets = np.concatenate([[0], np.cumsum(bounds[:, 1] - bounds[:, 0])])
            columns[field] = binary(_native.bytes_pick([data], which, bounds.ravel()), offsets)
        return [ScannedRows(self.structure.leaves_in(columns), len(run), run[0].begin)]

    def pick(self, parts: list[Bytes], which: Offsets, bounds: Offsets) -> ScannedRows | None:
        made: list[ScannedRows] = []
        for i, part in enumerate(which.tolist()):
            found = self.scan(parts[part][bounds[2 * i] : bounds[2 * i + 1]], ScanHints()).parts
            if len(found) != 1 or not isinstance(found[0], ScannedRows) or found[0].rows != 1:
                return None
            made.append(found[0])
        return ScannedRows([join(columns) for columns in zip(*[m.columns for m in made], strict=True)], len(made), 0)

    def starts(self, data: Bytes, *, final: bool) -> tuple[Offsets, int, str | None]:
        found, used, wrong = [], 0, None
        try:
            for sample in samples(data, final=final):
                found.append(sample.begin)
                used = sample.end
        except DamageError as error:
            used, wrong = error.at, str(error)
        return np.array(found, np.int64), len(data) if final and wrong is None else used, wrong


def _lacks(sample: Sample, field: str) -> str:
    return f"sample {sample.key!r} has no {field!r}: {what_there_is(field, sample.members)}"
