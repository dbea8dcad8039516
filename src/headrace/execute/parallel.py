"""Rows of an input made ahead of whoever pulls them: on threads, as many as were asked for or prove good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.columns.refs import UnsoundError
from headrace.execute.autotune import MOST, Climb, Depth
from headrace.execute.channel import Limits
from headrace.execute.context import Context, Form
from headrace.execute.sound_rows import open_again, open_late
from headrace.execute.stream import CROWD, Pace, Source
from headrace.execute.unordered import Delivery, Remaining, Unordered
from headrace.execute.workers import Flow, Task, Work, WorkerStream, do_nothing, rows_key
from headrace.late_block import MOVED
from headrace.options import AUTOTUNE
from headrace.plan.access import late_bytes
from headrace.plan.marks import At, Mark, Marks
from headrace.plan.node import Ahead, Moves, Node, waits

if TYPE_CHECKING:
    pass

AUTOTUNE_TICKETS = 4
"""Hand-overs of about a millisecond that a prefetch(AUTOTUNE) keeps ready; more of them leave the cache."""
SMALL_BYTES = 4 << 20
"""Rows may go ahead up to so many bytes, where a prefetch of few was asked for and nobody can tell."""
AUTOTUNE_ROWS = 8
"""How many elements it keeps ready where they are handed over one by one."""
SPARE = 4
"""So many blocks more than threads are ahead where all take about as long: memory that is not in cache is slow."""
FEW = 2
"""So many threads are begun with, if they were asked for, on however few processors."""
HELPFUL = 4
"""One thread for so many processors is a good guess where work is done by kernels: more wait for memory, or Python."""


NO_WORK = Task()


def read_ahead(
    ctx: Context,
    node: Node,
    marks: Marks,
    *,
    rows: int | None = None,
    task: Task = NO_WORK,
    if_it_helps: str | None = None,
) -> WorkerStream:
    """The rows of an input, read by a thread before they are asked for, or what a task makes of them, one by one.

    Args:
        ctx: Where the input is opened.
        node: The input.
        marks: Where it begins.
        rows: How many rows are ahead at most. None chooses a sensible number.
        task: What is done with the rows.
        if_it_helps: The name under which it is tuned whether a thread reads them at all: not until it helps.
    """
    working = task.work is not do_nothing
    one_by_one = working or (waits(node) and node.ahead is not Ahead.READY)  # who is asked for many gives what there is
    late = ctx.late and not working and rows is None and not if_it_helps  # else of however many files
    source = ctx.open(node, marks, any_order=True, form=Form(late=late, objects=not working))
    tuner = ctx.run.tuner
    depth = None
    if rows is None:
        stage = f"{if_it_helps} depth" if if_it_helps else ctx.stage.path
        found = tuner.found_before(stage)
        sensible = AUTOTUNE_ROWS if one_by_one else AUTOTUNE_TICKETS
        depth = Depth(tuner, stage, found or tuner.widths.get(stage, sensible), fixed=found is not None)
    width = _one_if_it_helps(ctx, if_it_helps) if if_it_helps else 1

    small = SMALL_BYTES if node.pure and not one_by_one else 0

    def limits(size: int) -> Limits:
        return Limits(max(2, rows or size), rows, prompt=working, small=small)

    return _stage(ctx, source, replace(task, one_by_one=one_by_one), Flow(width, limits, depth=depth))


def work_in_parallel(ctx: Context, node: Node, at: At, task: Task, *, width: int, ordered: bool) -> WorkerStream:
    """What a task makes of the rows of an input on `width` threads; on at most as many if its work is unseen.

    Then rows are read lazily; if some prove corrupt, all from there on are read again.
    """
    own, unseen = at.own, task.unseen
    if isinstance(own, Unordered):
        left = Delivery(own.done)
        delivery: Delivery | None = left
        source: Source = Remaining(lambda marks: ctx.open(node, marks), at.inputs, own, left)
    else:
        source = open_late(ctx, node, at.inputs) if unseen and ordered else ctx.open(node, at.inputs)
        delivery = None if ordered else Delivery()

    # Reading that shows goes as far ahead as there are calls, which is what the user asked for.
    # A process has the next rows while it works on others.
    def limits(n: int) -> Limits:
        tickets = 4 * n if task.remote is not None else n + min(n, SPARE) if unseen else 2 * n
        return Limits(tickets, None if node.pure else n)

    def reopen(mark: Mark, unsound: UnsoundError) -> tuple[Source, Work]:
        written = task.written
        return open_again(ctx, written or node, mark, unsound), do_nothing if written else task.work

    # Out of order, marks are made where threads hand over: then there is always one.
    start = 0 if delivery is None else 1
    if unseen and not start:
        # Of records that were drawn from all over, making them is nearly all there is to do.
        guess = max(int(node.moves is Moves.FAR and late_bytes(node) >= MOVED), ctx.run.tuner.cpus // HELPFUL)
        threads = width_up_to(ctx, width, few=FEW, guess=guess)
    else:
        threads = tuned_width(ctx, width, start=start)
    return _stage(ctx, source, task, Flow(threads, limits, delivery, reopen=reopen if unseen and ordered else None))


def _stage(ctx: Context, source: Source, task: Task, flow: Flow) -> WorkerStream:
    """Rows that a user's function makes are taken on one by one: none is held back while the next is made.

    Unless nobody sees them before there is a whole lot.
    """
    threads = flow.width if isinstance(flow.width, int) else flow.width.most
    crowd = max(1, threads, min(ctx.sharers, CROWD))
    pace = Pace(1) if task.one_by_one else ctx.run.pace(threads=crowd, remote=task.remote is not None)
    if task.one_by_one and task.lot > 1 and ctx.run.block_rows is None:
        pace = Pace(most=task.lot, threads=max(1, threads))
    pace.begin_with(ctx.run.tuner.widths.get(rows_key(ctx.stage)))
    return WorkerStream(source, task, flow, ctx.run, ctx.stage, pace)


def tuned_width(ctx: Context, width: int, *, start: int = 0, guess: int = 0, most: int = MOST) -> int | Climb:
    """The number of parallel calls: what was said, or found by an earlier pass, else to be found, from a `guess` on."""
    if width != AUTOTUNE:
        return width
    tuner, stage = ctx.run.tuner, ctx.stage.path
    found = tuner.found_before(stage)
    if found is None:
        return Climb(tuner, stage, max(start, tuner.widths.get(stage, guess)), most, hides=False, least=start)
    tuner.chose(stage, None, found, "")
    return max(start, found)


def _one_if_it_helps(ctx: Context, stage: str) -> int | Climb:
    """One thread, if that hides time from the consumer, or none; as found by an earlier pass, else to be found."""
    tuner = ctx.run.tuner
    found = tuner.found_before(stage)
    if found is None:
        return Climb(tuner, stage, tuner.widths.get(stage, 0), 1, hides=True)
    tuner.chose(stage, None, found, "")
    return found


def width_up_to(ctx: Context, said: int, *, few: int = 0, most: int = MOST, guess: int | None = None) -> int | Climb:
    """The number of threads for work that lets go of Python's lock: at most what was said, from a guess on.

    A number that is no more than a `few` is taken at its word.
    """
    guess = ctx.run.tuner.cpus // HELPFUL if guess is None else guess
    if said == AUTOTUNE:
        return tuned_width(ctx, AUTOTUNE, guess=min(most, guess), most=most)
    if said <= few:
        return said
    most = min(said, most)
    return tuned_width(ctx, AUTOTUNE, guess=min(most, max(few, guess)), most=most)


def tuned_buffer(ctx: Context, operation: str, row_bytes: Callable[[int], int]) -> int:
    """How many rows the buffer of an operation holds, if it may take what is set aside for it.

    The order of rows depends on it: so it is found once, and then belongs to the dataset and its states. `row_bytes`
    says how many bytes a row takes, given how many there are.
    """
    run, stage = ctx.run, f"{ctx.stage.branch}{operation}"
    room = run.memory.set_aside(stage) // ctx.sharers
    size = run.sizes.get(stage) or run.tuner.found_before(stage)
    if size is None:
        each = row_bytes(room)
        size = max(1, room // each)
        run.tuner.chose(stage, 0, size, f"rows of about {each:,} bytes in {room / 1e6:,.0f} MB")
    run.sizes[stage] = size
    run.tuner.chose(stage, None, size, "")
    return size


def process_count(ctx: Context, node: Node, num_parallel_calls: int | None) -> int:
    """How many processes an operation on a node's rows gets: what it says, else one for each CPU of the pass.

    No more than there are rows, where that is known: they are started before there are any.
    """
    said = num_parallel_calls is not None and num_parallel_calls != AUTOTUNE
    count = num_parallel_calls if said and num_parallel_calls is not None else ctx.run.tuner.cpus
    rows = node.cardinality
    return max(1, min(count, rows)) if isinstance(rows, int) and rows >= 0 else count
