"""Name the records of a step."""

from __future__ import annotations

from headrace.cli.output import Json, say, show_json
from headrace.cli.script import EpochOption, StateOption, StepOption, Target, load_dataset, load_state


def rows(
    target: Target, step: StepOption = None, epoch: EpochOption = 0, state: StateOption = None, as_json: Json = False
) -> None:
    """Name the records that a step was made of, from the plan and its seeds alone.

    With --state and without --step: the last step that was delivered before the state was taken.

    Example:

      headrace rows train.py:ds --step 1234
    """
    found = load_dataset(target, seeded=state is not None).rows_of(step, epoch=epoch, state=load_state(state))
    if as_json:
        show_json({"epoch": found.epoch, "step": found.step, "rows": [row._asdict() for row in found]})
        return
    for line in str(found).splitlines():
        say(line)
