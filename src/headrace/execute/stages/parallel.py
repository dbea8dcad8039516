"""Make rows of an input ahead of their consumer, on a given or tuned number of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.columns.lazy_block import MIN_REFERENCED_ROW_BYTES
from headrace.columns.refs import CorruptRecordsError
from headrace.execute.context import Context, Form
from headrace.execute.stages.autotune import MAX_THREADS, Climb, Depth
from headrace.execute.stages.channel import Limits
from headrace.execute.stages.unordered import Delivery, Remaining, Unordered
from headrace.execute.stages.workers import Flow, Task, Work, WorkerStream, do_nothing, rows_key
from headrace.execute.stream import ASSUMED_READER_THREADS, Pace, Source, WholeRequests
from headrace.execute.verified_rows import open_again, open_late
from headrace.options import AUTOTUNE
from headrace.plan.access import late_bytes
from headrace.plan.marks import At, Mark, Marks
from headrace.plan.node import Ahead, Moves, Node, waits

if TYPE_CHECKING:
    pass

AUTOTUNE_TICKETS = 4
"""How many tickets of about a millisecond a prefetch(AUTOTUNE) keeps ready. More of them leave the cache."""
MAX_UNOBSERVED_BYTES = 4 << 20
"""How many bytes of rows may be ahead if a prefetch of few rows was requested and reading ahead is unobservable."""
AUTOTUNE_ROWS = 8
"""How many elements a prefetch(AUTOTUNE) keeps ready if they are handed over one by one."""
MAX_SPARE_BLOCKS = 4
"""How many more blocks than threads are ahead if all take about as long: memory that is not in cache is slow."""
INITIAL_THREADS = 2
"""How many threads a stage starts with if threads were requested, on however few CPUs."""
CPUS_PER_INITIAL_THREAD = 4
"""A good first guess for kernel work is one thread per this many CPUs: more wait for memory or the GIL."""


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
    """Read the rows of an input on a thread ahead of the consumer, and apply a task to them one by one.

    Args:
        ctx: Where the input is opened.
        node: The input.
        marks: Where it begins.
        rows: How many rows are ahead at most. None chooses a sensible number.
        task: What is done with the rows.
        if_it_helps: The name under which it is tuned whether a thread reads them at all: not until it helps.
    """
    working = task.work is not do_nothing
    one_by_one = working or (waits(node) and node.ahead is not Ahead.READY)  # a READY stage returns what it has
    late = ctx.late and not working and rows is None and not if_it_helps  # else of any number of files
    source = ctx.open(node, marks, any_order=True, form=Form(late=late, objects=not working))
    tuner = ctx.run.tuner
    depth = None
    if rows is None:
        stage = f"{if_it_helps} depth" if if_it_helps else ctx.stage.path
        found = tuner.found_before(stage)
        sensible = AUTOTUNE_ROWS if one_by_one else AUTOTUNE_TICKETS
        depth = Depth(tuner, stage, found or tuner.widths.get(stage, sensible), fixed=found is not None)
    width = _one_if_it_helps(ctx, if_it_helps) if if_it_helps else 1

    small = MAX_UNOBSERVED_BYTES if node.pure and not one_by_one else 0

    def limits(size: int) -> Limits:
        return Limits(max(2, rows or size), rows, prompt=working, small=small)

    return _stage(ctx, source, replace(task, one_by_one=one_by_one), Flow(width, limits, depth=depth))


def work_in_parallel(ctx: Context, node: Node, at: At, task: Task, *, width: int, ordered: bool) -> WorkerStream:
    """Apply a task to the rows of an input on `width` threads, or on at most as many if the work is unobservable.

    In the latter case rows are read lazily. If some prove corrupt, all rows from there on are re-read eagerly.
    """
    own, unseen = at.own, task.unseen
    if isinstance(own, Unordered):
        left = Delivery(own.done)
        delivery: Delivery | None = left
        source: Source = Remaining(lambda marks: ctx.open(node, marks), at.inputs, own, left)
    else:
        source = open_late(ctx, node, at.inputs) if unseen and ordered else ctx.open(node, at.inputs)
        delivery = None if ordered else Delivery()

    # Observable reading runs as far ahead as there are calls, which is what the user requested. A process has the next
    # rows while it works on others.
    def limits(n: int) -> Limits:
        tickets = 4 * n if task.remote is not None else n + min(n, MAX_SPARE_BLOCKS) if unseen else 2 * n
        return Limits(tickets, None if node.pure else n)

    def reopen(mark: Mark, corrupt: CorruptRecordsError) -> tuple[Source, Work]:
        written = task.written
        return open_again(ctx, written or node, mark, corrupt), do_nothing if written else task.work

    # Out of order, threads make marks when they hand rows over, so there must always be one thread.
    start = 0 if delivery is None else 1
    if unseen and not start:
        # If records come from random offsets, materializing them is nearly all the work.
        guess = max(
            int(node.moves is Moves.FAR and late_bytes(node) >= MIN_REFERENCED_ROW_BYTES),
            ctx.run.tuner.cpus // CPUS_PER_INITIAL_THREAD,
        )
        threads = width_up_to(ctx, width, few=INITIAL_THREADS, guess=guess)
    else:
        threads = tuned_width(ctx, width, start=start)
    return _stage(ctx, source, task, Flow(threads, limits, delivery, reopen=reopen if unseen and ordered else None))


def _stage(ctx: Context, source: Source, task: Task, flow: Flow) -> WorkerStream:
    """Take rows of a user's function one by one, so that none is held back while the next is made.

    Rows that are only used as whole batches are the exception.
    """
    if ctx.run.stepwise and flow.delivery is None:
        flow = replace(flow, width=0)
    threads = flow.width if isinstance(flow.width, int) else flow.width.most
    crowd = max(1, threads, min(ctx.sharers, ASSUMED_READER_THREADS))
    pace = Pace(1) if task.one_by_one else ctx.run.pace(threads=crowd, remote=task.remote is not None)
    if task.one_by_one and task.lot > 1 and ctx.run.block_rows is None:
        pace = Pace(most=task.lot, threads=max(1, threads))
    if task.whole and ctx.run.block_rows is None:
        pace = WholeRequests()
    pace.begin_with(ctx.run.tuner.widths.get(rows_key(ctx.stage)))
    return WorkerStream(source, task, flow, ctx.run, ctx.stage, pace)


def tuned_width(ctx: Context, width: int, *, start: int = 0, guess: int = 0, most: int = MAX_THREADS) -> int | Climb:
    """Return the number of parallel calls: as requested, or found by an earlier pass, else a search that starts at
    `guess`.
    """
    if width != AUTOTUNE:
        return width
    tuner, stage = ctx.run.tuner, ctx.stage.path
    found = tuner.found_before(stage)
    if found is None:
        return Climb(tuner, stage, max(start, tuner.widths.get(stage, guess)), most, hides=False, least=start)
    tuner.chose(stage, None, found, "")
    return max(start, found)


def _one_if_it_helps(ctx: Context, stage: str) -> int | Climb:
    """Return one thread if that hides time from the consumer, else none; found by an earlier pass, else by a search."""
    tuner = ctx.run.tuner
    found = tuner.found_before(stage)
    if found is None:
        return Climb(tuner, stage, tuner.widths.get(stage, 0), 1, hides=True)
    tuner.chose(stage, None, found, "")
    return found


def width_up_to(
    ctx: Context, said: int, *, few: int = 0, most: int = MAX_THREADS, guess: int | None = None
) -> int | Climb:
    """Return the number of threads for work that releases the GIL: at most `said`, starting from a guess.

    A number of at most `few` is used as it is.
    """
    guess = ctx.run.tuner.cpus // CPUS_PER_INITIAL_THREAD if guess is None else guess
    if said == AUTOTUNE:
        return tuned_width(ctx, AUTOTUNE, guess=min(most, guess), most=most)
    if said <= few:
        return said
    most = min(said, most)
    return tuned_width(ctx, AUTOTUNE, guess=min(most, max(few, guess)), most=most)


def tuned_buffer(ctx: Context, operation: str, row_bytes: Callable[[int], int]) -> int:
    """Return how many rows the buffer of an operation holds if it may use the memory set aside for it.

    The order of rows depends on it, so it is computed once and then belongs to the dataset and its states. `row_bytes`
    returns the bytes per row, given the number of rows.
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
    """Return how many processes an operation gets: what was requested, else one for each CPU of the pass.

    At most as many as there are rows, if that is known, because processes start before there are rows.
    """
    said = num_parallel_calls is not None and num_parallel_calls != AUTOTUNE
    count = num_parallel_calls if said and num_parallel_calls is not None else ctx.run.tuner.cpus
    rows = node.cardinality
    return max(1, min(count, rows)) if isinstance(rows, int) and rows >= 0 else count
