"""The meaning of `from_tfrecord`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.types import Nested
from headrace.errors import ParseError
from headrace.formats.tfrecord.format import TFRecords
from headrace.io.from_tfrecord import Examples
from headrace.io.parse import parse_single_example
from headrace.io.wire import fields
from headrace.reference.records import NaiveRecord, Wrong, read_records


@read_records.register
def _(form: Examples, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:
    for record, offset, line in read_records(TFRecords(), data, go_on=go_on):
        try:
            good = not isinstance(record, Wrong)
            yield _example(record, form) if good else record, offset, line
        except ParseError as error:
            yield Wrong(form.reason(error)), offset, line


def _example(record: bytes, form: Examples) -> Nested:
    made = parse_single_example(record, {})  # raises if it is none
    if form.inferred:
        for number, what in ((1, "feature"), (2, "feature list")):
            for name in _names(record, number):
                if number == 2 or name not in dict(form.features):
                    raise ParseError(f"{what} {name!r} is none of those that are described")
    return made | parse_single_example(record, dict(form.features))


def _names(record: bytes, number: int) -> Iterator[str]:
    """Yield the names of the features, or of the feature lists, that hold something."""
    for whole in (f.value for f in fields(memoryview(record)) if f[:2] == (number, 2)):
        for entry in (f.value for f in fields(whole) if f[:2] == (1, 2)):
            parts = {f.number: f.value for f in fields(entry)}
            if any(1 <= f.number <= 3 and f.wire == 2 for f in fields(parts.get(2, memoryview(b"")))):
                yield bytes(parts.get(1, b"")).decode(errors="backslashreplace")
