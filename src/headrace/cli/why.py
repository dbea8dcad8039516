"""Say why a pipeline is slow."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.output import Json, say, show_json
from headrace.cli.script import Target, load_script


def why(
    target: Target,
    seconds: Annotated[float, typer.Option(help="How long to run the pipeline.", min=0.01)] = 10.0,
    step: Annotated[str | None, typer.Option(help="The name of a function in the script: one training step.")] = None,
    as_json: Json = False,
) -> None:
    """Run a pipeline for a while and say what limits it, and what would help by how much.

    NAME may be left out if the script defines one dataset. Without --step the pipeline runs as fast as it can.

    Example:

      headrace why train.py --step train_step
    """
    script = load_script(target)
    verdict = script.observed.why_slow(seconds, None if step is None else script.function(step))
    if as_json:
        show_json({**asdict(verdict), "sentence": verdict.sentence})
        return
    for line in str(verdict).splitlines():
        say(line)
