"""The output of commands: text for people, JSON for scripts, progress and errors."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from headrace.core.types import JsonValue
from headrace.errors import ElementError
from headrace.plan.display import bytes_text as bytes_text  # noqa: PLC0414 - commands import it from here

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
MAX_SHOWN_LENGTH = 60


def show_json(content: object) -> None:
    """Print for a script."""
    sys.stdout.write(json.dumps(content, indent=2, default=str) + "\n")


def printable(text: str) -> str:
    """Return a line without what a terminal would obey instead of showing it: names and values come from files of
    others.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(printable(text) + "\n")


def warn(text: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"headrace: {printable(text)}\n")


class Warnings(logging.Handler):
    """Has what the library logs go the same way."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print it."""
        warn(record.getMessage())


def error_line(error: BaseException) -> str:
    """Return an error in one line; of a bad record, its position and what is wrong."""
    if isinstance(error, ElementError) and error.provenance:
        return f"{error.provenance}: {str(error).splitlines()[0].partition(': ')[2]}"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split()) or type(error).__name__
    return text.replace("overwrite=True", "--overwrite")


@contextmanager
def byte_progress(text: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar of bytes on standard error, if that is a terminal; yield a function that takes how many
    more are done.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    shown = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal, transient=True)
    with shown:
        task = shown.add_task(text, total=total)
        yield lambda more: shown.advance(task, more)


def short(value: object) -> str:
    """Return a value, not longer than a line."""
    text = repr(value) if isinstance(value, str | bytes) else " ".join(str(value).split())
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "…"


def json_value(value: object) -> JsonValue:
    """Return a value as JSON has it; bytes that are no text as hexadecimal digits."""
    if isinstance(value, dict):
        return {key: json_value(v) for key, v in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, list | tuple):
        return [json_value(v) for v in value]
    return json_value(value.tolist()) if hasattr(value, "tolist") else value
