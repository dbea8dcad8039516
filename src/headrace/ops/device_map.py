"""Apply a function to whole batches on a device: what `map` and `random_map` give with `device=`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.columns import Column
from headrace.columns.block import Block, Item, concat
from headrace.core import keys
from headrace.core.random import RowGenerator, row_key
from headrace.core.types import DeviceLike, Nested, UserFunction
from headrace.device.columns import DeviceColumn
from headrace.device.machine import DeviceMemoryError, Usage, check_device
from headrace.device.program import DeviceError
from headrace.device.programs import JaxRows, Programs, Ready
from headrace.errors import TransportError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stages.parallel import work_in_parallel
from headrace.execute.stages.workers import Task
from headrace.execute.stream import Made, Pulled, Stream
from headrace.ops.shared.calls import place_results, rows_as_arguments
from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.plan.capabilities import device_of_rows
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Ahead, Divides, Node, rebuild
from headrace.plan.once import cached_property
from headrace.plan.spec import Spec, same_dtype
from headrace.trace.draws import generator_column
from headrace.trace.graph import column_spec

if TYPE_CHECKING:
    from headrace.device.on_jax.machine import Place

DEFAULT_DEVICE_MEMORY_BYTES = 1 << 30
IMAGE_RANK = 3
HOST_THREADS = 2
WORKING_COPIES = 6
"""How many copies of a result may be in memory while it is made: temporaries, indices, and queued batches."""


def checked_device(operation: str, node: Node, device: DeviceLike, **unsupported: object) -> str:
    """Return the device of a map after `node`: the one that is given, or the one where its elements are."""
    for name, value in unsupported.items():
        if value not in (None, False, "auto", "vectorized"):
            raise ValueError(
                f"{operation}: {name}={value!r} has no meaning with device=, where whole batches run at a time: leave "
                "it out"
            )
    before = device_of_rows(node)
    chosen = check_device(before if device is None else device)
    if before is not None and chosen != before:
        raise ValueError(
            f'{operation}(device="{chosen}") comes after a map on "{before}": elements stay on one device until the end'
        )
    return chosen


@dataclass(frozen=True, eq=False)
class OnDevice(Node):
    """Call the function on rows of a device, many at a time."""

    input: Node
    fn: UserFunction

    one_to_one = True
    divides = Divides.RUNS
    follows_device = True

    programs: Programs = field(repr=False, metadata=TUNING, kw_only=True)
    device: str = field(metadata=TUNING, kw_only=True)

    @property
    @abstractmethod
    def draws(self) -> bool:
        """Whether the function has a generator."""

    @property
    def rows_on(self) -> str | None:
        return self.device

    @property
    def spec(self) -> Spec:
        return self.programs.spec(self.input.spec)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @cached_property
    def tentative(self) -> bool:
        return self.input.tentative

    def remark(self) -> str | None:
        return f"the plan is cut here: {self.programs.remark(self.input.spec)}"

    def more(self, block: Block) -> list[Column]:
        """Return the columns beside the elements' own."""
        del block
        return []


@dataclass(frozen=True, eq=False)
class DeviceMap(OnDevice):
    """A `map` on a device."""

    @property
    def operation(self) -> str:
        return "map"

    @property
    def draws(self) -> bool:
        return False

    def call_on_row(self, row: Block) -> Nested:
        """Return what the function makes of one row on the CPU, for `debug`."""
        return self.fn(*next(rows_as_arguments(row, keep=True)))


@dataclass(frozen=True, eq=False)
class DeviceRandomMap(OnDevice):
    """A `random_map` on a device: the numbers are drawn on the CPU, as always."""

    seed: keys.Seed
    place: int = 0

    @property
    def operation(self) -> str:
        return "random_map"

    @property
    def draws(self) -> bool:
        return True

    @property
    def key(self) -> int:
        """The key of the draws. Epoch and branch are in the rows' ids."""
        return row_key(self.seed, self.place)

    def call_on_row(self, row: Block) -> Nested:
        """Return what the function makes of one row and its generator on the CPU, for `debug`."""
        assert row.ids is not None, "rows are read with ids"
        args = next(rows_as_arguments(row, keep=True))
        return self.fn(*args, RowGenerator(self.key, row.ids[0]))

    def more(self, block: Block) -> list[Column]:
        assert block.ids is not None, "rows are read with ids"
        return [generator_column(self.key, block.ids)]


class ReadyBlock(Block):
    """Rows with the CPU's part of the function that the device will run on them."""

    __slots__ = ("ready",)

    ready: Ready


