"""A traced function cut in two for JAX: what the CPU runs on columns, and one compiled function for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.columns import Column
from headrace.core.types import Argument, Arguments, Array, Library, UserFunction
from headrace.device.columns import DeviceColumn
from headrace.device.cut import TEXT, Cut, HostSide, Slot, known_arguments, slots_for
from headrace.device.forms import UnsupportedError, arguments_of
from headrace.device.machine import Usage
from headrace.device.on_jax.arithmetic import lookup_of, operation_of
from headrace.device.on_jax.forms import JAX_FORMS, ON_CPU, JaxArray, JaxForm, Prepared, reads_on_cpu
from headrace.device.on_jax.machine import JaxMachine
from headrace.device.program import DeviceError, cut_trace
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.trace.graph import Graph, column_spec
from headrace.trace.paths import Path
from headrace.trace.values import Step, Value, Values

NOTHING_STATIC = (
    "the sizes of its rows are not known, and JAX computes with arrays of one shape: decode and resize images to one "
    "size, or make batches with batch(…, drop_remainder=True), in or before this map"
)


@dataclass(frozen=True)
class RowStep:
    """A step of the device, for one row."""

    name: str
    slots: range
    run: Callable[[Library, dict[int, JaxArray], Prepared], JaxArray]
    prepare: Callable[[Values, int], Prepared]


@dataclass
class JaxProgram(HostSide):
    """What a function does to a block of rows of one kind."""

    structure: Structure
    spec: Spec
    outputs: Arguments
    """For each component a slot, or a constant in a tuple."""
    template: Values
    captured: list[tuple[int, Array]]
    guards: list[Callable[[], bool]]
    sizes: dict[int, int]
    host: list[Step]
    device: list[RowStep]
    moved: dict[int, tuple[int, ...]]
    """The slots of values of the CPU that the device needs, with the shape of a row."""
    shared: list[int]
    """The slots of values that all rows share."""
    unbatched: frozenset[int]
    on_cpu: frozenset[int]
    """The inputs that are read on the CPU."""
    rows: int
    """How many rows the compiled function has."""
    _compiled: Any = field(default=None, repr=False)

    @property
    def summary(self) -> str:
        """For `explain`."""
        before = ", ".join(dict.fromkeys(s.name for s in self.host if s.name)) or "nothing"
        after = ", ".join(dict.fromkeys(s.name for s in self.device if s.name)) or "nothing"
        return f"the CPU runs {before}; JAX runs {after}, {self.rows} row{'s' * (self.rows != 1)} at a time"

    def run(self, machine: JaxMachine, columns: list[Column], n: int, usage: Usage) -> list[list[Column]]:
        """Return the columns of the result for at most `rows` rows, those of the device padded to that number."""
        host = self.host_values(columns, n)
        made: dict[int, JaxArray] = {}
        if self.device:
            prepared = [step.prepare(host, n) for step in self.device]
            with machine.queue(), machine.timed(usage):
                made = self._on_device(machine, host, prepared, usage)
        return [[self._output(machine, output, host, made, n, usage) for output in self.outputs]]

    def _on_device(
        self, machine: JaxMachine, host: Values, prepared: list[Prepared], usage: Usage
    ) -> dict[int, JaxArray]:
        def moved(column: Column, shape: tuple[int, ...]) -> JaxArray:
            if isinstance(column, DeviceColumn):
                return machine.padded(column.tensor, self.rows)
            if not isinstance(column, np.ndarray) or column.shape[1:] != shape:
                raise ValueError(
                    f"rows have different shapes, and JAX computes with one: {column_spec(column).shape} here, {shape} "
                    "before; make them alike in a map without device= before this one"
                )
            array = _padded(column, self.rows)
            usage.add(moved=array.nbytes)
            return machine.put_rows(array)

        rows = {slot: moved(host[slot], shape) for slot, shape in self.moved.items()}
        beside = [{name: moved(array, array.shape[1:]) for name, array in each.items()} for each in prepared]
        shared = {slot: machine.put(np.asarray(host[slot])) for slot in self.shared}
        if self._compiled is None:
            self._compiled = self._compile(machine)
        try:
            return machine.done(self._compiled(rows, beside, shared))  # type: ignore[no-any-return]
        except RuntimeError:  # of the device
            raise
        except Exception as error:  # of shapes and dtypes, not of values: these are only known on the device
            names = ", ".join(dict.fromkeys(s.name for s in self.device if s.name))
            raise DeviceError(
                f"JAX cannot run {names}: {error}. Do that part in a map without device= before this one"
            ) from error

    def _compile(self, machine: JaxMachine) -> Callable[..., dict[int, JaxArray]]:
        jax, wanted = machine.jax, {o for o in self.outputs if isinstance(o, int)}

        def one_row(
            row: dict[int, JaxArray], beside: list[Prepared], shared: dict[int, JaxArray]
        ) -> dict[int, JaxArray]:
            values = {**row, **shared}
            for step, prepared in zip(self.device, beside, strict=True):
                found = step.run(jax, values, prepared)
                several = len(step.slots) > 1
                values.update(zip(step.slots, found if several else (found,), strict=True))
            return {slot: values[slot] for step in self.device for slot in step.slots if slot in wanted}

        return jax.jit(jax.vmap(one_row, in_axes=(0, 0, None)))  # type: ignore[no-any-return]

    def _output(
        self, machine: JaxMachine, output: Argument, host: Values, made: dict[int, JaxArray], n: int, usage: Usage
    ) -> Column:
        if isinstance(output, tuple):
            value = output[0]
            if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind in TEXT:
                return [value] * n
            return np.array(np.broadcast_to(value, (n, *np.shape(value))))
        if output in made:
            return DeviceColumn(made[output][:n], machine, usage)
        found = host[output]
        if output in self.unbatched:
            return np.array(np.broadcast_to(found, (n, *np.shape(found))))
        if len(found) != n:
            raise ValueError(f"it gives {len(found)} rows for {n}")
        return found


def _padded(array: Array, count: int) -> Array:
    """Return rows with the last one repeated, up to `count`."""
    missing = count - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, 0)]) if missing else array


def make_jax_program(
    fns: UserFunction, spec: Spec, *, draws: bool, rows: int, sizes: dict[int, int] | None
) -> JaxProgram:
    """Return the program of a function for elements of this spec. Raise DeviceError if JAX cannot run it."""

    def cut(path: Path, graph: Graph) -> JaxProgram:
        return _JaxCut(path, graph, spec, draws=draws).program(rows)

    return cut_trace(cut, fns, spec, draws=draws, sizes=sizes)


class _JaxCut(Cut):
    """Makes the program of one trace."""

    def program(self, rows: int) -> JaxProgram:
        """Return both sides."""
        sides = self.sides()
        steps = [self._step(s) for s in sides.device]
        waiting = [s.name for s in sides.host if s.name and self._of_unknown_size(s)]
        if waiting and not steps:
            raise UnsupportedError(f"{waiting[0]} stays on the CPU with all the rest, because {NOTHING_STATIC}")
        recorder = self.recorder
        used = {v.slot: (v.batched, np.shape(v.sample)) for step in sides.device for v in step.uses}
        shared = {slot for slot in sides.needed if not used[slot][0]}
        return JaxProgram(
            self.graph.structure,
            self.graph.spec,
            self.graph.outputs,
            list(recorder.template),
            [(value.slot, array) for value, array in recorder.captured],
            list(self.graph.guards),
            dict(recorder.sizes.used),
            [Step(s.name, s.slot, s.kernel, errors=s.errors) for s in sides.host],
            steps,
            {slot: shape for slot, (_, shape) in used.items() if slot in sides.needed - shared},
            sorted(shared),
            self.graph.unbatched,
            frozenset(i for i in sides.read if i < recorder.inputs),
            rows,
        )

    def _of_unknown_size(self, step: Step) -> bool:
        return any(v.batched and v.opaque and v.slot not in self._text for v in step.uses)

    def stays(self, step: Step) -> bool:
        return step.name in ON_CPU or self._of_unknown_size(step)

    def decodes_on_device(self, step: Step) -> bool:  # noqa: ARG002
        return False

    def arguments_for_cpu(self, step: Step) -> Iterable[Argument]:
        if step.gives is None:
            found = None if step.call is None else lookup_of(step.call)
            return [] if found is None else [found[1]]
        form = _form(step)
        return [given for name, given in arguments_of(form, step.call).items() if reads_on_cpu(form, name, given)]

    def _step(self, step: Step) -> RowStep:
        if step.gives is not None:
            return _operation(step)
        if step.call is None:
            raise UnsupportedError("an operation with several results: compute it in a map without device= before")
        run, found = operation_of(step.call), lookup_of(step.call)
        slots = range(step.slot, step.slot + 1)
        if found is None:
            return RowStep(step.name, slots, lambda jax, row, _: run(jax, row), lambda _host, _n: {})
        table, index = found

        def prepare(host: Values, n: int) -> Prepared:  # noqa: ARG001
            size, places = len(host[table.slot]), np.asarray(host[index.slot])
            if ((places < -size) | (places >= size)).any():
                raise IndexError(f"index is out of bounds for axis 0 with size {size}")
            return {"index": np.where(places < 0, places + size, places).astype(np.int32)}

        def look_up(jax: Library, row: dict[int, JaxArray], prepared: Prepared) -> JaxArray:
            return run(jax, {**row, index.slot: prepared["index"]})

        return RowStep(step.name, slots, look_up, prepare)


def _form(step: Step) -> JaxForm:
    form = JAX_FORMS.get(step.name)
    if form is None:
        raise UnsupportedError(f"{step.name} has no form by JAX: put it into a map without device= before this one")
    return form


def _operation(step: Step) -> RowStep:
    form, slots = _form(step), step.gives
    assert slots is not None, "an operation of ours"
    given = arguments_of(form, step.call)
    reason = None if form.check is None else form.check(**known_arguments(given))
    if reason:
        raise UnsupportedError(f"{step.name}: {reason}")
    first = next(iter(form.signature.parameters))
    image = given[first]
    shape = np.shape(image.sample if isinstance(image, Value) else image)
    on_cpu = frozenset(name for name, value in given.items() if reads_on_cpu(form, name, value))
    plain = slots_for(step.name, given, on_cpu)
    there = {name: value.slot for name, value in plain.items() if isinstance(value, Slot) and not value.on_cpu}
    here = {name: value for name, value in plain.items() if name not in there}
    settings = {name: value for name, value in here.items() if name not in on_cpu}

    def prepare(host: Values, n: int) -> Prepared:
        known = {name: v.on_host(host, n) if isinstance(v, Slot) else v for name, v in here.items() if name != first}
        rows = frozenset(name for name, v in here.items() if isinstance(v, Slot))
        return form.prepare(shape, n, rows, **known)

    def run(jax: Library, row: dict[int, JaxArray], prepared: Prepared) -> JaxArray:
        values = {name: row[slot] for name, slot in there.items()}
        return form.run(jax, **values, **{**settings, **prepared})

    return RowStep(step.name, slots, run, prepare)
