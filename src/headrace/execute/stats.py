"""What each stage of a running pipeline has done: rows, blocks, bytes, time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from headrace.plan.capabilities import HasRemedy
from headrace.plan.display import WIDTH, cut_to_width
from headrace.plan.explain import table
from headrace.plan.node import Ahead, Node, draws_numbers


class Counters:
    """The numbers of one open stream; only its own thread writes them."""

    __slots__ = ("blocks", "nanoseconds", "nbytes", "rows")

    def __init__(self) -> None:
        self.rows = self.blocks = self.nbytes = self.nanoseconds = 0

    def add(self, other: Counters) -> None:
        """Sum up."""
        self.rows += other.rows
        self.blocks += other.blocks
        self.nbytes += other.nbytes
        self.nanoseconds += other.nanoseconds


class Stage:
    """One place of the plan, over all the streams that were opened for it (epochs, children of a flat_map).

    `path` names it among the operations that run, `branch` among the inputs: the same whatever the optimiser does.
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
        self.inputs: dict[tuple[int, str], Stage] = {}
        self._closed = Counters()
        self._live: set[Counters] = set()
        self._work = 0
        self._filled = [0, 0]
        self._lock = threading.RLock()

    def input(self, slot: int, node: Node) -> Stage:
        """The stage of an input; all that stand in one slot, epoch after epoch, are one stage."""
        key = (slot, node.operation)
        with self._lock:
            stage = self.inputs.get(key)
            if stage is None:
                # Others may come and go, and have nothing to tune.
                tuned = node.ahead is Ahead.READY or not node.transparent
                path = f"{self.path}/{slot or ''}{node.operation}" if tuned else self.path
                branch = f"{self.branch}{slot}/" if slot else self.branch
                stage = self.inputs[key] = Stage(node.label(), path, branch)
                stage._node, stage._operation = id(node), node.operation
                one_of_its_files = self._operation == node.operation and not node.inputs
                remedy = node.remedy() if isinstance(node, HasRemedy) else None
                stage.remedy = remedy or (self.remedy if one_of_its_files else None)
                stage.random = draws_numbers(node)
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
        """A stream has come to its end."""
        with self._lock:
            if counters in self._live:
                self._live.remove(counters)
                self._closed.add(counters)

    def add_work(self, nanoseconds: int) -> None:
        """A worker thread spent this time."""
        with self._lock:
            self._work += nanoseconds

    def filled(self, used: int, room: int) -> None:
        """Of so much room in its rows so much was used."""
        with self._lock:
            self._filled[0] += used
            self._filled[1] += room

    def _total(self) -> Counters:
        total = Counters()
        with self._lock:
            for counters in (self._closed, *self._live):
                total.add(counters)
        return total

    def most_bytes(self) -> int:
        """How many bytes came out of this stage, or of one below it if that were more."""
        return max(self._total().nbytes, *(stage.most_bytes() for stage in list(self.inputs.values())), 0)

    def report(self) -> Iterator[dict[str, Any]]:
        """This stage after its inputs; busy is its own time, waiting the time others waited for its threads."""
        with self._lock:
            inputs = list(self.inputs.values())
        for stage in inputs:
            yield from stage.report()
        total = self._total()
        within = 0 if self.threaded else sum(stage._total().nanoseconds for stage in inputs)
        busy = self._work if self.threaded else total.nanoseconds - within
        yield {
            "stage": self.label,
            "rows": total.rows,
            "blocks": total.blocks,
            "bytes": total.nbytes,
            "busy_s": max(0, busy) / 1e9,
            "waiting_s": total.nanoseconds / 1e9 if self.threaded else 0.0,
            "remedy": self.remedy or self._common_remedy(),
            **({"fill": self._filled[0] / self._filled[1]} if self._filled[1] else {}),
        }

    def _common_remedy(self) -> str:
        """What helps any stage; a cache only where no draw would be the same in every epoch."""
        cache = "" if self._draws() else "put .cache() after it if its rows stay the same, "
        return f"{cache}have it do less, or read on more machines"

    def _draws(self) -> bool:
        return self.random or any(stage._draws() for stage in list(self.inputs.values()))


class Stats(dict[str, Any]):
    """`it.stats()`: a dict that prints as a table."""

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
