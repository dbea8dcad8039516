"""The programs of one function: one for each kind of rows, made when such rows are met."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakSet

from headrace.columns import Column
from headrace.columns.block import Block
from headrace.core.types import Reduced
from headrace.device import varied
from headrace.device.machine import Machine, Usage, machine_of
from headrace.device.pixels import DeviceValue
from headrace.device.program import DeviceError, Prepared, Program, make_program
from headrace.plan.bound import by_reference, resolved
from headrace.plan.spec import Spec
from headrace.trace.errors import OPAQUE, Resized
from headrace.trace.graph import column_spec

if TYPE_CHECKING:
    from headrace.device.on_jax.machine import JaxMachine, Place
    from headrace.device.on_jax.program import JaxProgram
    from headrace.device.pixels import DeviceValue

__all__ = ["Programs", "varied"]

MAX_LENGTHS = 8
"""How many lengths of rows that only the rows tell are tried for one block."""

_all: WeakSet[Programs] = WeakSet()

AnyMachine: TypeAlias = "Machine | JaxMachine"
AnyProgram: TypeAlias = "Program | JaxProgram"


@dataclass(frozen=True)
class JaxRows:
    """What JAX compiles a function for: rows of one kind, this many at a time, on one place."""

    place: Place
    rows: int
    spec: Spec
    """That of the plan, not of single blocks: images that happen to have one size make no other program."""


class Ready(NamedTuple):
    """The CPU's part of a program for one block."""

    program: Program
    host: Prepared


class Programs:
    """`fn` for a device; one that `draws` has a generator as its last argument. `jax` says where JAX runs it."""

    def __init__(
        self,
        fn: Callable[..., DeviceValue],
        device: str,
        *,
        draws: bool,
        approximate: bool,
        jax: JaxRows | None = None,
    ) -> None:
        self.fn = fn
        self.device = device
        self.draws = draws
        self.approximate = approximate
        self.jax = jax
        self.by_jax: dict[JaxRows, Programs] = {}
        """The same function by JAX, so that each feed of a pipeline compiles nothing again."""
        self._programs: dict[Any, AnyProgram | DeviceError] = {}
        self._sizes: dict[Spec, dict[int, int]] = {}
        self.after_fork()
        _all.add(self)

    def after_fork(self) -> None:
        """Replace the lock in a forked child."""
        self._lock = threading.Lock()

    def __reduce__(self) -> Reduced:
        return _restore, (by_reference(self.fn), self.device, self.draws, self.approximate, self.jax)

    def machine(self) -> AnyMachine:
        """Return the device in this process; that of "auto" is the CPU."""
        if self.jax is None:
            return machine_of("cpu" if self.device == "auto" else self.device)
        from headrace.device.on_jax.machine import JaxMachine

        return JaxMachine(self.jax.place)

    def of(self, spec: Spec) -> AnyProgram:
        """Return the program for elements of this spec. Raise DeviceError if there is none."""
        sizes = self._sizes.get(spec)
        key = (spec, None if sizes is None else tuple(sizes.items()))
        with self._lock:
            found = self._programs.get(key)
            if found is None or (not isinstance(found, DeviceError) and not found.current()):
                found = self._programs[key] = self._made(spec, sizes)
        if isinstance(found, DeviceError):
            raise DeviceError(*found.args)
        return found

    def _made(self, spec: Spec, sizes: dict[int, int] | None) -> AnyProgram | DeviceError:
        on_gpu = self.device.startswith("cuda")
        try:
            if self.jax is not None:
                from headrace.device.on_jax.program import make_jax_program

                return make_jax_program(self.fn, spec, draws=self.draws, rows=self.jax.rows, sizes=sizes)
            return make_program(
                self.fn, spec, draws=self.draws, on_gpu=on_gpu, approximate=self.approximate, sizes=sizes
            )
        except DeviceError as error:
            error.__traceback__ = None
            return error

    def check(self, spec: Spec) -> None:
        """Raise DeviceError if elements of this spec cannot run, unless only the rows can tell."""
        if not spec.known:
            return
        try:
            self.of(spec)
        except DeviceError as error:
            if OPAQUE not in str(error):
                raise

    def spec(self, spec: Spec) -> Spec:
        """Return the spec of the results, as far as it is known."""
        if not spec.known:
            return Spec.UNKNOWN
        try:
            return self.of(spec).spec
        except DeviceError:
            return Spec.UNKNOWN

    def remark(self, spec: Spec) -> str:
        """For `explain`: what runs where."""
        try:
            return self.of(spec).summary if spec.known else "cut at the first rows"
        except DeviceError:
            return "cut at the first rows"

    def prepare(self, block: Block, more: list[Column]) -> Ready | None:
        """Return the CPU's part for a block, which may run on another thread; None if there is none to run before."""
        if self.jax is not None:
            return None
        program, machine = self.of(_spec_of(block)), self.machine()
        assert isinstance(program, Program)
        assert isinstance(machine, Machine)
        return Ready(program, program.prepare(machine, [*block.columns, *more], block.rows))

    def run(
        self, machine: Any, block: Block, more: list[Column], usage: Usage, ready: Ready | None = None
    ) -> list[Block]:
        """Return what the function makes of a block, in one block or in one for each row."""
        spec = _spec_of(block) if self.jax is None else self.jax.spec
        for _ in range(MAX_LENGTHS):
            program = self.of(spec)
            try:
                if not isinstance(program, Program):
                    made = program.run(machine, [*block.columns, *more], block.rows, usage)
                elif ready is not None and ready.program is program:
                    made = program.run(machine, ready.host, block.rows, usage)
                else:
                    prepared = program.prepare(machine, [*block.columns, *more], block.rows)
                    made = program.run(machine, prepared, block.rows, usage)
            except Resized as other:
                self._sizes[spec] = {**program.sizes, other.number: other.size}
                continue
            each = block.rows if len(made) == 1 else 1
            return [Block(program.structure, columns, each) for columns in made]
        raise ValueError("rows of one block have too many different lengths")


def _spec_of(block: Block) -> Spec:
    return Spec(block.structure, tuple(map(column_spec, block.columns)))


def _restore(fn: object, device: str, draws: bool, approximate: bool, jax: JaxRows | None) -> Programs:
    return Programs(resolved(fn), device, draws=draws, approximate=approximate, jax=jax)


def _after_fork() -> None:
    for programs in list(_all):
        programs.after_fork()


os.register_at_fork(after_in_child=_after_fork)
