"""The command `headrace` and what its subcommands have in common."""

from __future__ import annotations

import logging
import platform
import sys
from typing import Annotated

import typer

import headrace
from headrace.cli.cache import cache
from headrace.cli.convert import convert
from headrace.cli.dataset import dataset
from headrace.cli.doctor import doctor
from headrace.cli.index import index
from headrace.cli.inspect import inspect
from headrace.cli.output import Warnings, error_line, warn
from headrace.cli.port import port
from headrace.cli.replay import replay
from headrace.cli.report import report
from headrace.cli.rows import rows
from headrace.cli.salvage import salvage
from headrace.cli.selftest import selftest
from headrace.cli.serve import serve
from headrace.cli.state import state
from headrace.cli.top import top
from headrace.cli.verify import verify
from headrace.cli.why import why
from headrace.errors import HeadraceError

app = typer.Typer(
    name="headrace",
    help="Inspect, verify, index, convert and repair record files; explain, replay and serve pipelines. "
    "Files may be paths, patterns or URLs.",
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
commands = (inspect, verify, index, convert, salvage, serve, top, port, doctor, selftest, rows, replay, why, report)
for command in commands:
    app.command()(command)
app.add_typer(cache, name="cache")
app.add_typer(dataset, name="dataset")
app.add_typer(state, name="state")


def show_version(wanted: bool) -> None:
    """Print the version, and what it runs on, and end."""
    if wanted:
        typer.echo(f"headrace {headrace.__version__} (Python {platform.python_version()}, {platform.platform()})")
        raise typer.Exit


@app.callback()
def common_options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=show_version, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
    """Handle the options before a command."""


FAILED, INTERRUPTED = 2, 130


def main() -> None:
    """Run the command; errors are one line, and exit codes 0: fine, 1: bad records found, 2: it could not be done."""
    logging.getLogger("headrace").addHandler(Warnings(logging.WARNING))
    try:
        app(prog_name="headrace")
    except (HeadraceError, OSError, ValueError, TypeError, ImportError) as error:
        warn(error_line(error))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        warn("interrupted")
        sys.exit(INTERRUPTED)
