"""Where a traced function is cut: which of its steps the CPU runs, and which the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from headrace.columns import Column
from headrace.core.types import Argument, Array, KeywordArguments
from headrace.device.columns import DeviceColumn
from headrace.device.forms import UnsupportedError
from headrace.plan.spec import Spec, TensorSpec
from headrace.trace.graph import Graph
from headrace.trace.paths import Path
from headrace.trace.recorder import Recorder
from headrace.trace.values import Step, Value, Values, do_steps, leaves, map_arguments

TEXT = "SUO"


@dataclass
class Sides:
    """The steps of both sides, and the slots that cross the cut."""

    host: list[Step]
    device: list[Step]
    made: set[int]
    """The slots that the device's steps give."""
    needed: set[int]
    """The slots of the CPU that the device's steps read."""
    read: set[int]
    """The slots that are read on the CPU."""


class HostSide:
    """The CPU's part of a program: the same for every library that runs the device's."""

    template: Values
    captured: list[tuple[int, Array]]
    guards: list[Callable[[], bool]]
    host: list[Step]
    on_cpu: frozenset[int]

    def current(self) -> bool:
        """Return whether what the function holds on to is still what it was."""
        return all(guard() for guard in self.guards)

    def host_values(self, columns: list[Column], n: int) -> Values:
        """Return the values of `n` rows after the CPU's steps."""
        host = self.template.copy()
        for i, column in enumerate(columns):
            known = column.fetch() if isinstance(column, DeviceColumn) and i in self.on_cpu else column
            host[i] = np.ascontiguousarray(known) if isinstance(known, np.ndarray) else known
        for slot, array in self.captured:
            host[slot] = array
        do_steps(self.host, host, n)
        return host


class Cut(ABC):
    """Decides for each step of one trace on which side it runs."""

    def __init__(self, path: Path, graph: Graph, spec: Spec, *, draws: bool) -> None:
        self.graph = graph
        self.recorder: Recorder = path.recorder
        self._steps = list(self.recorder.steps)
        specs = spec.leaves
        self._text = {i for i, s in enumerate(specs) if not isinstance(s, TensorSpec) or is_text(s)}
        self._drawn = {len(specs)} if draws else set()
        self._makers: dict[int, Step] = {}
        for step in self._steps:
            for slot in step.gives or (step.slot,):
                self._makers[slot] = step
        self._on_host: set[int] = set()
        """The ids of steps that run on the CPU."""

    @abstractmethod
    def stays(self, step: Step) -> bool:
        """Return whether a step of numbers runs on the CPU in any case."""

    @abstractmethod
    def decodes_on_device(self, step: Step) -> bool:
        """Return whether the device runs a step although it reads text."""

    @abstractmethod
    def arguments_for_cpu(self, step: Step) -> Iterable[Argument]:
        """Return the arguments of a step of the device whose values the CPU reads: places and amounts."""

    def values_for_cpu(self, step: Step) -> list[Value]:
        """Return the values that the CPU reads for a step of the device."""
        return [value for given in self.arguments_for_cpu(step) for value in leaves(given)]

    @property
    def text_outputs(self) -> set[int]:
        """The slots of results that are text."""
        return {o for o in self.graph.outputs if isinstance(o, int) and o in self._text}

    def sides(self) -> Sides:
        """Divide the steps. Raise UnsupportedError if the CPU would read what the device makes."""
        for step in self._steps:
            if self._runs_on_host(step):
                self._put_on_host(step)
        for step in self._steps:
            if id(step) not in self._on_host:
                for value in self.values_for_cpu(step):
                    self._need_on_host(value, step)
        host = [s for s in self._steps if id(s) in self._on_host]
        device = [s for s in self._steps if id(s) not in self._on_host]
        made = {slot for s in device for slot in (s.gives or (s.slot,))}
        needed: set[int] = set()
        read = {v.slot for s in host for v in s.uses}
        for step in device:
            on_cpu = {v.slot for v in self.values_for_cpu(step)}
            read |= on_cpu
            needed |= {v.slot for v in step.uses if v.slot not in made and v.slot not in on_cpu}
        return Sides(host, device, made, needed, read)

    def _runs_on_host(self, step: Step) -> bool:
        """Return whether a step reads text or draws, or is the same for all rows."""
        batched = [v.slot for v in step.uses if v.batched]
        if not batched:
            return True
        if any(slot in self._text for slot in batched):
            return not self.decodes_on_device(step)
        if step.gives is None and all(slot in self._drawn for slot in batched):
            self._drawn.add(step.slot)
            return True
        first = self._makers.get(batched[0])
        return self.stays(step) or (step.call is None and first is not None and id(first) in self._on_host)

    def _put_on_host(self, step: Step) -> None:
        self._on_host.add(id(step))
        values = [v for v in step.uses if v.batched]
        wrong = next((v for v in values if (m := self._makers.get(v.slot)) and id(m) not in self._on_host), None)
        if wrong is not None:
            made = self._makers[wrong.slot].name
            raise UnsupportedError(
                f"{step.name} runs on the CPU, and reads what {made} makes on the device: put {made} into a map "
                "without device= before this one"
            )
        for slot in step.gives or ():
            described = self._described(slot)
            if described is not None and is_text(described):
                self._text.add(slot)

    def _described(self, slot: int) -> TensorSpec | None:
        for step in self._steps:
            for value in step.uses:
                if value.slot == slot:
                    return value.spec
        for output, found in zip(self.graph.outputs, self.graph.spec.leaves, strict=True):
            if output == slot and isinstance(found, TensorSpec):
                return found
        return None

    def _need_on_host(self, value: Value, reader: Step) -> None:
        maker = self._makers.get(value.slot)
        if maker is None or id(maker) in self._on_host:
            return
        if maker.gives is not None:
            raise UnsupportedError(
                f"{reader.name} is given a place or an amount that {maker.name} computes of pixels: compute it in a "
                "map without device= before this one"
            )
        for other in maker.uses:
            self._need_on_host(other, reader)
        self._on_host.add(id(maker))


def is_text(spec: TensorSpec) -> bool:
    """Return whether rows are text or objects, which no device has."""
    return spec.dtype is None or spec.dtype.kind in TEXT


def known_arguments(given: KeywordArguments) -> KeywordArguments:
    """Return the arguments of an operation as they are known when it is traced: specs in place of values."""
    return map_arguments(given, lambda i: (i.spec or _spec_of(i)) if isinstance(i, Value) else i)  # type: ignore[no-any-return]


def slots_for(name: str, given: KeywordArguments, on_cpu: frozenset[str]) -> KeywordArguments:
    """Return the arguments of an operation with a Slot in place of each value of the rows."""
    plain = {
        key: Slot(value.slot, value.batched, key in on_cpu) if isinstance(value, Value) else value
        for key, value in given.items()
    }
    for key, value in plain.items():
        if not isinstance(value, Slot) and any(True for _ in leaves(value)):
            raise UnsupportedError(f"{name} with a {key} that holds several values of rows")
    return plain


@dataclass(frozen=True)
class Slot:
    """An argument that is a value of the rows."""

    slot: int
    batched: bool
    on_cpu: bool

    def on_host(self, host: Values, n: int) -> Argument:
        """Return its rows on the CPU."""
        found = host[self.slot]
        return found if self.batched else np.broadcast_to(found, (n, *np.shape(found)))


def _spec_of(value: Value) -> TensorSpec:
    return TensorSpec(np.shape(value.sample), value.sample.dtype)
