"""A traced function cut in two: the steps that the CPU runs on columns, and those that the device runs on the batch.

The CPU runs what reads bytes and text, what is drawn, and what decides about places and sizes: all exactly as without a
device. Everything else runs on the device. An operation that fits neither side is an error, never a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headrace.columns import Column
from headrace.core.types import Argument, Array, KeywordArguments, UserFunction
from headrace.device import arithmetic
from headrace.device.columns import DeviceColumn
from headrace.device.cut import TEXT, Cut, HostSide, Slot, known_arguments, slots_for
from headrace.device.forms import FORMS, UnsupportedError, arguments_of, form_of
from headrace.device.lazy_arithmetic import lazy_kernel_of
from headrace.device.lazy_pixels import made as computed
from headrace.device.machine import Machine, Usage
from headrace.device.pixels import DeviceValue, Pixels
from headrace.plan.node import function_name
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.trace.graph import Graph
from headrace.trace.paths import Path
from headrace.trace.tracing import record
from headrace.trace.values import Operand, Step, Values

if TYPE_CHECKING:
    from headrace.device.pixels import DeviceValue

Made = TypeVar("Made")


class DeviceError(TypeError):
    """A function cannot run on a device; the message names the operation and the remedy."""


@dataclass
class Prepared:
    """What the CPU made of some rows: values by slot, and arguments for the device's steps by the step's slot."""

    values: Values
    arguments: dict[int, KeywordArguments]


DeviceStep = Callable[[Machine, Prepared, dict[int, DeviceValue], int], None]
"""`step(machine, host, values, n)` adds its result to the values on the device."""
Prepare = Callable[[Machine, Values, int], KeywordArguments]


@dataclass
class Program(HostSide):
    """What a function does to a block of rows of one kind."""

    structure: Structure
    spec: Spec
    outputs: tuple[Any, ...]
    """For each component a slot, or a constant in a tuple."""
    inputs: int
    template: Values
    captured: list[tuple[int, Array]]
    guards: list[Callable[[], bool]]
    sizes: dict[int, int]
    host: list[Step]
    device: list[DeviceStep]
    prepares: dict[int, Prepare]
    """What is done ahead for steps of the device, by the step's slot."""
    last_uses: list[tuple[int, ...]]
    """For each step of the device, the slots that no later one reads."""
    moved: list[int]
    """The slots of values of the CPU that the device needs."""
    unbatched: frozenset[int]
    on_cpu: frozenset[int]
    """The inputs that are read on the CPU."""
    text: frozenset[int]
    """The slots of results that stay on the CPU: no device has text."""
    on_host: list[str] = field(default_factory=list)
    on_device: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """For `explain`."""
        before = ", ".join(dict.fromkeys(self.on_host)) or "nothing"
        after = ", ".join(dict.fromkeys(self.on_device)) or "nothing"
        return f"the CPU runs {before}; the device {after}"

    def prepare(self, machine: Machine, columns: list[Column], n: int) -> Prepared:
        """Return what the CPU makes of `n` rows, and what steps of the device need from it."""
        host = self.host_values(columns, n)
        return Prepared(host, {slot: prepare(machine, host, n) for slot, prepare in self.prepares.items()})

    def run(self, machine: Machine, host: Prepared, n: int, usage: Usage) -> list[list[Column]]:
        """Return the columns of the result for `n` rows: for all at once, or, if they differ in size, for each row."""
        values: dict[int, DeviceValue] = {}
        with machine.queue(), machine.timed(usage):
            for slot in self.moved:
                values[slot], nbytes = _move(machine, host.values[slot])
                usage.add(moved=nbytes)
            shared = {_memory(v) for v in values.values()}
            for step, unused in zip(self.device, self.last_uses, strict=True):
                step(machine, host, values, n)
                for slot in unused:  # the next step may need the memory
                    del values[slot]
            made = [self._output(machine, o, host.values, values, n) for o in self.outputs]
            return _columns(machine, made, n, shared, usage)

    def _output(
        self, machine: Machine, output: Operand, host: Values, values: dict[int, DeviceValue], n: int
    ) -> DeviceValue:
        if isinstance(output, tuple):
            value = output[0]
            if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind in TEXT:
                return _Stays([value] * n)
            known = machine.put(np.asarray(value))
            return known.expand(n, *known.shape).clone()
        if output in self.text:
            return _Stays(host[output])
        found = computed(values[output])
        if output in self.unbatched:
            return found.expand(n, *found.shape).clone()
        return found


@dataclass
class _Stays:
    """A component that stays on the CPU."""

    column: Column


