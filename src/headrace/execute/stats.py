"""Statistics of each stage of a running pipeline: rows, blocks, bytes, time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.core.types import JsonObject
from headrace.plan.capabilities import CallsOnRow, HasRemedy, provides
from headrace.plan.display import WIDTH, cut_to_width
from headrace.plan.explain import table
from headrace.plan.node import Ahead, Node, draws_numbers

if TYPE_CHECKING:
    from headrace.execute.latencies import Latencies
    from headrace.execute.origin import Origin


class Reports(Protocol):
    """Counters that only some stages have."""

    def report(self) -> JsonObject:
        """Return them by name."""


R = TypeVar("R", bound=Reports)


class Queue(Protocol):
    """What threads of a stage have made and the consumer has not taken."""

    full_nanoseconds: int
    memory_nanoseconds: int

    def depth(self) -> tuple[int, int]:
        """Return how many pieces of work are ready, and how many may be."""
        ...


MEASURED_BLOCKS, BLOCKS_BETWEEN_MEASUREMENTS = 4, 16


class Counters:
    """The numbers of one open stream; only its own thread writes them.

    To ask a block for its size costs as much as all other counting together. So only the first blocks and then every
    16th are asked, the next of them is number `look`, and the others are assumed to have as many bytes a row.
    """

    __slots__ = ("_measured_bytes", "_measured_rows", "blocks", "look", "nanoseconds", "rows")

    def __init__(self) -> None:
        self.rows: int = 0
        self.blocks: int = 0
        self.look: int = 1
        self.nanoseconds: int = 0
        self._measured_rows = self._measured_bytes = 0

    def measure(self, rows: int, nbytes: int) -> None:
        """Take in the size of the block that was just counted."""
        self._measured_rows += rows
        self._measured_bytes += nbytes
        self.look += 1 if self.blocks < MEASURED_BLOCKS else BLOCKS_BETWEEN_MEASUREMENTS

    @property
    def nbytes(self) -> int:
        """Return how many bytes the rows have, as far as blocks were measured."""
        return self._measured_bytes * self.rows // self._measured_rows if self._measured_rows else 0

    def add(self, other: Counters) -> None:
        """Add the numbers of another stream."""
        nbytes = self.nbytes + other.nbytes
        self.rows += other.rows
        self.blocks += other.blocks
        self.nanoseconds += other.nanoseconds
        self._measured_rows, self._measured_bytes = self.rows, nbytes


class Stage:
    """One node of the plan, over all streams that were opened for it (epochs, children of a flat_map).

    `path` names it among the operations that run, `branch` among the inputs: the same whatever the optimizer does.
    """

    def __init__(self, label: str, path: str = "", branch: str = "") -> None:
        self.label = label
        self.path = path
        self.branch = branch
        self.threaded = False
        self._node = 0
        self._operation = ""
        self.remedy: str | None = None
        self.random = False
        self.site: str | None = None
        self.python = False
        self.latencies: Latencies | None = None
        self.inputs: dict[tuple[int, str], Stage] = {}
        self._closed = Counters()
        self._live: set[Counters] = set()
        self._work = 0
        self._filled = [0, 0]
        self._queues: set[Queue] = set()
        self._waits = [0, 0]
        self._extras: dict[str, Reports] = {}
        self._lock = threading.RLock()

    def input(self, slot: int, node: Node) -> Stage:
        """Return the stage of an input. All inputs in one slot, epoch after epoch, are one stage."""
        key = (slot, node.operation)
        with self._lock:
            stage = self.inputs.get(key)
            if stage is None:
                # The others may be absent in the next pass, and have nothing to tune.
                tuned = node.ahead is Ahead.READY or not node.transparent
                path = f"{self.path}/{slot or ''}{node.operation}" if tuned else self.path
                branch = f"{self.branch}{slot}/" if slot else self.branch
                stage = self.inputs[key] = Stage(node.label(), path, branch)
                stage._node, stage._operation = id(node), node.operation
                stage.latencies = None if self.latencies is None else type(self.latencies)()
                one_of_its_files = self._operation == node.operation and not node.inputs
                remedy = node.remedy() if provides(node, HasRemedy) else None
                stage.remedy = remedy or (self.remedy if one_of_its_files else None)
                stage.random = draws_numbers(node)
                stage.site = node.site
                stage.python = node.live and provides(node, CallsOnRow) and getattr(node, "mode", None) != "process"
            elif stage._node != id(node):
                stage.label = f"{node.operation}(…)"  # children of a flat_map, files of a reader: each another one
            return stage

    def add_stream(self) -> Counters:
        """Count a new stream."""
        counters = Counters()
        with self._lock:
            self._live.add(counters)
        return counters

    def remove_stream(self, counters: Counters) -> None:
        """Remove a stream that has ended."""
        with self._lock:
            if counters in self._live:
                self._live.remove(counters)
                self._closed.add(counters)

    def add_work(self, nanoseconds: int) -> None:
        """Add time that a worker thread spent."""
        with self._lock:
            self._work += nanoseconds

    def add_queue(self, queue: Queue) -> None:
        """Count how long threads wait for room in a new queue."""
        with self._lock:
            self._queues.add(queue)

    def remove_queue(self, queue: Queue) -> None:
        """Remove a queue that is closed."""
        with self._lock:
            if queue in self._queues:
                self._queues.remove(queue)
                self._waits[0] += queue.full_nanoseconds
                self._waits[1] += queue.memory_nanoseconds

    def _waited_for_room(self) -> tuple[int, int]:
        """Return the nanoseconds in which threads waited because a queue was full, and because memory was short."""
        with self._lock:
            full, memory = self._waits
            for queue in self._queues:
                full += queue.full_nanoseconds
                memory += queue.memory_nanoseconds
        return full, memory

    def _waited_for_inputs(self) -> int:
        """Return the nanoseconds in which this stage waited for threads of stages before it."""
        return sum(
            stage._total().nanoseconds if stage.threaded else stage._waited_for_inputs()
            for stage in list(self.inputs.values())
        )

    def _depth(self) -> tuple[int, int]:
        with self._lock:
            queues = list(self._queues)
        depths = [queue.depth() for queue in queues]  # with no lock held: a queue has its own
        return sum(ready for ready, _ in depths), sum(room for _, room in depths)

    def filled(self, used: int, room: int) -> None:
        """Record that `used` of `room` cells in its rows were filled."""
        with self._lock:
            self._filled[0] += used
            self._filled[1] += room

    def extra(self, name: str, make: Callable[[], R]) -> R:
        """Return the stage's own counters of this name, which all its streams share and `stats()` shows."""
        with self._lock:
            return self._extras.setdefault(name, make())  # type: ignore[return-value]

    def _total(self) -> Counters:
        total = Counters()
        with self._lock:
            for counters in (self._closed, *self._live):
                total.add(counters)
        return total

    def most_bytes(self) -> int:
        """Return how many bytes came out of this stage, or of one below it if that is more."""
        return max(self._total().nbytes, *(stage.most_bytes() for stage in list(self.inputs.values())), 0)

    def report(self, depth: int = 0) -> Iterator[JsonObject]:
        """Yield the inputs' reports, then this stage's, which is `depth` operations before the last.

        Busy is its own time, waiting the time others waited for its threads. `input_s`, `room_s` and `memory_s` are how
        long it waited for threads before it, because its queue was full, and because the memory budget was used up.
        """
        with self._lock:
            inputs = list(self.inputs.values())
        for stage in inputs:
            yield from stage.report(depth + 1)
        total = self._total()
        within = 0 if self.threaded else sum(stage._total().nanoseconds for stage in inputs)
        full, memory = self._waited_for_room()
        ready, room = self._depth()
        busy = self._work if self.threaded else total.nanoseconds - within
        yield {
            "stage": self.label,
            "rows": total.rows,
            "blocks": total.blocks,
            "bytes": total.nbytes,
            "busy_s": max(0, busy) / 1e9,
            "waiting_s": total.nanoseconds / 1e9 if self.threaded else 0.0,
            "input_s": self._waited_for_inputs() / 1e9,
            "room_s": full / 1e9,
            "memory_s": memory / 1e9,
            "ready": ready,
            "room": room,
            "remedy": self.remedy or self._common_remedy(),
            "operation": self._operation,
            "depth": depth,
            "site": self.site,
            "python": self.python,
            "threaded": self.threaded,
            **{name: extra.report() for name, extra in list(self._extras.items())},
            **({"fill": self._filled[0] / self._filled[1]} if self._filled[1] else {}),
            **({} if self.latencies is None else {"latency": self.latencies.report()}),
        }

    def slowest(self) -> Iterator[tuple[float, int, str, Origin]]:
        """Yield the slowest calls of this stage and of those below it: seconds, rows, the stage, the first row."""
        if self.latencies is not None:
            for seconds, rows, origin in self.latencies.slowest():
                yield seconds, rows, self.label, origin
        for stage in list(self.inputs.values()):
            yield from stage.slowest()

    def _common_remedy(self) -> str:
        """Return a remedy for any stage. Suggest a cache only if it would not repeat random draws in every epoch."""
        cache = "" if self._draws() else "put .cache() after it if its rows stay the same, "
        return f"{cache}let it do less, or read on more machines"

    def _draws(self) -> bool:
        return self.random or any(stage._draws() for stage in list(self.inputs.values()))


