"""Make pages of recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import say
from headrace.observe.report import MAX_REPORTS, load_record, page


def report(
    records: Annotated[
        list[Path],
        typer.Argument(help="One record, or two to compare.", exists=True, dir_okay=False, show_default=False),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page.")] = Path("report.html"),
) -> None:
    """Make a self-contained page of a record that `it.report("run.json")` wrote, or compare two.

    Example:

      headrace report before.json after.json -o compared.html
    """
    if len(records) > MAX_REPORTS:
        raise typer.BadParameter(f"a page compares {MAX_REPORTS} records, not {len(records)}")
    output.write_text(page([load_record(path) for path in records], [path.stem for path in records]), encoding="utf-8")
    say(f"wrote {output}")
