"""Say what a file holds."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

import headrace as hr
from headrace.cli.output import Json, byte_progress, bytes_text, json_value, say, short, show_json
from headrace.cli.scan import scan_records
from headrace.core.types import JsonObject, Nested
from headrace.errors import ElementError, ParseError
from headrace.formats.shared.files import file_size
from headrace.formats.shared.index import fresh_index
from headrace.formats.shared.kinds import FileKind, file_kind
from headrace.formats.tables.tables import leaf_paths
from headrace.formats.tfrecord.format import TFRecords
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def inspect(
    file: Annotated[str, typer.Argument(help="A path or URL.", show_default=False)],
    records: Annotated[int, typer.Option("--records", "-n", help="Number of records to show.", min=0)] = 3,
    as_json: Json = False,
) -> None:
    """Show what FILE is: format, compression, size, number of records, their features, and the first of them.

    The records of a TFRecord file are counted with its index if there is one. Otherwise all are read and verified.

    Examples:

      headrace inspect train-00000-of-00080.tfrecord

      headrace inspect --json data.parquet -n 1
    """
    kind = file_kind(file)
    size = file_size(file)
    about: JsonObject = {"file": file, "format": kind.format, "compression": kind.compression or None, "size": size}
    about |= _tfrecord(file, kind, records) if kind.format == "TFRecord" else _rows(file, kind, records)
    if as_json:
        show_json(json_value(about))
    else:
        _say(about)


def _tfrecord(file: str, kind: FileKind, shown: int) -> JsonObject:
    found = None if kind.compression else fresh_index(file, TFRecords())
    about: JsonObject = {"bad": 0}
    if found is not None:
        about["records"] = found.count
    else:
        with byte_progress("counting", file_size(file)) as advance:
            report = scan_records(file, kind.compression, advance)
        about |= {"records": report.records, "bad": len(report.bad)}
    first = list(islice(hr.TFRecordDataset(file, kind.compression, on_error="skip", index=False), max(100, shown)))
    try:
        about["features"] = _features(first)
        about["first"] = [dict(hr.io.Example.parse(record)) for record in first[:shown]]
    except ParseError as error:
        about |= {"features": None, "note": f"no Examples: {error}", "first": first[:shown]}
    about["read_with"] = "hr.Dataset.from_tfrecord" if about["features"] else "hr.TFRecordDataset"
    return about


def _features(records: list[bytes]) -> dict[str, str]:
    """Return what each feature holds in a record."""
    specs = {name: f.spec(batch=False) for name, f in hr.io.infer_features(records).items()} if records else {}
    return {name: _kind(spec) for name, spec in specs.items()}


def _kind(spec: Nested) -> str:
    sizes = ", ".join("any" if n is None else str(n) for n in spec.shape or ())
    dtype = {"S": "bytes", "U": "str"}.get(spec.dtype.kind, str(spec.dtype)) if spec.dtype is not None else "object"
    return f"{dtype} × {sizes}" if sizes else dtype


def _rows(file: str, kind: FileKind, shown: int) -> JsonObject:
    ds = kind.open([file])
    spec = Spec.of_signature(ds.element_spec)
    names = [".".join(path) for path in leaf_paths(spec.structure)] if spec.structure is not None else []
    features = {name or "line": _kind(leaf) for name, leaf in zip(names, spec.leaves, strict=True)}
    with byte_progress("counting", None):
        count = ds.count()
    return {
        "records": count,
        "features": features,
        "first": list(_first(ds, shown)),
        "read_with": kind.about.called,
    }


def _first(ds: Dataset, shown: int) -> Nested:
    with iter(ds) as it:
        for _ in range(shown):
            try:
                yield next(it)
            except StopIteration:
                return
            except ElementError as error:
                yield f"bad: {str(error).splitlines()[0]}"


def _say(about: JsonObject) -> None:
    records, size = about["records"], about["size"]
    mean = f", {bytes_text(size / records)} each" if records and size else ""
    packed = f", compressed as {about['compression']}" if about["compression"] else ""
    say(about["file"])
    say(f"  format      {about['format']}{packed}")
    say(f"  size        {'unknown' if size is None else bytes_text(size)}")
    say(f"  records     {records:,}{mean}")
    if about.get("bad"):
        say(f"  damaged     {about['bad']} ranges; see headrace verify")
    if about.get("note"):
        say(f"  note        {about['note']}")
    say(f"  read with   {about['read_with']}")
    if about["features"]:
        wide = max(map(len, about["features"]))
        say("  features")
        for name, feature in about["features"].items():
            say(f"    {name:{wide}}  {feature}")
    for number, record in enumerate(about["first"]):
        say(f"  record {number}")
        for name, value in record.items() if isinstance(record, dict) else [("", record)]:
            say(f"    {name}{' = ' if name else ''}{short(value)}")
