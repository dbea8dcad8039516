"""`headrace port`: rewrite programs that were written for tf.data."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import say, warn


def port(
    files: Annotated[list[Path], typer.Argument(help="Python files.", show_default=False)],
    diff: Annotated[bool, typer.Option("--diff", help="Show the changes, and write nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file would change.")] = False,
) -> None:
    """Rewrite FILES from tf.data, tf.io, tf.image, tf.strings, feature_column and TFDS to headrace.

    What cannot be changed safely gets a comment that begins with "# headrace port:". Needs the extra `port`.

    Examples:

      headrace port --diff train.py

      headrace port train.py

      headrace port --check train.py
    """
    try:
        from libcst import ParserSyntaxError

        from headrace.cli.porting.rewrite import port_source
    except ImportError as error:
        raise ImportError(f"headrace port needs {error.name}: pip install 'headrace[port]'", name=error.name) from None
    changed = failed = 0
    for path in files:
        source = path.read_text(encoding="utf-8")
        try:
            ported = port_source(source)
        except ParserSyntaxError as error:
            warn(f"{path}: not valid Python: {error.message} (line {error.raw_line})")
            failed += 1
            continue
        changed += ported.changed
        if diff:
            say_diff(path, source, ported.code)
        elif ported.changed and not check:
            path.write_text(ported.code, encoding="utf-8")
        state = "would change" if diff or check else "changed"
        todo = f", {len(ported.marks)} left to do by hand" if ported.marks else ""
        say(f"{path}: {state if ported.changed else 'unchanged'}{todo}")
    if failed:
        raise typer.Exit(2)
    if check and changed:
        raise typer.Exit(1)


def say_diff(path: Path, before: str, after: str) -> None:
    """Print a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
    for line in lines:
        say(line)
