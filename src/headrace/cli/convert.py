"""Convert files of rows to sharded TFRecord or Parquet files."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

import headrace as hr
from headrace.cli.output import Json, say, show_json
from headrace.core.types import JsonObject
from headrace.formats.shared.kinds import FileKind, common_file_kind
from headrace.formats.shared.list_files import matching

if TYPE_CHECKING:
    from headrace.dataset import Dataset

TARGETS = ("tfrecord", "parquet")


def convert(
    sources: Annotated[list[str], typer.Argument(metavar="SRC", help="Files to read.", show_default=False)],
    destination: Annotated[
        str, typer.Argument(metavar="DST", help="Beginning of the names of the new files.", show_default=False)
    ],
    to: Annotated[
        str | None, typer.Option(help="Format: tfrecord or parquet. Default: by the ending of DST, else tfrecord.")
    ] = None,
    shards: Annotated[int | None, typer.Option(help="Number of files to write. Default: chosen by size.")] = None,
    compression: Annotated[
        str | None, typer.Option(help="GZIP, ZLIB or ZSTD for TFRecord; zstd, snappy, gzip, none for Parquet.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Number of threads. Default: one per CPU.")] = None,
    na: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Text that stands for a missing value in CSV files, in addition to empty fields."
        ),
    ] = None,
    nulls: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Value that replaces missing ones in a column; may be repeated."),
    ] = None,
    skip_errors: Annotated[bool, typer.Option("--skip-errors", help="Leave out records that cannot be read.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    as_json: Json = False,
) -> None:
    """Convert CSV, JSON lines, Parquet, Arrow or TFRecord files to DST-00000-of-00010.tfrecord (or .parquet) and so on.

    The format of SRC is detected from its content. Records of TFRecord files stay as they are when they go to TFRecord
    files again. A missing number is NaN unless --nulls is given.

    Examples:

      headrace convert 'data/*.csv' out/train --shards 16

      headrace convert logs.jsonl.gz out/logs.parquet

      headrace convert people.csv out/people --na NA --nulls age=-1
    """
    prefix, target = _target(destination, to)
    files = matching(sources)
    kind = common_file_kind(files)
    ds = _rows(kind, files, target, skip_errors, _missing(kind, na, nulls))
    progress = None if sys.stderr.isatty() else False
    if target == "parquet":
        packing: JsonObject = {} if compression is None else {"compression": compression.lower()}
        made = ds.write_parquet(
            prefix, shards, **packing, num_parallel_writes=threads, overwrite=overwrite, progress=progress
        )
    else:
        packed = None if compression in (None, "none") else str(compression).upper()
        made = ds.write_tfrecord(
            prefix, shards, packed, num_parallel_writes=threads, overwrite=overwrite, progress=progress
        )
    if as_json:
        show_json({"format": target, "files": made})
        return
    for name in made:
        say(name)


def _target(destination: str, to: str | None) -> tuple[str, str]:
    ending = PurePath(destination).suffix.lower().lstrip(".")
    chosen = to or (ending if ending in TARGETS else TARGETS[0])
    if chosen not in TARGETS:
        raise ValueError(f"--to is tfrecord or parquet, not {chosen}")
    return (destination[: -len(ending) - 1] if ending in TARGETS else destination), chosen


def _missing(kind: FileKind, na: str | None, nulls: list[str] | None) -> JsonObject:
    """Return the reader's options for missing values."""
    if na is not None and kind.format != "CSV":
        raise ValueError(f"--na is about CSV, and this is {kind.format}")
    if nulls and not kind.about.columns:
        raise ValueError(f"--nulls is about columns, which {kind.format} does not have")
    for pair in nulls or ():
        if "=" not in pair:
            raise ValueError(f"--nulls takes COLUMN=VALUE, not {pair}")
    values = dict(pair.split("=", 1) for pair in nulls or ())
    missing: JsonObject = {} if na is None else {"na_value": na}
    return missing | ({"nulls": {name: _value(text) for name, text in values.items()}} if values else {})


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _rows(kind: FileKind, files: list[str], target: str, skip_errors: bool, missing: JsonObject) -> Dataset:
    on_error = "skip" if skip_errors else "raise"
    if not kind.about.columns and kind.format != "TFRecord":
        raise ValueError(
            f"{files[0]} is {kind.format}, whose rows have no columns: CSV, JSON lines, Parquet or TFRecord it must be"
        )
    if kind.format == "TFRecord" and target == "parquet":
        return hr.Dataset.from_tfrecord(files, compression_type=kind.compression, on_error=on_error)
    return kind.open(files, on_error=on_error, **missing)
