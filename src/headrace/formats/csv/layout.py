"""Infer the columns of CSV files from their header and first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import ParseError
from headrace.formats.csv.columns import CsvColumn
from headrace.formats.csv.format import Csv
from headrace.formats.csv.header import first_rows
from headrace.formats.csv.source import csv_column, delimiter
from headrace.formats.shared.reader import first_bytes
from headrace.formats.shared.unpack import codec
from headrace.plan.structure import flatten
from headrace.remote.redact import show_path
from headrace.remote.transport import Transport

PROBE_BYTES = 1 << 20
"""Types are inferred from no more than these first bytes."""
NUMBERS = ("int32", "int64", "float32", "float64")
MAX_EXACT_FLOAT_INTEGER = 2**53
"""Integers up to this are exact in float64."""


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """A user's options for the columns; with `zero`, 0 and "" replace missing values, as in tf.data."""

    reader: str
    column_names: Sequence[str] | None
    column_defaults: Sequence[Any] | Mapping[str, Any] | None
    label_name: str | None
    select_columns: Sequence[int | str] | None
    rows: int | None
    nulls: Mapping[str, Any]
    zero: bool = False


def bare_form(
    compression_type: str | None, header: bool, field_delim: str, use_quote_delim: bool, na_value: str
) -> Csv:
    """Return how records are written in such files, before anything is known of their columns."""
    return Csv(
        codec(compression_type),
        header=bool(header),
        delimiter=delimiter(field_delim),
        quotes=bool(use_quote_delim),
        na=na_value,
    )


def layout(path: str, form: Csv, asked: ColumnOptions, via: Transport) -> Csv:
    """Return the format of files like this one: `form` with its columns."""
    data = first_bytes(path, form.compression, PROBE_BYTES, via)
    try:
        heading, rows = first_rows(data, form, asked.rows or len(data), final=len(data) < PROBE_BYTES)
    except ParseError as error:
        raise ValueError(f"{asked.reader}: {show_path(path)}, line {error.row + 1}: {error}") from None
    names = _names(asked, heading if form.header else None)
    chosen = _choose_columns(asked, names)
    kept = tuple(names[i] for i in chosen)
    arranged: Any = {n: i for i, n in enumerate(kept)}
    if asked.label_name is not None:
        if asked.label_name not in kept:
            raise ValueError(
                f"{asked.reader}: label_name {asked.label_name!r} is none of the columns {', '.join(kept)}"
            )
        arranged = (arranged, arranged.pop(asked.label_name))
    structure, order = flatten(arranged)
    columns = _columns(asked, kept, [[row[i] for row in rows if i < len(row)] for i in chosen], form.na)
    return Csv(
        form.compression, tuple(columns), structure, kept, form.header, form.delimiter, form.quotes, form.na,
        None if len(chosen) == len(names) else tuple(chosen), (), tuple(order),
        heading if form.header and asked.column_names is None else None,
    )  # fmt: skip


def _names(asked: ColumnOptions, heading: tuple[str, ...] | None) -> list[str]:
    if asked.column_names is None and heading is None:
        raise ValueError(f"{asked.reader}: files without a header line need column_names")
    names = list(asked.column_names if asked.column_names is not None else heading or ())
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"{asked.reader}: two columns are named {', '.join(map(repr, twice))}; give column_names")
    return names


def _choose_columns(asked: ColumnOptions, names: list[str]) -> list[int]:
    select = asked.select_columns
    if select is None:
        return list(range(len(names)))
    unknown = [c for c in select if (c not in names if isinstance(c, str) else not 0 <= c < len(names))]
    if unknown:
        raise ValueError(f"{asked.reader}: select_columns {unknown} are none of the columns {', '.join(names)}")
    return sorted({names.index(c) if isinstance(c, str) else int(c) for c in select})


def _columns(asked: ColumnOptions, names: tuple[str, ...], values: list[list[str]], na: str) -> list[CsvColumn]:
    given = asked.column_defaults
    if given is not None and not isinstance(given, Mapping):
        if len(given) != len(names):
            raise ValueError(f"{asked.reader}: column_defaults has {len(given)} entries for {len(names)} columns")
        given = dict(zip(names, given, strict=True))
    defaults = dict(given or {})
    for argument, named in (("column_defaults", defaults), ("nulls", asked.nulls)):
        unknown = [n for n in named if n not in names]
        if unknown:
            raise ValueError(f"{asked.reader}: {argument} names {unknown}, which are no columns that are read")
    columns = []
    for name, texts in zip(names, values, strict=True):
        what = f"{asked.reader}: column {name!r}"
        if name in defaults:
            found = csv_column(what, defaults[name])
        elif asked.zero:
            kind = infer_kind(texts, na)
            found = CsvColumn(kind, b"" if kind == "str" else 0)
        else:
            found = _with_missing(infer_kind(texts, na), texts, na, told=name in asked.nulls)
        columns.append(_fill_empty(what, found, asked.nulls[name]) if name in asked.nulls else found)
    return columns


def infer_kind(values: Sequence[str], na: str) -> str:
    """Return the narrowest kind that holds all values, as tf.data infers it."""
    least = 0
    known = [v for v in values if v not in ("", na)]
    for value in known:
        least = next((i for i in range(least, len(NUMBERS)) if _holds(NUMBERS[i], value)), len(NUMBERS))
    return NUMBERS[least] if known and least < len(NUMBERS) else "str"


def _with_missing(kind: str, values: Sequence[str], na: str, *, told: bool) -> CsvColumn:
    """Return a column that can hold what is missing: integers among which some are become floats, if these
    hold them.
    """
    if kind == "str":
        return CsvColumn(kind, b"")
    if kind.startswith("float"):
        return CsvColumn(kind, float("nan"))
    known = [v for v in values if v not in ("", na)]
    if told or len(known) == len(values) or any(abs(int(v)) > MAX_EXACT_FLOAT_INTEGER for v in known):
        return CsvColumn(kind)
    return CsvColumn("float64", float("nan"))


def _fill_empty(what: str, found: CsvColumn, null: object) -> CsvColumn:
    """Return the column with `null` for empty fields; widened if it must be to hold that."""
    given = csv_column(what, null)
    if found.kind in ("str", "bytes"):
        return CsvColumn(found.kind, given.default if isinstance(given.default, bytes) else str(null).encode())
    if given.default is None or isinstance(given.default, bytes):
        raise ValueError(f"{what} holds {found.kind}: {null!r} cannot stand for what is missing")
    if found.kind.startswith("int") and given.kind.startswith("float"):
        return CsvColumn("float64", given.default)
    wider = "int64" if (found.kind, given.kind) == ("int32", "int64") else found.kind
    return CsvColumn(wider, given.default)


def _holds(kind: str, value: str) -> bool:
    if "_" in value or not value.isascii():  # which only Python reads as numbers
        return False
    try:
        if kind.startswith("int"):
            return bool(np.iinfo(kind).min <= int(value) <= np.iinfo(kind).max)
        return abs(float(value)) <= float(np.finfo(kind).max)
    except ValueError:
        return False
