"""Infer the features of unknown records."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

from headrace.core.types import Array, TensorLike
from headrace.errors import ParseError
from headrace.io.binary import record_bytes
from headrace.io.examples import Example
from headrace.io.feature import BYTES, DTYPES, Feature
from headrace.io.features import FixedLenFeature, VarLenFeature
from headrace.io.wire import fields


def infer_features(
    path_or_records: object, limit: int = 100, compression_type: str | None = None
) -> dict[str, Feature]:
    """Infer features for `parse_example` from the first `limit` Examples of a file, or from some records.

    A feature has a fixed length if all of them agree, else a variable one.

    Args:
        path_or_records: Path of a TFRecord file, or records.
        limit: Number of records to look at.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.

    >>> records = [hr.io.encode_example({"label": i, "ids": range(i)}) for i in range(3)]
    >>> for name, feature in hr.io.infer_features(records).items():
    ...     print(name, feature)
    ids VarLenFeature(dtype=dtype('int64'))
    label FixedLenFeature(shape=(), dtype=dtype('int64'), default_value=None)
    """
    records = list(islice(_records(path_or_records, compression_type), limit))
    if not records:
        raise ValueError("there are no records to tell the features from")
    examples = [_example(record, number) for number, record in enumerate(records)]
    names = sorted({name for example in examples for name in example})
    return {name: _describe_values(name, [example.get(name) for example in examples]) for name in names}


def _example(record: bytes, number: int) -> Example:
    try:
        example = Example.parse(record)
    except ParseError as error:
        raise ParseError(f"record {number} is {error}", number) from None
    if any(f.number == 2 for f in fields(memoryview(record))):  # which is the lists of a SequenceExample
        raise ParseError(f"record {number} is a SequenceExample: describe it for hr.io.parse_sequence_example", number)
    return example


def _describe_values(name: str, found: list[Array | None]) -> Feature:
    """Return the feature that fits the values of all records, None for missing ones."""
    there = [values for values in found if values is not None]
    dtypes = {values.dtype for values in there if len(values)} or {there[0].dtype}
    if len(dtypes) > 1:
        kinds = " and ".join(sorted(str(dtype) for dtype in dtypes))
        raise ParseError(f"feature {name!r} is {kinds} in different records")
    dtype = dtypes.pop()
    lengths = {-1 if values is None else len(values) for values in found}
    dtype = DTYPES[BYTES] if dtype.hasobject else dtype
    if len(lengths) > 1:
        return VarLenFeature(dtype)
    (length,) = lengths
    return FixedLenFeature(() if length == 1 else (length,), dtype)


def _records(source: TensorLike, compression_type: str | None) -> Iterable[bytes]:
    if not isinstance(source, str | os.PathLike):
        return (record_bytes(r.as_py() if hasattr(r, "as_py") else r) for r in source)
    from headrace.formats.tfrecord.source import TFRecordDataset

    return iter(TFRecordDataset(source, compression_type or ""))
