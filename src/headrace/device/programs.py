"""The programs of one function: one for each kind of rows, made when such rows are met."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from headrace.columns import Column
from headrace.columns.block import Block
from headrace.core.types import Reduced
from headrace.device import varied
from headrace.device.machine import Machine, Usage
from headrace.device.pixels import DeviceValue
from headrace.device.program import DeviceError, Program, make_program
from headrace.plan.bound import by_reference, resolved
from headrace.plan.spec import Spec
from headrace.trace.errors import OPAQUE, Resized
from headrace.trace.graph import column_spec

if TYPE_CHECKING:
    from headrace.device.pixels import DeviceValue

__all__ = ["Programs", "varied"]

MAX_LENGTHS = 8
"""How many lengths of rows that only the rows tell are tried for one block."""

_all: WeakSet[Programs] = WeakSet()


class Programs:
    """`fn` for a device; one that `draws` has a generator as its last argument."""

    def __init__(self, fn: Callable[..., DeviceValue], device: str, *, draws: bool, approximate: bool) -> None:
        self.fn = fn
        self.device = device
        self.draws = draws
        self.approximate = approximate
        self._programs: dict[Any, Program | DeviceError] = {}
        self._sizes: dict[Spec, dict[int, int]] = {}
        self.after_fork()
        _all.add(self)

    def after_fork(self) -> None:
        """Replace the lock in a forked child."""
        self._lock = threading.Lock()

    def __reduce__(self) -> Reduced:
        return _restore, (by_reference(self.fn), self.device, self.draws, self.approximate)

    def of(self, spec: Spec) -> Program:
        """Return the program for elements of this spec. Raise DeviceError if there is none."""
        sizes = self._sizes.get(spec)
        key = (spec, None if sizes is None else tuple(sizes.items()))
        with self._lock:
            found = self._programs.get(key)
            if found is None or (isinstance(found, Program) and not found.current()):
                found = self._programs[key] = self._made(spec, sizes)
        if isinstance(found, DeviceError):
            raise DeviceError(*found.args)
        return found

    def _made(self, spec: Spec, sizes: dict[int, int] | None) -> Program | DeviceError:
        on_gpu = self.device.startswith("cuda")
        try:
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

    def run(self, machine: Machine, block: Block, more: list[Column], usage: Usage) -> list[Block]:
        """Return what the function makes of a block, in one block or in one for each row."""
        spec = Spec(block.structure, tuple(map(column_spec, block.columns)))
        for _ in range(MAX_LENGTHS):
            program = self.of(spec)
            try:
                made = program.run(machine, [*block.columns, *more], block.rows, usage)
            except Resized as other:
                self._sizes[spec] = {**program.sizes, other.number: other.size}
                continue
            each = block.rows if len(made) == 1 else 1
            return [Block(program.structure, columns, each) for columns in made]
        raise ValueError("rows of one block have too many different lengths")


def _restore(fn: object, device: str, draws: bool, approximate: bool) -> Programs:
    return Programs(resolved(fn), device, draws=draws, approximate=approximate)


def _after_fork() -> None:
    for programs in list(_all):
        programs.after_fork()


os.register_at_fork(after_in_child=_after_fork)