def _move(machine: Machine, column: Column) -> tuple[Any, int]:
    """Return a column of the CPU, or one that is there already, as a value on the device, and how many bytes moved."""
    if isinstance(column, DeviceColumn):
        return column.tensor, 0
    if isinstance(column, np.ndarray | np.generic):
        array = np.asarray(column)
        if array.dtype.hasobject:
            raise TypeError("rows of objects cannot go to a device: make arrays of them in a map without device=")
        return machine.put(array), array.nbytes
    made = Pixels.of_varied(machine, column)
    return made, made.flat.numel() * made.flat.element_size()


def _memory(value: DeviceValue) -> int:
    tensor = value.flat if isinstance(value, Pixels) else value
    return int(tensor.untyped_storage().data_ptr())


def _columns(machine: Machine, made: list[DeviceValue], n: int, shared: set[int], usage: Usage) -> list[list[Column]]:
    """Return the results as columns in their own memory."""
    images = [m for m in made if isinstance(m, Pixels)]
    if not all(p.even for p in images):
        rows = []
        for i in range(n):
            one = [_row(machine, m, i) for m in made]
            rows += _columns(machine, one, 1, set(), usage)
        return rows
    columns: list[Column] = []
    known = set(shared)
    for item in made:
        if isinstance(item, _Stays):
            columns.append(item.column)
            continue
        tensor = item.dense(machine) if isinstance(item, Pixels) else item
        tensor = tensor.contiguous()
        if _memory(tensor) in known and tensor.numel():
            tensor = tensor.clone()
        known.add(_memory(tensor))
        if tensor.shape[0] != n:
            raise ValueError(f"it gives {tensor.shape[0]} rows for {n}")
        columns.append(DeviceColumn(tensor, machine, usage))
    return [columns]


def _row(machine: Machine, item: Operand, i: int) -> DeviceValue:
    if isinstance(item, _Stays):
        return _Stays(item.column[i : i + 1])
    return item.rows(i, i + 1).dense(machine) if isinstance(item, Pixels) else item[i : i + 1].clone()


def make_program(
    fns: UserFunction,
    spec: Spec,
    *,
    draws: bool,
    on_gpu: bool,
    approximate: bool,
    sizes: dict[int, int] | None = None,
) -> Program:
    """Return the program of a function for elements of this spec. Raise DeviceError if it cannot run on a device."""

    def cut(path: Path, graph: Graph) -> Program:
        return _TorchCut(path, graph, spec, draws=draws, on_gpu=on_gpu, approximate=approximate).program()

    return cut_trace(cut, fns, spec, draws=draws, sizes=sizes)


def cut_trace(
    cut: Callable[[Path, Graph], Made], fns: UserFunction, spec: Spec, *, draws: bool, sizes: dict[int, int] | None
) -> Made:
    """Return what `cut` makes of the trace of a function. Raise DeviceError if it cannot run on a device."""
    made = record(fns, spec, draws=draws, sizes=sizes)
    if isinstance(made, str):
        raise DeviceError(
            f"{function_name(fns)} cannot run on a device: it {made}. Do that part in a map without device= before, "
            "write it with NumPy's or hr.image's functions (np.where in place of an if), or leave out device="
        )
    path, graph = made
    try:
        return cut(path, graph)
    except UnsupportedError as error:
        raise DeviceError(f"{function_name(fns)} cannot run on a device: {error}") from None
    finally:
        path.recorder.release()


