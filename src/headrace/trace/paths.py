"""From the paths through a function that branches on data, each traced by itself, to one tree of segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from headrace.trace.capture import Capture
from headrace.trace.decisions import Decision
from headrace.trace.errors import Untraceable
from headrace.trace.fork import Piece, Segment, Taken, join_pieces
from headrace.trace.graph import ROWS_TO_VERIFY, Graph
from headrace.trace.recorder import Recorder
from headrace.trace.reuse import reuse_memory
from headrace.trace.values import KINDS, Operand, Step, Value, Values

VIEWS = frozenset({"getitem", "T", "transpose", "permute_dims", "swapaxes", "moveaxis", "flip", "fliplr", "flipud"})
"""Operations that NumPy does by strides, if the input is one array of rows."""


@dataclass(eq=False)
class Path:
    """One way through a function: what was recorded on it, and what it gives."""

    recorder: Recorder
    capture: Capture
    outputs: Sequence[Any] | None = None
    """For each component its value, or a constant; None if the function raises."""

    @property
    def decisions(self) -> list[Decision]:
        """Return the decisions at which it diverges from other paths."""
        return self.recorder.decisions.made

    @property
    def steps(self) -> list[Step]:
        """All of it, from the beginning."""
        return self.recorder.steps

    def needs_after(self, steps: int) -> Iterator[Value]:
        """Yield the values that are used after this many steps."""
        for step in self.steps[steps:]:
            yield from step.uses
        yield from (d.value for d in self.decisions if d.steps >= steps)
        yield from (o for o in self.outputs or () if isinstance(o, Value))

    def shared_with(self, other: Path) -> tuple[int, int]:
        """Return how many steps and values two paths have in common."""
        for mine, theirs in zip(self.decisions, other.decisions, strict=False):
            if mine.answer != theirs.answer:
                return mine.steps, mine.slots
        raise Untraceable("does not do the same each time")

    def kept_for(self, others: Sequence[Path]) -> set[int]:
        """Return the slots of values that must stay as they are until the end of this path, or for another one."""
        kept = {value.slot for value in [*(d.value for d in self.decisions), *(self.outputs or ())] if _is_value(value)}
        for other in others:
            if other is not self:
                steps, slots = self.shared_with(other)
                kept |= {value.slot for value in other.needs_after(steps) if value.slot < slots}
        return kept


def join_paths(paths: list[Path], graphs: list[Graph]) -> Graph:
    """Return one graph of all paths: a step that has each row take its own."""
    where = f"branches on data at {paths[0].decisions[0].line}"
    if not graphs:
        raise Untraceable(f"{where}, and raises on all paths")
    first = graphs[0]
    inputs = first.inputs
    ends = [path.outputs for path in paths if path.outputs is not None]
    for other, end in zip(graphs, ends, strict=True):
        if other.structure != first.structure or _kinds_of_rows(end) != _kinds_of_rows(ends[0]):
            raise Untraceable(f"{where}, and gives {first.spec} on one path, {other.spec} on another")
    spec = first.spec if all(other.spec == first.spec for other in graphs) else first.spec.without_sizes()
    passed = [_passed_on([end[i] for end in ends], inputs) for i in range(len(first.outputs))]
    made = [i for i, slot in enumerate(passed) if slot is None]
    if any(_kinds_of_rows(ends[0])[i] is None for i in made):
        raise Untraceable(f"{where}, and gives something other than a dense array of known shape")
    for path in paths:
        path.outputs = path.outputs and [path.outputs[i] for i in made]
    tree = _grow_tree(paths)
    again = _slots_done_again(tree)
    for path in paths:
        own = frozenset(chain(*path.recorder.own))
        reuse_memory(path.steps, path.kept_for(paths) | again, own)
    captured = [array for path in paths for _, array in path.recorder.captured]
    start = inputs + len(captured)
    stop = start + len(made)

    def kernel(values: Values, n: int) -> Taken:
        pieces: list[Piece] = []
        tree.run(values[:inputs], n, None, pieces)
        values[start:stop] = join_pieces(pieces, n)
        return [(piece.path, piece.rows) for piece in pieces]

    outputs = [start + made.index(i) if slot is None else slot for i, slot in enumerate(passed)]
    raises = len(graphs) < len(paths)
    return Graph(
        first.structure,
        spec,
        tuple(outputs),
        [Step("branch", stop, kernel)],
        [None] * (stop + 1),
        [(Value(inputs + i, array, batched=False), array) for i, array in enumerate(captured)],
        [guard for path in paths for guard in [*path.capture.guards, *path.recorder.layout_guards()]],
        {},
        [ROWS_TO_VERIFY if path.outputs is not None else 0 for path in paths],
        inputs=inputs,
        reads=frozenset(slot for slot in passed if slot is not None).union(*map(_slots_read, paths)),
        infallible=not raises and all(graph.infallible for graph in graphs),
        operations=any(graph.operations for graph in graphs),
        numbers=first.numbers,
        tree=tree,
    )


def _slots_read(path: Path) -> set[int]:
    return {value.slot for value in path.needs_after(0) if value.slot < path.recorder.inputs}


def _kinds_of_rows(outputs: Sequence[Any]) -> list[Operand]:
    """Return the dtype and shape of each component; None if it is no dense array."""
    samples = [o.sample if isinstance(o, Value) else o for o in outputs]
    dense = [isinstance(s, np.ndarray | np.generic) and s.dtype.kind in KINDS for s in samples]
    return [(s.dtype, s.shape) if fine else None for s, fine in zip(samples, dense, strict=True)]


def _passed_on(outputs: list[Operand], inputs: int) -> int | None:
    """Return the slot of the argument's component that a result is on all paths; None if it is another."""
    slots = {o.slot if isinstance(o, Value) and o.slot < inputs else None for o in outputs}
    return slots.pop() if len(slots) == 1 else None


def _grow_tree(paths: Sequence[Path]) -> Segment:
    """Return the segments of all paths, those that several share once; what is done again is kept from being written
    over.
    """
    return _grow(paths, list(paths), 0, 0, 0)


def _slots_done_again(tree: Segment) -> set[int]:
    """Return what the steps that are done again on some rows look at."""
    sides = tree.sides or ()
    own = {value.slot for step in tree.again for value in step.uses}
    return own.union(*[_slots_done_again(side) for side in sides])


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
    """Return whether two paths came to a decision in the same way."""
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
    """Return whether copied rows have the memory layout that the function would see."""
    if not isinstance(value.sample, np.ndarray):
        return not isinstance(value.sample, tuple | list)
    return value.faithful and value.sample.flags.c_contiguous


def _is_view(step: Step) -> bool:
    rows = [value for value in step.uses if value.batched]
    if step.name not in VIEWS or step.rowwise or len(rows) != 1 or not isinstance(step.sample, np.ndarray):
        return False
    return isinstance(rows[0].sample, np.ndarray) and np.may_share_memory(step.sample, rows[0].sample)


def _is_value(item: object) -> bool:
    return isinstance(item, Value)
