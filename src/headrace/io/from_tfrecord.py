"""TFRecord files of Examples as dicts, with the features inferred."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.columns.arrow_text import parts
from headrace.columns.kind import Column
from headrace.core.types import FilePatterns, TensorLike
from headrace.errors import ParseError
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
)
from headrace.formats.shared.list_files import matching
from headrace.formats.shared.one_file import Missing
from headrace.formats.tfrecord.format import FOOTER, HEADER, TFRecords
from headrace.formats.tfrecord.source import TFRecordDataset
from headrace.io.feature import Feature
from headrace.io.infer import infer_features
from headrace.io.parse import Plan, plan, specs
from headrace.plan.datasets import dataset_of
from headrace.plan.node import AnyNode
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure, flatten

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def from_tfrecord(
    file_pattern: FilePatterns,
    features: Mapping[str, Feature] | None = None,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    *,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the tf.Examples of the TFRecord files that match one or more patterns, as dicts.

    Without `features`, they are inferred from the first records, as by `hr.io.infer_features`: a later record
    that holds something else, or a feature that these do not have, is an error in its place. The other arguments are
    those of `hr.TFRecordDataset`; records that cannot be parsed are handled like damaged ones, and the error names the
    file, the byte and the record.

    Args:
        file_pattern: Path, URL or glob pattern, or a list of these.
        features: What to parse, by name.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        buffer_size: Number of bytes to read at a time. Default: chosen automatically.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        index: Whether elements can be found by number: True builds an index if needed, False never uses one, "auto"
            uses one that exists.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> ds = hr.Dataset.range(3).map(lambda x: {"x": x, "half": x / 2})
    >>> _ = ds.write_tfrecord(folder / "halves")
    >>> list(hr.Dataset.from_tfrecord(folder / "halves-*.tfrecord"))[2]
    {'half': np.float32(1.0), 'x': np.int64(2)}
    """
    files = matching(file_pattern, storage_options, keep_missing=missing == "skip")
    inferred = features is None
    if features is None:
        probed = "raise" if on_error == "raise" else "skip"
        first = TFRecordDataset(
            files, compression_type, on_error=probed, missing=missing, index=False, storage_options=storage_options
        )
        features = infer_features(first)
    raw: AnyNode = TFRecordDataset(
        files,
        compression_type,
        buffer_size,
        num_parallel_reads,
        name,
        on_error=on_error,
        missing=missing,
        index=index,
        storage_options=storage_options,
    )._node
    form = Examples(raw.format.compression, tuple(features.items()), inferred)
    return dataset_of(replace(raw, format=form, reader="from_tfrecord"))


@dataclass(frozen=True)
class Examples(Format):
    """TFRecords, each of them parsed. A record that cannot be parsed is bad; the next one follows at its regular
    offset.

    If the features were `inferred` from some records, a record that has others is bad too: nothing is lost silently.
    """

    features: tuple[tuple[str, Feature], ...] = ()
    inferred: bool = field(default=False, repr=False)

    indexed = True
    skimmed = True
    divisible = prefers_rows = True

    @cached_property
    def structure(self) -> Structure:
        return flatten(specs(dict(self.features)))[0]

    @cached_property
    def spec(self) -> Spec:
        return Spec.of_signature(specs(dict(self.features)))

    @property
    def plan(self) -> Plan:
        """The compiled description."""
        return plan(dict(self.features), single=True, closed=self.inferred)

    def reason(self, error: ParseError) -> str:
        """Return what is wrong with a record."""
        remedy = "; the features were inferred from the first records: features= says what is read"
        return f"{error}{remedy}" if self.inferred else str(error)

    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        framed = FRAMED.scan(data, hints)
        parse = self.plan.fixed_columns
        parts: list[ScanPart] = []
        for part in framed.parts:
            parts += [part] if isinstance(part, Bad) else self._parsed(part, parse)
        return framed._replace(parts=parts)

    def pick(self, parts: list[Bytes], which: Offsets, bounds: Offsets) -> ScannedRows | None:
        framed = FRAMED.pick(parts, which, bounds)
        made = [] if framed is None else list(self._parsed(framed, self.plan.fixed_columns))
        return made[0] if len(made) == 1 and isinstance(made[0], ScannedRows) else None

    def _parsed(self, rows: ScannedRows, parse: Callable[[Any], dict[str, Any]]) -> Iterator[ScanPart]:
        records: Column = rows.columns[0]
        start = 0
        while start < rows.rows:
            wrong: ParseError | None = None
            try:
                yield self._rows(rows, start, rows.rows, parse)
                return
            except ParseError as error:
                wrong = error
            bad = start + wrong.row
            if bad > start:
                yield self._rows(rows, start, bad, parse)
            at = _begin(records, rows.start, bad)
            yield Bad(self.reason(wrong), at, at + HEADER + len(records[bad].as_buffer()) + FOOTER)
            start = bad + 1

    def _rows(self, rows: ScannedRows, start: int, stop: int, parse: Callable[[Any], dict[str, Any]]) -> ScannedRows:
        records: Column = rows.columns[0]
        columns = self.structure.leaves_in(parse(records[start:stop]))
        return ScannedRows(columns, stop - start, _begin(records, rows.start, start))

    def doubt(self, head: bytes) -> str:
        return FRAMED.doubt(head)

    def find_record(self, data: Bytes, start: int, left: int | None) -> tuple[int, int] | None:
        return FRAMED.find_record(data, start, left)

    def starts(self, data: Bytes, *, final: bool) -> tuple[Offsets, int, str | None]:
        return FRAMED.starts(data, final=final)

    def cut(self, data: Bytes, target: int, *, first: bool, final: bool, prefer: PreferredRows = ANY_ROW) -> CutPoints:
        return FRAMED.cut(data, target, first=first, final=final, prefer=prefer)


FRAMED = TFRecords()


def _begin(records: TensorLike, start: int, number: int) -> int:
    """Return the byte at which a record begins, of those that begin at `start`."""
    _, offsets = parts(records)
    return start + int(offsets[number] - offsets[0]) + number * (HEADER + FOOTER)
