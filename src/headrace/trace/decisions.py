"""The data-dependent branches that one run of a traced function takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.trace.values import Value

MAX_DECISIONS_PER_PATH = 4
MAX_PATHS = 8
"""A function with more paths is called on each row: few rows of a block would take the same path."""


@dataclass(eq=False, slots=True)
class Decision:
    """A value whose truth was tested."""

    value: Value
    answer: bool
    steps: int
    """How many steps were recorded before."""
    slots: int
    """How many values there were."""
    line: str
    """The line in the user's code."""


class Decisions:
    """Answer with the given decisions, then with True; the next path to try follows from these."""

    def __init__(self, answers: Sequence[bool] = ()) -> None:
        self._answers = list(answers)
        self.made: list[Decision] = []

    def answer(self, value: Value, steps: int, slots: int, line: str) -> bool | None:
        """Return whether the value is true on this path; None if that is one question too many."""
        for known in self.made:
            if known.value.slot == value.slot:
                return known.answer
        place = len(self.made)
        if place == MAX_DECISIONS_PER_PATH:
            return None
        answer = self._answers[place] if place < len(self._answers) else True
        self.made.append(Decision(value, answer, steps, slots, line))
        return answer

    def next_path(self) -> list[bool] | None:
        """Return the answers for the next path; None after the last."""
        answers = [decision.answer for decision in self.made]
        while answers and not answers[-1]:
            answers.pop()
        return [*answers[:-1], False] if answers else None