@dataclass(frozen=True, eq=False)
class HostPart(PassThrough):
    """Read the rows of a map on a device ahead of it, and do the CPU's part of the map, on threads.

    With two of them one decodes, which waits for the device, while the other reads.
    """

    programs: Programs = field(repr=False, metadata=TUNING, kw_only=True)
    more: Callable[[Block], list[Column]] = field(repr=False, metadata=TUNING, kw_only=True)

    @property
    def operation(self) -> str:
        return "host_part"

    @property
    def ahead(self) -> Ahead:
        return Ahead.READY

    def remark(self) -> str | None:
        return f"reads rows and does the CPU's part of the map on {HOST_THREADS} threads"

    def prepared(self, item: Item) -> list[Item]:
        """Return the item with the CPU's part, unless that fails: then the map meets the failure in its place."""
        if not isinstance(item, Block):
            return [item]
        try:
            ready = self.programs.prepare(item, self.more(item))
        except Exception:
            return [item]
        if ready is None:
            return [item]
        made = ReadyBlock(item.structure, item.columns, item.rows, item.mark, item.ids, item.own, item.nbytes)
        made.offset, made.ready = item.offset, ready
        return [made]


def with_host_part(node: Node) -> Node:
    """Return a map on a device with a thread ahead of it for the CPU's part."""
    assert isinstance(node, OnDevice)
    return node.with_inputs((HostPart(node.input, programs=node.programs, more=node.more),))


@opens(HostPart)
def open_host_part(node: HostPart, ctx: Context, at: At) -> Stream:
    """Return rows that are read and prepared on a thread, as many at a time as the device is to run."""
    task = Task(node.prepared, one_by_one=False, whole=True)
    return work_in_parallel(ctx, node.input, at, task, width=HOST_THREADS, ordered=True)


@opens(OnDevice, calls=True)
class DeviceStream(Stream):
    """Pull as many rows as are wanted, and run them at once."""

    def __init__(self, node: OnDevice, ctx: Context, at: At) -> None:
        self._node = node
        inner = ctx.with_row_ids() if node.draws else ctx
        self._input = inner.open(node.input, at.inputs, any_order=True)
        self._keep_ids = ctx.with_ids
        self._machine = node.programs.machine()
        self._usage = ctx.stage.extra("device", lambda: Usage(str(self._machine.device)))
        limit = ctx.run.options.device_memory
        self._limit_bytes = DEFAULT_DEVICE_MEMORY_BYTES if limit is None else limit
        self._row_bytes = 0.0
        self._prepared = isinstance(node.input, HostPart) and node.programs.jax is None
        self._part = 0
        self._held: Pulled | None = None
        self._again: Block | None = None

    def pull(self, want: int) -> Made:
        block = self._again
        if block is None:
            found = self._gather(self._rows_to_run(want))
            if not isinstance(found, Block):
                return found
            block = found
        self._again = block  # if the device has no memory for it, the next pull tries again
        made = place_results(self._node, self._run, self._keep_ids, block)  # type: ignore[arg-type]
        self._again = None
        self._row_bytes = max(self._row_bytes, max(item.nbytes for item in made) / block.rows)
        return made

    def _rows_to_run(self, want: int) -> int:
        if (compiled := self._node.programs.jax) is not None:
            return min(want, compiled.rows)
        most = max(1, int(self._limit_bytes / WORKING_COPIES / self._row_bytes)) if self._row_bytes else 256
        part = _even_part(want, most)
        if not self._prepared:
            return part
        # Always as many as before, if they fit: blocks that were prepared ahead are not cut.
        self._part = part if self._part > most else max(self._part, part)
        return self._part

    def _gather(self, want: int) -> Pulled:
        """Return the next rows in one block: as many as are wanted, or those before a failure or the end.

        Rows that were prepared come as they are: others in the same block would have to be prepared again.
        """
        if self._prepared:
            return self._input.pull(want)
        blocks: list[Block] = []
        rows = 0
        while rows < want:
            item, self._held = self._held or self._input.pull(want - rows), None
            if not isinstance(item, Block) or (blocks and not _run_together(blocks[0], item)):
                if not blocks:
                    return item
                self._held = item
                break
            blocks.append(item)
            rows += item.rows
        return concat(blocks)

    def _run(self, block: Block) -> list[Block | Exception]:
        """Return what the function makes of the rows; of each half if one of them fails, and so on."""
        programs, node = self._node.programs, self._node
        ready = block.ready if isinstance(block, ReadyBlock) else None
        try:
            return list(programs.run(self._machine, block, node.more(block), self._usage, ready))
        except (DeviceError, DeviceMemoryError, TransportError):
            raise
        except Exception as error:
            if block.rows == 1:
                return [error]
        half = block.rows // 2
        parts = [block.slice(0, half), block.slice(half, block.rows)]
        return [made for part in parts for made in self._run(part)]

    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._held is not None or self._again is not None:
            return 0  # what is held is pulled
        return self._input.skip(count, replay=replay)


