"""`headrace selftest`: the checks of `python -m headrace.selftest`."""

from __future__ import annotations

import typer


def selftest() -> None:
    """Check that this installation works: kernels, files, resume, worker processes (under a minute).

    The exit code is 0 if all checks pass and 1 otherwise.
    """
    from headrace.selftest import run

    if run():
        raise typer.Exit(1)
