"""CSV files as dicts, with the types of the columns inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import what_there_is
from headrace.plan.structure import flatten
from headrace.records.csv import Csv, CsvColumn, table
from headrace.records.reader import first_bytes
from headrace.records.unpack import codec
from headrace.sources.csv import column, delimiter
from headrace.sources.files import read_files
from headrace.sources.list_files import matching

if TYPE_CHECKING:
    from headrace.dataset import Dataset

PROBED = 1 << 20
"""Types are inferred from no more than these first bytes."""
NUMBERS = ("int32", "int64", "float32", "float64")


def from_csv(
    file_pattern: Any,
    batch_size: int | None = None,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | Mapping[str, Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[int | str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = 1,
    shuffle: bool = False,
    shuffle_buffer_size: int = 10_000,
    shuffle_seed: int | None = None,
    *,
    num_parallel_reads: int | None = None,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    on_error: Any = "raise",
    name: str | None = None,
) -> Dataset:
    """The rows of the CSV files that match a pattern as dicts, or, with `label_name`, as pairs of a dict and the label.

    The arguments are those of tf.data's `make_csv_dataset`, but rows come once and in order unless told otherwise, and
    one by one unless `batch_size` is given. Where `column_defaults` says nothing, the first rows tell the types (int32,
    int64, float32, float64, else str), and an empty field is 0 or "".

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("name,age,paid\\nLee,31,2.5\\nKim,,1\\n")
    ...     for features, label in hr.Dataset.from_csv(f"{folder}/*.csv", label_name="paid"):
    ...         print(features, label)
    {'name': 'Lee', 'age': np.int32(31)} 2.5
    {'name': 'Kim', 'age': np.int32(0)} 1.0
    """
    files = matching(file_pattern)
    probe = Csv(codec(compression_type), header=bool(header), delimiter=delimiter(field_delim), quotes=use_quote_delim)
    rows = list(islice(table(_whole_lines(files[0], probe), probe), (num_rows_for_inference or 10**9) + 1))
    if header and not rows:
        raise ValueError(f"from_csv: {files[0]} is empty: it has no header line")
    heading = rows.pop(0) if header else None
    names = _names(column_names, heading)
    chosen = _chosen(select_columns, names)
    columns = tuple(_columns(column_defaults, chosen, names, rows, na_value))
    kept = [names[i] for i in chosen]
    arranged: Any = {n: i for i, n in enumerate(kept)}
    if label_name is not None:
        if label_name not in kept:
            raise ValueError(
                f"from_csv: label_name {label_name!r} is none of the columns: {what_there_is(label_name, kept)}"
            )
        arranged = (arranged, arranged.pop(label_name))
    structure, order = flatten(arranged)
    select = None if len(chosen) == len(names) else tuple(chosen)
    form = Csv(
        probe.compression, columns, structure, tuple(kept), probe.header, probe.delimiter, probe.quotes, na_value,
        select, (), tuple(order), heading if column_names is None else None,
    )  # fmt: skip
    ds = read_files(
        "from_csv",
        files,
        form,
        buffer_size=None,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        name=name,
    )
    ds = ds.shuffle(shuffle_buffer_size, seed=shuffle_seed) if shuffle else ds
    ds = ds if num_epochs == 1 else ds.repeat(num_epochs)
    return ds if batch_size is None else ds.batch(batch_size, drop_remainder=num_epochs is None)


def _whole_lines(path: str, form: Csv) -> bytes:
    data = first_bytes(path, form.compression, PROBED)
    return data if len(data) < PROBED else data[: data.rfind(b"\n") + 1]


def _names(given: Sequence[str] | None, heading: tuple[str, ...] | None) -> list[str]:
    if given is None and heading is None:
        raise ValueError("from_csv: files without a header line need column_names")
    names = list(given if given is not None else heading or ())
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"from_csv: two columns are named {', '.join(map(repr, twice))}; give column_names")
    return names


def _chosen(select: Sequence[int | str] | None, names: list[str]) -> list[int]:
    if select is None:
        return list(range(len(names)))
    unknown = [c for c in select if (c not in names if isinstance(c, str) else not 0 <= c < len(names))]
    if unknown:
        raise ValueError(
            f"from_csv: select_columns {unknown} are none of the columns: {what_there_is(unknown[0], names)}"
        )
    return sorted({names.index(c) if isinstance(c, str) else int(c) for c in select})


def _columns(
    given: Sequence[Any] | Mapping[str, Any] | None,
    chosen: list[int],
    names: list[str],
    rows: list[tuple[str, ...]],
    na: str,
) -> list[CsvColumn]:
    if given is not None and not isinstance(given, Mapping):
        if len(given) != len(chosen):
            raise ValueError(f"from_csv: column_defaults has {len(given)} entries for {len(chosen)} columns")
        return [column(i, default) for i, default in enumerate(given)]
    told = dict(given or {})
    unknown = [n for n in told if n not in [names[i] for i in chosen]]
    if unknown:
        raise ValueError(
            f"from_csv: column_defaults names {unknown}, which are no columns that are read: "
            f"{what_there_is(unknown[0], [names[i] for i in chosen])}"
        )
    return [
        column(i, told[names[i]]) if names[i] in told else _inferred([row[i] for row in rows if i < len(row)], na)
        for i in chosen
    ]


def _inferred(values: list[str], na: str) -> CsvColumn:
    """The narrowest kind that holds all values, as tf.data infers it."""
    least = 0
    known = [v for v in values if v not in ("", na)]
    for value in known:
        least = next((i for i in range(least, len(NUMBERS)) if _holds(NUMBERS[i], value)), len(NUMBERS))
    return CsvColumn(NUMBERS[least], 0) if known and least < len(NUMBERS) else CsvColumn("str", b"")


def _holds(kind: str, value: str) -> bool:
    try:
        if kind.startswith("int"):
            return bool(np.iinfo(kind).min <= int(value) <= np.iinfo(kind).max)
        return bool(np.finfo(kind).min <= float(value) <= np.finfo(kind).max)
    except ValueError:
        return False
