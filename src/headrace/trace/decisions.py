"""The branches on data that one run of a traced function comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.trace.values import Value

MOST_IN_A_ROW = 4
MOST_PATHS = 8
"""A function of more is called on each row: few rows of a block would take the same path."""


@dataclass(eq=False, slots=True)
class Decision:
    """A value that was asked for its truth."""

    value: Value
    answer: bool
    steps: int
    """How many steps were recorded before."""
    slots: int
    """How many values there were."""
    line: str
    """Where in the user's code."""


class Decisions:
    """Answers as they are laid down, then yes; the path that is yet to be tried comes of these."""

    def __init__(self, answers: Sequence[bool] = ()) -> None:
        self._answers = list(answers)
        self.made: list[Decision] = []

    def answer(self, value: Value, steps: int, slots: int, line: str) -> bool | None:
        """Whether the value is true on this path; None where that is one question too many."""
        for known in self.made:
            if known.value.slot == value.slot:
                return known.answer
        place = len(self.made)
        if place == MOST_IN_A_ROW:
            return None
        answer = self._answers[place] if place < len(self._answers) else True
        self.made.append(Decision(value, answer, steps, slots, line))
        return answer

    def next_path(self) -> list[bool] | None:
        """The answers for the next path; None after the last."""
        answers = [decision.answer for decision in self.made]
        while answers and not answers[-1]:
            answers.pop()
        return [*answers[:-1], False] if answers else None
