"""Make the sidecar indexes of record files."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.output import Json, byte_progress, say, show_json
from headrace.formats.shared.files import file_size
from headrace.formats.shared.format import Format
from headrace.formats.shared.index import fresh_index, index_file
from headrace.formats.shared.kinds import FileKind, file_kind, known_formats
from headrace.formats.shared.list_files import matching


def index(
    files: Annotated[list[str], typer.Argument(help="TFRecord or text files, not compressed.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Write an index for each file, so that its records can be counted, accessed by number and shuffled.

    The index of data/FILE is data/.headrace/FILE.idx, or a file in the user's cache folder if that cannot be written.
    All checksums are verified. An existing index that matches its file is kept.

    Example:

      headrace index 'train-*.tfrecord'
    """
    paths = matching(files)
    made = []
    with byte_progress("indexing", sum(file_size(p) or 0 for p in paths)) as advance:
        for path in paths:
            form = _form(path, file_kind(path))
            before = fresh_index(path, form)
            found = index_file(path, form, beside=True)
            is_new = before is None or before.place != found.place
            made.append({"file": path, "index": found.place, "records": found.count, "made": is_new})
            advance(file_size(path) or 0)
    if as_json:
        show_json(made)
        return
    for line in made:
        where = line["index"] or f"{line['file']}, whose index cannot be written"
        say(f"{where}: {line['records']:,} records" + ("" if line["made"] else ", was there already"))


def _form(path: str, kind: FileKind) -> Format:
    if kind.about.records is None:
        able = ", ".join(form.name for form in known_formats().values() if form.records is not None)
        raise ValueError(f"{path}: files of {kind.format} have no index; those of {able} have one")
    return kind.about.records(kind.compression)