class Stats(JsonObject):
    """The result of `it.stats()`: a dict that prints as a table."""

    def scalars(self, prefix: str = "headrace/") -> dict[str, float]:
        """Return the numbers alone, by flat names: what TensorBoard, Weights & Biases and MLflow log.

        Args:
            prefix: What every name begins with.

        Returns:
            Numbers by name, such as `headrace/rows`, `headrace/starvation/share` and `headrace/map(double)/busy_s`. If
            two stages have one label, the second is called `label#2`.

        >>> it = iter(hr.Dataset.range(8).batch(4))
        >>> _ = list(it)
        >>> it.stats().scalars()["headrace/rows"]
        8.0
        """
        found = {"epoch": float(self.get("epoch", 0)), "delivered": float(self.get("delivered", 0))}
        stages: list[JsonObject] = self.get("stages", [])
        found["rows"] = float(stages[0]["rows"]) if stages else 0.0
        for group in ("starvation", "memory"):
            found |= {f"{group}/{name}": float(value) for name, value in self.get(group, {}).items()}
        seen: dict[str, int] = {}
        for stage in stages:
            label = str(stage["stage"])
            seen[label] = number = seen.get(label, 0) + 1
            called = label if number == 1 else f"{label}#{number}"
            found |= {f"{called}/{name}": float(v) for name, v in stage.items() if isinstance(v, int | float)}
            for group, own in stage.items():
                if isinstance(own, dict):
                    numbers = {name: float(v) for name, v in own.items() if isinstance(v, int | float)}
                    found |= {f"{called}/{group}/{name}": v for name, v in numbers.items()}
        return {prefix + name: value for name, value in found.items()}

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        widths[0] = min(widths[0], WIDTH - sum(widths[1:]) - 2 * len(widths[1:]))
        lines = [
            "  ".join([cut_to_width(r[0], widths[0]).ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])])
            for r in rows
        ]
        return "\n".join([*lines, *filter(None, [self._starvation()])])

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return table(head, rows, self._starvation())

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [("stage", "rows", "blocks", "bytes", "busy s", "waiting s")]
        return rows + [
            (
                (f"{s['fill']:.1%} full: " if "fill" in s else "") + s["stage"],
                f"{s['rows']:,}",
                f"{s['blocks']:,}",
                f"{s['bytes']:,}",
                f"{s['busy_s']:.4f}",
                f"{s['waiting_s']:.4f}",
            )
            for s in self["stages"]
        ]

    def _starvation(self) -> str:
        starved = self.get("starvation")
        if not starved or not starved["computed_s"]:
            return ""
        return f"the consumer waited {starved['waited_s']:.4f} s and computed {starved['computed_s']:.4f} s"
