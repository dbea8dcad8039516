"""Check the checksums of TFRecord files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.output import Json, byte_progress, bytes_text, say, show_json
from headrace.cli.scan import Report, scan_records
from headrace.execute.budget import cpus
from headrace.formats.shared.files import file_size
from headrace.formats.shared.kinds import FileKind, file_kind
from headrace.formats.shared.list_files import matching

FileArguments = Annotated[
    list[str], typer.Argument(help="TFRecord files: paths, patterns or URLs.", show_default=False)
]


def verify(files: FileArguments, as_json: Json = False) -> None:
    """Check every length and checksum of TFRecord files, and list the ranges that are bad.

    Exits with 1 if there are any.

    Examples:

      headrace verify 'train-*.tfrecord'

      headrace verify --json gs://bucket/train-*.tfrecord | jq '.[].bad'
    """
    paths = matching(files)
    kinds = tfrecords(paths)
    with (
        byte_progress("verifying", sum(file_size(p) or 0 for p in paths)) as advance,
        ThreadPoolExecutor(cpus()) as pool,
    ):
        reports = list(pool.map(lambda p: scan_records(p, kinds[p].compression, advance), paths))
    if as_json:
        show_json([asdict(report) for report in reports])
    else:
        for report in reports:
            _say(report)
    if any(report.bad for report in reports):
        raise typer.Exit(1)


def tfrecords(paths: list[str]) -> dict[str, FileKind]:
    """Return the kinds of these files, which must all be TFRecord."""
    kinds = {path: file_kind(path) for path in paths}
    for path, kind in kinds.items():
        if kind.format != "TFRecord":
            raise ValueError(f"{path} is a file of {kind.format}: only TFRecord files have checksums")
    return kinds


def _say(report: Report) -> None:
    state = f"{len(report.bad)} bad ranges" if report.bad else "fine"
    say(f"{report.file}: {report.records:,} records, {bytes_text(report.size)}, {state}")
    for bad in report.bad:
        stop = "?" if bad.stop is None else bad.stop
        say(f"  bytes {bad.start}-{stop}, record {bad.record}: {bad.reason}")
