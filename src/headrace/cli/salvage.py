"""Save what is good of a damaged TFRecord file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import Json, byte_progress, say, show_json
from headrace.cli.scan import scan_records
from headrace.cli.verify import tfrecords
from headrace.formats.shared.files import file_size, local_path
from headrace.io.writer import TFRecordWriter


def salvage(
    bad: Annotated[str, typer.Argument(help="The damaged file.", show_default=False)],
    good: Annotated[str, typer.Argument(help="The file to write.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace GOOD if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Copy all records of BAD whose checksums are right to GOOD, compressed as BAD is, and say what is lost.

    Example:

      headrace salvage train-00003.tfrecord repaired.tfrecord
    """
    place = local_path(good)
    if place is not None and Path(place).exists() and not overwrite:
        raise FileExistsError(f"{good} is there already; say --overwrite to replace it")
    if bad == good:
        raise ValueError("the repaired file needs a name of its own")
    compression = tfrecords([bad])[bad].compression
    with byte_progress("salvaging", file_size(bad)) as advance, TFRecordWriter(good, compression or None) as writer:
        report = scan_records(bad, compression, advance, writer.write_all)
    if as_json:
        show_json({**asdict(report), "good": good})
        return
    say(f"{good}: {report.records:,} records saved, {len(report.bad)} bad ranges left out")
    for lost in report.bad:
        say(f"  bytes {lost.start}-{'?' if lost.stop is None else lost.stop}, record {lost.record}: {lost.reason}")