def _even_part(want: int, most: int) -> int:
    """Return how many rows to run first, so that `want` rows run in equal parts of at most `most`.

    A batch of 256 rows of which 222 fit runs as 128 and 128: a decoder is slow on the rest of 34.
    """
    return -(-want // -(-want // most))


def _run_together(a: Block, b: Block) -> bool:
    """Return whether rows of two blocks can run at once: alike, but for the sizes of images."""
    if a.structure != b.structure:
        return False
    pairs = [(column_spec(x), column_spec(y)) for x, y in zip(a.columns, b.columns, strict=True)]
    return all(x == y or (same_dtype(x.dtype, y.dtype) and x.rank == y.rank == IMAGE_RANK) for x, y in pairs)


@dataclass(frozen=True, eq=False)
class FromDevice(PassThrough):
    """The input's rows as NumPy arrays."""

    follows_device = True
    indexable = False

    @property
    def operation(self) -> str:
        return "from_device"

    @property
    def rows_on(self) -> None:
        return None


@opens(FromDevice)
class FromDeviceStream(Stream):
    """Copy blocks back."""

    def __init__(self, node: FromDevice, ctx: Context, at: At) -> None:
        self._input = ctx.open(node.input, at.inputs, any_order=True)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if isinstance(item, Block):
            item.columns = [c.fetch() if isinstance(c, DeviceColumn) else c for c in item.columns]
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)


def device_map(node: Node, fn: UserFunction, device: str, *, approximate: bool, **more: Any) -> DeviceMap:
    """Return a map on a device. Raise DeviceError if the function cannot run there."""
    programs = Programs(fn, device, draws=False, approximate=approximate)
    programs.check(node.spec)
    return DeviceMap(node, fn, programs=programs, device=device, **more)


def device_random_map(
    node: Node,
    fn: UserFunction,
    seed: keys.Seed,
    place: int,
    device: str,
    *,
    approximate: bool,
    **more: Any,
) -> DeviceRandomMap:
    """Return a random_map on a device. Raise DeviceError if the function cannot run there."""
    programs = Programs(fn, device, draws=True, approximate=approximate)
    programs.check(node.spec)
    return DeviceRandomMap(node, fn, seed, place, programs=programs, device=device, **more)


def placed_by_jax(plan: Node, place: Place) -> Node:
    """Return the plan with maps on the device "auto" run by JAX, as many rows at a time as the batch after them has.

    Raise DeviceError if JAX cannot run one of them.
    """

    def change(node: Node, rows: int) -> Node:
        rows = getattr(node, "batch_size", None) or rows  # of batch, and of distribute with a batch_size
        inputs = tuple(change(child, rows) for child in node.inputs)
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            node = node.with_inputs(inputs)
        if not isinstance(node, OnDevice) or node.device != "auto":
            return node
        spec = node.input.spec
        if not spec.known:
            raise DeviceError(
                f"{node.operation} ({node.site}) cannot run by JAX: its elements are known only when they come, "
                "and JAX compiles it before: give the source or the map before it an output_signature"
            )
        kind = JaxRows(place.for_rows(rows), rows, spec)
        known = node.programs
        made = known.by_jax.get(kind)
        if made is None:
            made = Programs(known.fn, "jax", draws=known.draws, approximate=known.approximate, jax=kind)
            made.of(spec)
            known.by_jax[kind] = made
        return replace(node, programs=made, device="jax")

    return change(plan, 1)


def placed(plan: Node, device: str) -> Node:
    """Return the plan with maps on the device "auto" on this one."""

    def change(node: Node) -> Node:
        if not isinstance(node, OnDevice) or node.device != "auto":
            return node
        known = node.programs
        made = Programs(known.fn, device, draws=known.draws, approximate=known.approximate)
        made.check(node.input.spec)
        return replace(node, programs=made, device=device)

    return rebuild(plan, change)