class _TorchCut(Cut):
    """Makes the program of one trace."""

    def __init__(self, path: Path, graph: Graph, spec: Spec, *, draws: bool, on_gpu: bool, approximate: bool) -> None:
        super().__init__(path, graph, spec, draws=draws)
        self._on_gpu = on_gpu
        self._approximate = approximate
        self._lazy: set[int] = set()
        """The slots of what steps leave to be computed with what follows."""

    def program(self) -> Program:
        """Return both sides."""
        sides = self.sides()
        prepares: dict[int, Prepare] = {}
        kernels = [self._kernel(s, prepares) for s in sides.device]
        outputs, text = self.graph.outputs, self.text_outputs
        needed = sides.needed | {o for o in outputs if isinstance(o, int) and o not in sides.made and o not in text}
        recorder = self.recorder
        return Program(
            self.graph.structure,
            self.graph.spec,
            outputs,
            recorder.inputs,
            list(recorder.template),
            [(value.slot, array) for value, array in recorder.captured],
            list(self.graph.guards),
            dict(recorder.sizes.used),
            [Step(s.name, s.slot, s.kernel, errors=s.errors) for s in sides.host],
            kernels,
            prepares,
            _last_uses(sides.device, {o for o in outputs if isinstance(o, int)} | needed),
            sorted(needed),
            self.graph.unbatched,
            frozenset(i for i in sides.read | text if i < recorder.inputs),
            frozenset(text),
            [s.name for s in sides.host if s.name],
            _chains(sides.device, self._lazy),
        )

    def stays(self, step: Step) -> bool:  # noqa: ARG002
        return False

    def decodes_on_device(self, step: Step) -> bool:
        return self._on_gpu and step.name == "decode_jpeg" and step.name in FORMS

    def arguments_for_cpu(self, step: Step) -> Iterable[Argument]:
        if step.gives is None:
            return []
        form = form_of(FORMS, step.name)
        return [given for name, given in arguments_of(form, step.call).items() if name in form.on_cpu]

    def _kernel(self, step: Step, prepares: dict[int, Prepare]) -> DeviceStep:
        if step.gives is not None:
            return self._operation(step, prepares)
        if step.call is None:
            raise UnsupportedError("an operation with several results: compute it in a map without device= before")
        run, slot = arithmetic.kernel_of(step.call), step.slot
        lazy = lazy_kernel_of(step.call)
        if lazy is not None:
            self._lazy.add(slot)
        used = [value.slot for value in step.uses]

        def kernel(machine: Machine, host: Prepared, values: dict[int, DeviceValue], n: int) -> None:  # noqa: ARG001
            if lazy is not None and (made := lazy(machine, values)) is not None:
                values[slot] = made
                return
            for one in used:
                values[one] = computed(values[one])
                if isinstance(values[one], Pixels):
                    values[one] = values[one].dense(machine)
            values[slot] = run(machine, values, n)

        return kernel

    def _operation(self, step: Step, prepares: dict[int, Prepare]) -> DeviceStep:
        form = form_of(FORMS, step.name)
        given = arguments_of(form, step.call)
        if form.check is not None:
            reason = form.check(**known_arguments(given), approximate=self._approximate)
            if reason:
                raise UnsupportedError(f"{step.name}: {reason}")
        first, several = step.gives[0] if step.gives else step.slot, len(step.gives or ()) > 1
        if form.lazy:
            self._lazy.add(first)
        plain = slots_for(step.name, given, form.on_cpu)
        name = step.name
        prepare = form.prepare
        if prepare is not None:
            on_cpu = {k: v for k, v in plain.items() if not isinstance(v, Slot) or v.on_cpu}
            prepares[first] = lambda machine, host, n: prepare(
                machine, **{k: v.on_host(host, n) if isinstance(v, Slot) else v for k, v in on_cpu.items()}
            )

        def kernel(machine: Machine, host: Prepared, values: dict[int, DeviceValue], n: int) -> None:
            ready = host.arguments.get(first, {})
            arguments = {
                k: _argument(v, host.values, values, n) if isinstance(v, Slot) else v
                for k, v in plain.items()
                if k not in ready
            }
            if not form.lazy:
                arguments = {k: computed(v) for k, v in arguments.items()}
            try:
                made = form.run(machine, **arguments, **ready)
            except UnsupportedError as error:
                raise DeviceError(f"{name}: {error}") from None
            for i, one in enumerate(made if several else (made,)):
                values[first + i] = one

        return kernel


def _chains(steps: list[Step], lazy: set[int]) -> list[str]:
    """Return the names of steps, with an arrow between those that are computed at once."""
    names: list[str] = []
    last = None
    for step in steps:
        slot = step.gives[0] if step.gives else step.slot
        if names and {slot, last} <= lazy and any(value.slot == last for value in step.uses):
            names[-1] += f" → {step.name}"
        elif step.name:
            names.append(step.name)
        last = slot
    return names


def _last_uses(steps: list[Step], kept: set[int]) -> list[tuple[int, ...]]:
    """Return for each step the slots that it and the steps before make and no later one reads."""
    made: set[int] = set()
    for step in steps:
        made |= set(step.gives or (step.slot,))
    found: list[tuple[int, ...]] = []
    later = set(kept)
    for step in reversed(steps):
        slots = {v.slot for v in step.uses} | set(step.gives or (step.slot,))
        found.append(tuple(sorted((slots & made) - later)))
        later |= slots
    return found[::-1]


def _argument(item: Slot, host: Values, values: dict[int, DeviceValue], n: int) -> DeviceValue:
    if item.on_cpu:
        return item.on_host(host, n)
    return values[item.slot] if item.slot in values else host[item.slot]
