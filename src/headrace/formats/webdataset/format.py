"""WebDataset files: tar archives in which files that stand together and differ in their endings alone are a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column, join, text_column
from headrace.columns.arrow_text import binary
from headrace.core.override import override
from headrace.errors import what_there_is
from headrace.formats.shared.files import Bytes
from headrace.formats.shared.format import (
    ANY_ROW,
    Bad,
    CutPoints,
    Format,
    Offsets,
    PreferredRows,
    ScanHints,
    ScannedRows,
    ScanPart,
    ScanResult,
    choose_cuts,
)
from headrace.formats.text.format import decode_lines
from headrace.formats.webdataset.tar import DamageError, Member, Sample, missing_end, samples
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure, flatten

KEY = "__key__"
DONE, MORE_NEEDED, DAMAGED, FOREIGN = range(4)
"""Why the kernel that finds samples stopped."""


class FoundSamples(NamedTuple):
    """Samples by column, and what is wrong after them.

    `contents` holds where the content begins and ends for each sample and field, -1 if the sample lacks the field.
    """

    begins: Offsets
    ends: Offsets
    keys: Column
    contents: NDArray[np.int64]
    wrong: DamageError | None


@dataclass(frozen=True)
class TarSamples(Format):
    """One row a sample: its key, and the bytes of the `fields`, which are endings of files."""

    fields: tuple[str, ...] = ()

    indexed = True
    skimmed = True
    divisible = prefers_rows = True
    has_end = True

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
        found, lacks = self._checked(data, hints)
        parts = self._parts(data, found)
        if found.wrong is not None:
            doubt = ": is this a tar file?" if hints.first and not len(found.begins) else ""
            wrong = Bad(f"{found.wrong}{doubt}", found.wrong.at, len(data), lost=True)
            return ScanResult([*parts, wrong], wrong.start)
        if len(found.begins) == hints.most:
            return ScanResult(parts, int(found.ends[-1]), more=True, lacks=lacks)
        used = int(found.ends[-1]) if len(found.ends) else 0
        return ScanResult(parts, len(data) if hints.final else used, lacks=lacks)

    def _checked(self, data: Bytes, hints: ScanHints) -> tuple[FoundSamples, str]:
        """Return the samples, and what the end of the file lacks, if these bytes show that."""
        found = self._found(data, hints)
        if not hints.final or hints.cut or found.wrong is not None:
            return found, ""
        if len(found.begins) == hints.most and found.ends[-1] < len(data):  # not all bytes were looked at
            return found, ""
        if hints.first and not len(data):
            return found, missing_end(data)
        try:
            return found, self.missing_end(data[found.begins[-1] :] if len(found.begins) else data)
        except DamageError as error:
            return found._replace(wrong=DamageError(str(error), len(data))), ""

    def missing_end(self, data: Bytes) -> str:
        return missing_end(data) if len(data) else ""  # nothing is left if the reader begins at the end

    def _found(self, data: Bytes, hints: ScanHints) -> FoundSamples:
        fields = [field.encode(errors="surrogateescape") for field in self.fields]
        made = _native.tar_samples(data, fields, hints.most, hints.final, hints.cut)
        begins, ends, keys, offsets, contents, why, stopped = made
        if why == FOREIGN:  # Python knows the lower case of letters beyond ASCII
            return self._found_slowly(data, hints)
        wrong = _damage(data, stopped) if why == DAMAGED or (why == MORE_NEEDED and hints.final) else None
        return FoundSamples(
            begins, ends, _key_column(keys, offsets), contents.reshape(len(begins), len(fields), 2), wrong
        )

    def _found_slowly(self, data: Bytes, hints: ScanHints) -> FoundSamples:
        found: list[Sample] = []
        wrong = None
        try:
            for sample in islice(samples(data, final=hints.final, cut=hints.cut), hints.most):
                found.append(sample)  # one by one: what comes before damage is kept
        except DamageError as error:
            wrong = error
        begins, ends = (np.array([sample[i] for sample in found], np.int64) for i in (1, 2))
        lacking = Member("", 0, -1, -1, 0)
        contents = [sample.members.get(field, lacking)[2:4] for sample in found for field in self.fields]
        keys = text_column([sample.key for sample in found])
        shape = len(found), len(self.fields), 2
        return FoundSamples(begins, ends, keys, np.array(contents, np.int64).reshape(shape), wrong)

    def _parts(self, data: Bytes, found: FoundSamples) -> list[ScanPart]:
        """Runs of samples that have all fields, and bad ones between them."""
        lacking = found.contents[:, :, 0] < 0
        parts: list[ScanPart] = []
        start = 0
        for bad in [*np.flatnonzero(lacking.any(axis=1)).tolist(), len(found.begins)]:
            if start < bad:
                parts.append(self._rows(data, found, slice(start, bad)))
            if bad < len(found.begins):
                begin, end = int(found.begins[bad]), int(found.ends[bad])
                field = self.fields[int(lacking[bad].argmax())]
                there = what_there_is(field, _endings(data[begin:end]))
                parts.append(Bad(f"sample {_key(found.keys, bad)!r} has no {field!r}: {there}", begin, end))
            start = bad + 1
        return parts

    def _rows(self, data: Bytes, found: FoundSamples, which: slice) -> ScannedRows:
        columns = {KEY: found.keys[which]}
        rows = which.stop - which.start
        for i, field in enumerate(self.fields):
            bounds = found.contents[which, i]
            offsets = np.concatenate([[0], np.cumsum(bounds[:, 1] - bounds[:, 0])])
            values = _native.bytes_pick([data], np.zeros(rows, np.int64), np.ascontiguousarray(bounds).ravel())
            columns[field] = binary(values, offsets)
        return ScannedRows(self.structure.leaves_in(columns), rows, int(found.begins[which.start]))

    def pick(self, parts: list[Bytes], which: Offsets, bounds: Offsets) -> ScannedRows | None:
        made: list[ScannedRows] = []
        for i, part in enumerate(which.tolist()):
            found = self.scan(parts[part][bounds[2 * i] : bounds[2 * i + 1]], ScanHints()).parts
            if len(found) != 1 or not isinstance(found[0], ScannedRows) or found[0].rows != 1:
                return None
            made.append(found[0])
        return ScannedRows([join(columns) for columns in zip(*[m.columns for m in made], strict=True)], len(made), 0)

    def starts(self, data: Bytes, *, final: bool) -> tuple[Offsets, int, str | None]:
        found, _ = replace(self, fields=())._checked(data, ScanHints(final=final))
        if found.wrong is not None:
            return found.begins, found.wrong.at, str(found.wrong)
        used = int(found.ends[-1]) if len(found.ends) else 0
        return found.begins, len(data) if final else used, None

    @override
    def cut(self, data: Bytes, target: int, *, first: bool, final: bool, prefer: PreferredRows = ANY_ROW) -> CutPoints:
        starts, _, _ = self.starts(data, final=True)
        rows = choose_cuts(starts, target, prefer)
        return CutPoints(starts[rows], rows, np.zeros_like(rows))


def _damage(data: Bytes, at: int) -> DamageError:
    """Return the error of the member whose headers begin at `at`."""
    try:
        for _ in samples(data[at:], final=True):
            pass
    except DamageError as error:
        return DamageError(str(error), at + error.at)
    return DamageError("a tar header changed while it was read", at)


def _key_column(keys: Bytes, offsets: Offsets) -> Column:
    """Keys as text; bytes that are no UTF-8 are kept as lone surrogates."""
    column = binary(keys, offsets)
    text = decode_lines(column, "utf-8")
    return text_column([key.decode(errors="surrogateescape") for key in column.to_pylist()]) if text is None else text


def _key(keys: Column, row: int) -> str:
    key: str = keys[row] if isinstance(keys, list) else keys[row].as_py()
    return key


def _endings(data: Bytes) -> list[str]:
    """Return the endings of the files of one sample."""
    try:
        return list(next(samples(data, final=True)).members)
    except (DamageError, StopIteration):  # the file has changed since the sample was found
        return []
