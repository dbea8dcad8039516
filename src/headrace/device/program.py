"""A traced function cut in two: the steps that the CPU runs on columns, and those that the device runs on the batch.

The CPU runs what reads bytes and text, what is drawn, and what decides about places and sizes: all exactly as without a
device. Everything else runs on the device. An operation that fits neither side is an error, never a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import Column
from headrace.core.types import Array, UserFunction
from headrace.device import arithmetic
from headrace.device.columns import DeviceColumn
from headrace.device.forms import FORMS, Form, UnsupportedError
from headrace.device.machine import Machine, Usage
from headrace.device.pixels import DeviceValue, Pixels
from headrace.plan.node import function_name
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure
from headrace.trace.graph import Graph
from headrace.trace.paths import Path
from headrace.trace.recorder import Recorder
from headrace.trace.tracing import record
from headrace.trace.values import Operand, Step, Value, Values, do_steps, leaves, map_arguments

if TYPE_CHECKING:
    from headrace.device.pixels import DeviceValue

TEXT = "SUO"


class DeviceError(TypeError):
    """A function cannot run on a device; the message names the operation and the remedy."""


DeviceStep = Callable[[Machine, Values, dict[int, DeviceValue], int], None]
"""`step(machine, host, values, n)` adds its result to the values on the device."""


@dataclass
class Program:
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
    moved: list[int]
    """The slots of values of the CPU that the device needs."""
    unbatched: frozenset[int]
    on_cpu: frozenset[int]
    """The inputs that are read on the CPU."""
    text: frozenset[int]
    """The slots of results that stay on the CPU: no device has text."""
    on_host: list[str] = field(default_factory=list)
    on_device: list[str] = field(default_factory=list)

    def current(self) -> bool:
        """Return whether what the function holds on to is still what it was."""
        return all(guard() for guard in self.guards)

    @property
    def summary(self) -> str:
        """For `explain`."""
        before = ", ".join(dict.fromkeys(self.on_host)) or "nothing"
        after = ", ".join(dict.fromkeys(self.on_device)) or "nothing"
        return f"the CPU runs {before}; the device {after}"

    def run(self, machine: Machine, columns: list[Column], n: int, usage: Usage) -> list[list[Column]]:
        """Return the columns of the result for `n` rows: for all at once, or, if they differ in size, for each row."""
        host = self.template.copy()
        for i, column in enumerate(columns):
            known = column.fetch() if isinstance(column, DeviceColumn) and i in self.on_cpu else column
            host[i] = np.ascontiguousarray(known) if isinstance(known, np.ndarray) else known
        for slot, array in self.captured:
            host[slot] = array
        do_steps(self.host, host, n)
        values: dict[int, DeviceValue] = {}
        with machine.queue(), machine.timed(usage):
            for slot in self.moved:
                values[slot], nbytes = _move(machine, host[slot])
                usage.add(moved=nbytes)
            shared = {_memory(v) for v in values.values()}
            for step in self.device:
                step(machine, host, values, n)
            made = [self._output(machine, o, host, values, n) for o in self.outputs]
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
        found = values[output]
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
    made = record(fns, spec, draws=draws, sizes=sizes)
    if isinstance(made, str):
        raise DeviceError(
            f"{function_name(fns)} cannot run on a device: it {made}. Do that part in a map without device= before, "
            "write it with NumPy's or hr.image's functions (np.where in place of an if), or leave out device="
        )
    path, graph = made
    try:
        return _Cut(path, graph, spec, draws=draws, on_gpu=on_gpu, approximate=approximate).program()
    except UnsupportedError as error:
        raise DeviceError(f"{function_name(fns)} cannot run on a device: {error}") from None
    finally:
        path.recorder.release()


class _Cut:
    """Decides for each step of one trace on which side it runs."""

    def __init__(self, path: Path, graph: Graph, spec: Spec, *, draws: bool, on_gpu: bool, approximate: bool) -> None:
        self._path = path
        self._graph = graph
        self._recorder: Recorder = path.recorder
        self._steps = list(self._recorder.steps)
        self._on_gpu = on_gpu
        self._approximate = approximate
        specs = spec.leaves
        self._text = {i for i, s in enumerate(specs) if not isinstance(s, TensorSpec) or _is_text(s)}
        self._drawn = {len(specs)} if draws else set()
        self._makers: dict[int, Step] = {}
        for step in self._steps:
            for slot in step.gives or (step.slot,):
                self._makers[slot] = step
        self._on_host: set[int] = set()
        """The ids of steps that run on the CPU."""

    def program(self) -> Program:
        """Return both sides."""
        for step in self._steps:
            if self._runs_on_host(step):
                self._put_on_host(step)
        for step in self._steps:
            if id(step) not in self._on_host and step.gives is not None:
                for value in self._values_for_cpu(step):
                    self._need_on_host(value, step)
        host = [s for s in self._steps if id(s) in self._on_host]
        device = [s for s in self._steps if id(s) not in self._on_host]
        kernels = [self._kernel(s) for s in device]
        on_device = {slot for s in device for slot in (s.gives or (s.slot,))}
        needed: set[int] = set()
        read = {v.slot for s in host for v in s.uses}
        for step in device:
            on_cpu = {v.slot for v in self._values_for_cpu(step)} if step.gives is not None else set()
            read |= on_cpu
            needed |= {v.slot for v in step.uses if v.slot not in on_device and v.slot not in on_cpu}
        outputs = self._graph.outputs
        text = {o for o in outputs if isinstance(o, int) and o in self._text}
        needed |= {o for o in outputs if isinstance(o, int) and o not in on_device and o not in text}
        recorder = self._recorder
        return Program(
            self._graph.structure,
            self._graph.spec,
            outputs,
            recorder.inputs,
            list(recorder.template),
            [(value.slot, array) for value, array in recorder.captured],
            list(self._graph.guards),
            dict(recorder.sizes.used),
            [Step(s.name, s.slot, s.kernel, errors=s.errors) for s in host],
            kernels,
            sorted(needed),
            self._graph.unbatched,
            frozenset(i for i in read | text if i < recorder.inputs),
            frozenset(text),
            [s.name for s in host if s.name],
            [s.name for s in device if s.name],
        )

    def _runs_on_host(self, step: Step) -> bool:
        """Return whether a step reads text or draws, or is the same for all rows."""
        batched = [v.slot for v in step.uses if v.batched]
        if not batched:
            return True
        if any(slot in self._text for slot in batched):
            return not self._decodes_on_device(step)
        if step.gives is None and all(slot in self._drawn for slot in batched):
            self._drawn.add(step.slot)
            return True
        first = self._makers.get(batched[0])
        return step.call is None and first is not None and id(first) in self._on_host

    def _decodes_on_device(self, step: Step) -> bool:
        return self._on_gpu and step.name == "decode_jpeg" and step.name in FORMS

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
            if described is not None and _is_text(described):
                self._text.add(slot)

    def _described(self, slot: int) -> TensorSpec | None:
        for step in self._steps:
            for value in step.uses:
                if value.slot == slot:
                    return value.spec
        for output, found in zip(self._graph.outputs, self._graph.spec.leaves, strict=True):
            if output == slot and isinstance(found, TensorSpec):
                return found
        return None

    def _form(self, step: Step) -> Form:
        form = FORMS.get(step.name)
        if form is None:
            raise UnsupportedError(
                f"{step.name} has no form on a device: put it into a map without device= before this one"
            )
        return form

    def _arguments(self, step: Step) -> dict[str, Any]:
        form, call = self._form(step), step.call
        assert call is not None, "an operation of ours"
        bound = form.signature.bind(*call.args, **call.kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _values_for_cpu(self, step: Step) -> Iterable[Value]:
        form = self._form(step)
        for name, given in self._arguments(step).items():
            if name in form.on_cpu:
                yield from leaves(given)

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

    def _kernel(self, step: Step) -> DeviceStep:
        if step.gives is not None:
            return self._operation(step)
        if step.call is None:
            raise UnsupportedError("an operation with several results: compute it in a map without device= before")
        run, slot = arithmetic.kernel_of(step.call), step.slot
        used = [value.slot for value in step.uses]

        def kernel(machine: Machine, host: Values, values: dict[int, DeviceValue], n: int) -> None:  # noqa: ARG001
            for one in used:
                if isinstance(values[one], Pixels):
                    values[one] = values[one].dense(machine)
            values[slot] = run(machine, values, n)

        return kernel

    def _operation(self, step: Step) -> DeviceStep:
        form = self._form(step)
        given = self._arguments(step)
        if form.check is not None:
            known = map_arguments(given, lambda i: (i.spec or _spec_of(i)) if isinstance(i, Value) else i)
            reason = form.check(**known, approximate=self._approximate)
            if reason:
                raise UnsupportedError(f"{step.name}: {reason}")
        first, several = step.gives[0] if step.gives else step.slot, len(step.gives or ()) > 1
        on_cpu = form.on_cpu
        plain = {
            name: _Slot(value.slot, value.batched, name in on_cpu) if isinstance(value, Value) else value
            for name, value in given.items()
        }
        for name, value in plain.items():
            if not isinstance(value, _Slot) and any(True for _ in leaves(value)):
                raise UnsupportedError(f"{step.name} with a {name} that holds several values of rows")
        name = step.name

        def kernel(machine: Machine, host: Values, values: dict[int, DeviceValue], n: int) -> None:
            arguments = {k: v.of(host, values, n) if isinstance(v, _Slot) else v for k, v in plain.items()}
            try:
                made = form.run(machine, **arguments)
            except UnsupportedError as error:
                raise DeviceError(f"{name}: {error}") from None
            for i, one in enumerate(made if several else (made,)):
                values[first + i] = one

        return kernel


def _spec_of(value: Value) -> TensorSpec:
    return TensorSpec(np.shape(value.sample), value.sample.dtype)


def _is_text(spec: TensorSpec) -> bool:
    return spec.dtype is None or spec.dtype.kind in TEXT


@dataclass(frozen=True)
class _Slot:
    """An argument that is a value of the rows."""

    slot: int
    batched: bool
    on_cpu: bool

    def of(self, host: Values, values: dict[int, DeviceValue], n: int) -> DeviceValue:
        if not self.on_cpu:
            return values[self.slot] if self.slot in values else host[self.slot]
        found = host[self.slot]
        return found if self.batched else np.broadcast_to(found, (n, *np.shape(found)))
