"""From the paths through a function that branches on data, each traced by itself, to one tree of segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.trace.capture import Capture
from headrace.trace.decisions import Decision
from headrace.trace.errors import Untraceable
from headrace.trace.fork import Segment
from headrace.trace.recorder import Recorder
from headrace.trace.values import Step, Value

VIEWS = frozenset({"getitem", "T", "transpose", "permute_dims", "swapaxes", "moveaxis", "flip", "fliplr", "flipud"})
"""Operations that NumPy does by strides, where what goes in is one array of rows."""


@dataclass(eq=False)
class Path:
    """One way through a function: what was recorded on it, and what it gives."""

    recorder: Recorder
    capture: Capture
    outputs: Sequence[Any] | None = None
    """For each component its value, or a constant; None where the function raises."""

    @property
    def decisions(self) -> list[Decision]:
        """Where it parts from others."""
        return self.recorder.decisions.made

    @property
    def steps(self) -> list[Step]:
        """All of it, from the beginning."""
        return self.recorder.steps

    def needs_after(self, steps: int) -> Iterator[Value]:
        """The values that are used after so many steps."""
        for step in self.steps[steps:]:
            yield from step.uses
        yield from (d.value for d in self.decisions if d.steps >= steps)
        yield from (o for o in self.outputs or () if isinstance(o, Value))

    def shared_with(self, other: Path) -> tuple[int, int]:
        """How many steps and values two paths have in common."""
        for mine, theirs in zip(self.decisions, other.decisions, strict=False):
            if mine.answer != theirs.answer:
                return mine.steps, mine.slots
        raise Untraceable("does not do the same each time")

    def kept_for(self, others: Sequence[Path]) -> set[int]:
        """The slots of values that must stay as they are until the end of this path, or for another one."""
        kept = {value.slot for value in [*(d.value for d in self.decisions), *(self.outputs or ())] if _is_value(value)}
        for other in others:
            if other is not self:
                steps, slots = self.shared_with(other)
                kept |= {value.slot for value in other.needs_after(steps) if value.slot < slots}
        return kept


def grow_tree(paths: Sequence[Path]) -> Segment:
    """The segments of all paths, those that several share once; what is done again is kept from being written over."""
    return _grow(paths, list(paths), 0, 0, 0)


def slots_done_again(tree: Segment) -> set[int]:
    """What the steps that are done again on some rows look at."""
    sides = tree.sides or ()
    own = {value.slot for step in tree.again for value in step.uses}
    return own.union(*[slots_done_again(side) for side in sides])


def all_steps(tree: Segment) -> list[Step]:
    """Every step once."""
    return [*tree.steps, *[step for side in tree.sides or () for step in all_steps(side)]]


def _grow(paths: Sequence[Path], group: list[Path], depth: int, steps: int, slots: int) -> Segment:
    first = group[0]
    decision = first.decisions[depth] if depth < len(first.decisions) else None
    until, end = (
        (len(first.steps), len(first.recorder.template)) if decision is None else (decision.steps, decision.slots)
    )
    made = Segment(
        slots,
        first.recorder.template[slots:end],
        [(value.slot, array) for value, array in first.recorder.captured if slots <= value.slot < end],
        first.steps[steps:until],
        views=depth > 0 and decision is None and all(map(_is_view, first.steps[steps:])),
        path=paths.index(first),
        raises=first.outputs is None and decision is None,
    )
    if depth:
        _enter(made, group, steps, slots)
    if decision is None:
        found = first.outputs or ()
        made.outputs = tuple(o.slot if isinstance(o, Value) else (o,) for o in found)
        made.unbatched = frozenset(o.slot for o in found if isinstance(o, Value) and not o.batched)
        if len(group) > 1:
            raise Untraceable("does not do the same each time")
        return made
    for path in group[1:]:
        if depth == len(path.decisions) or not _alike(path, first, path.decisions[depth], decision, steps):
            raise Untraceable("does not do the same each time")
    yes, no = ([p for p in group if p.decisions[depth].answer is answer] for answer in (True, False))
    made.condition = decision.value.slot
    made.sides = (_grow(paths, yes, depth + 1, until, end), _grow(paths, no, depth + 1, until, end))
    return made


def _alike(a: Path, b: Path, ours: Decision, theirs: Decision, start: int) -> bool:
    """Whether two paths came to a decision in the same way."""
    if (ours.value.slot, ours.steps, ours.slots) != (theirs.value.slot, theirs.steps, theirs.slots):
        return False
    pairs = zip(a.steps[start : ours.steps], b.steps[start : theirs.steps], strict=True)
    return all((s.name, s.slot, s.errors) == (t.name, t.slot, t.errors) for s, t in pairs)


def _enter(made: Segment, group: Sequence[Path], steps: int, slots: int) -> None:
    """Find what some rows of a block need of the values before: those that can be copied, the others made again."""
    path = group[0]
    makers = {step.slot: i for i, step in enumerate(path.steps[:steps])}
    takes: set[int] = set()
    again: set[int] = set()
    open_ends = [value for member in group for value in member.needs_after(steps)]
    while open_ends:
        value = open_ends.pop()
        if not value.batched or value.slot >= slots or value.slot in takes:
            continue
        maker = makers.get(value.slot)
        if maker is None or _in_order(value):
            takes.add(value.slot)
        elif maker not in again:
            again.add(maker)
            open_ends += path.steps[maker].uses
    made.takes = frozenset(takes)
    made.again = [path.steps[i] for i in sorted(again)]


def _in_order(value: Value) -> bool:
    """Whether rows that are copied lie in memory as the function would see them."""
    if not isinstance(value.sample, np.ndarray):
        return not isinstance(value.sample, tuple | list)
    return value.faithful and value.sample.flags.c_contiguous


def _is_view(step: Step) -> bool:
    rows = [value for value in step.uses if value.batched]
    if step.name not in VIEWS or step.rowwise or len(rows) != 1 or not isinstance(step.sample, np.ndarray):
        return False
    return isinstance(rows[0].sample, np.ndarray) and np.may_share_memory(step.sample, rows[0].sample)


def _is_value(item: Any) -> bool:
    return isinstance(item, Value)
