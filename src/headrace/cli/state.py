"""Read and write states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import Json, say, show_json
from headrace.cli.script import EpochOption, Target, load_dataset, load_state
from headrace.formats.shared.files import write_whole
from headrace.iterator import Settings
from headrace.observe.state_words import state_lines

state = typer.Typer(help="Show a state in words, or write one for another step.", no_args_is_help=True)


@state.command()
def show(
    file: Annotated[Path, typer.Argument(help="A state as JSON.", exists=True, dir_okay=False, show_default=False)],
    as_json: Json = False,
) -> None:
    """Describe a state: its epoch, the position of each operation, and the contents of shuffle buffers.

    Example:

      headrace state show state.json
    """
    found = load_state(file)
    assert found is not None
    if as_json:
        show_json(found)
        return
    for line in state_lines(found):
        say(line)


@state.command()
def move(
    target: Target,
    step: Annotated[int, typer.Option(help="How many elements of the epoch count as delivered.", min=0)],
    epoch: EpochOption = 0,
    like: Annotated[
        Path | None, typer.Option(help="A state of the run whose seeds to keep.", exists=True, dir_okay=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write it; else it is printed.")
    ] = None,
) -> None:
    """Write a state for another epoch or step. The source is read again if rows cannot be found by number.

    Example:

      headrace state move train.py:ds --step 5000 --epoch 2 --like state.json -o moved.json
    """
    with load_dataset(target, seeded=like is not None)._iterator(Settings(optimise=False), load_state(like)) as it:
        made = it._state_of_step(step, epoch)
    if output is None:
        show_json(made)
    else:
        write_whole(str(output), [json.dumps(made).encode()])
        say(f"wrote {output}: epoch {epoch}, step {step}")
