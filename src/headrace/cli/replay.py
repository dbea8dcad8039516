"""Make one element again under a debugger."""

from __future__ import annotations

import pdb
import sys
import traceback
from typing import Annotated

import typer

from headrace.cli.output import say
from headrace.cli.script import EpochOption, StateOption, StepOption, Target, load_dataset, load_state
from headrace.errors import HeadraceError

FAILED = 1


def replay(
    target: Target,
    step: StepOption = None,
    row: Annotated[int | None, typer.Option(help="Only this row of the batch.", min=0)] = None,
    epoch: EpochOption = 0,
    state: StateOption = None,
    post_mortem: Annotated[bool, typer.Option("--pdb", help="Open pdb where a function fails.")] = False,
) -> None:
    """Make one element again: each function is called on the main thread, with the inputs and draws of the run.

    `breakpoint()` works in your functions. The exit code is 1 if a function fails.

    Example:

      headrace replay train.py:ds --step 1234 --row 7
    """
    ds = load_dataset(target, seeded=state is not None)
    try:
        element = ds.debug(step, row, epoch=epoch, state=load_state(state))
    except HeadraceError:  # no function of the user failed
        raise
    except Exception as error:
        _fail(error, post_mortem)
    else:
        say(repr(element))


def _fail(error: Exception, post_mortem: bool) -> None:
    traceback.print_exception(error, file=sys.stderr)
    if post_mortem:
        pdb.post_mortem(error.__traceback__)
    raise typer.Exit(FAILED)
