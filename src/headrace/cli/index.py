"""Make the sidecar indexes of record files."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.formats import Kind, files_of, kind_of
from headrace.cli.output import Json, progress, say, show_json
from headrace.records.files import identity
from headrace.records.format import Format
from headrace.records.index import SUFFIX, build_index, fresh_index
from headrace.records.text import Lines
from headrace.records.tfrecord import TFRecords


def index(
    files: Annotated[list[str], typer.Argument(help="TFRecord or text files, not compressed.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Write FILE.idx beside each file, with which it can be counted, indexed and shuffled without reading it.

    Checksums are verified on the way. An index that is there and belongs to the file stays.

    Example:

      headrace index 'train-*.tfrecord'
    """
    paths = files_of(files)
    made = []
    with progress("indexing", sum(identity(p).size or 0 for p in paths)) as advance:
        for path in paths:
            form = _form(path, kind_of(path))
            fresh = fresh_index(path, form) is None
            made.append({"file": path, "index": path + SUFFIX, "records": build_index(path, form).count, "made": fresh})
            advance(identity(path).size or 0)
    if as_json:
        show_json(made)
        return
    for line in made:
        say(f"{line['index']}: {line['records']:,} records" + ("" if line["made"] else ", was there already"))


def _form(path: str, kind: Kind) -> Format:
    if kind.format not in ("TFRecord", "text"):
        raise ValueError(f"{path}: files of {kind.format} have no index, only TFRecord and text")
    return TFRecords(kind.compression) if kind.format == "TFRecord" else Lines(kind.compression)
