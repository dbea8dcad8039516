"""The graph of a function: which operations it applied to which values."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headrace.core.types import Array, KeywordArguments
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import flatten
from headrace.trace.decisions import MAX_DECISIONS_PER_PATH, Decisions
from headrace.trace.errors import OPAQUE, MixedText, Resized, Untraceable
from headrace.trace.mixed_text import COMPARISONS, mixed_text
from headrace.trace.sizes import Sizes, sizes_in
from headrace.trace.uneven import change_of_values
from headrace.trace.values import (
    KINDS,
    Blockwise,
    Call,
    Deferred,
    Kernel,
    Operand,
    Result,
    Scaled,
    Step,
    Traced,
    Value,
    Values,
    call_plainly,
    dummy,
    leaves,
    map_arguments,
    sample_of,
)

_HERE = str(Path(__file__).parent)
_NUMPY = str(Path(np.__file__).parent)


def user_line() -> str:
    """File and line of the user's code that runs now."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, _NUMPY, "<__array_function__")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


Chooser = Callable[[Call], tuple[Kernel, bool, bool]]
"""From a call to its kernel, whether that goes row by row, and whether its rows have the samples' memory layout."""


class Recorder:
    """Records what a function does to symbols."""

    def __init__(
        self,
        choose: Chooser,
        symbol: Callable[[Recorder, Value], Any],
        sizes: Sizes | None = None,
        answers: Sequence[bool] = (),
    ) -> None:
        self.template: Values = []
        self.steps: list[Step] = []
        self.captured: list[tuple[Value, Array]] = []
        self.inputs: int = 0
        self.failed: str | None = None
        self.loose: bool = False
        self.any_text = False
        """Whether text of data may be made, of any value: for a trace that tells the spec and never runs."""
        self.returned = False
        self.sizes: Sizes = sizes or Sizes({})
        self.decisions: Decisions = Decisions(answers)
        self._choose = choose
        self._symbol = symbol
        self._live: list[weakref.ref[Any]] = []
        self._errors: list[KeywordArguments] = []

    @property
    def own(self) -> list[range]:
        """Of each operation of ours the slots of its results."""
        return [step.gives for step in self.steps if step.gives is not None]

    def refuse(self, what: str) -> Untraceable:
        """End the trace, now and, if user code catches this, afterwards. The first reason counts."""
        if self.failed is None:
            self.failed = what if self.returned else f"{what} at {user_line()}"
        return Untraceable(self.failed)

    def _value(self, sample: object, *, batched: bool, static: bool = False, constant: object = None) -> Value:
        self.template.append(constant)
        return Value(len(self.template) - 1, sample, batched, static)

    def wrap(self, value: Value) -> Traced:
        """Return the symbol that stands for a value."""
        made = self._symbol(self, value)
        self._live.append(weakref.ref(made))
        return made

    def input(self, sample: object, spec: TensorSpec | None = None) -> Traced:
        """Return a column of the block; without a sample, one that only travels through."""
        value = self._value(sample, batched=True)
        value.spec = spec
        self.inputs += 1
        return self.wrap(value)

    def capture(self, array: Array) -> Traced:
        """Return an array from around the function: an input of the graph, read again for each block."""
        for value, known in self.captured:
            if known is array:
                return self.wrap(value)
        if type(array) is not np.ndarray or array.dtype.kind not in KINDS:
            raise self.refuse(f"captures an array of {type(array).__name__} and dtype {array.dtype}")
        value = self._value(array, batched=False)
        self.captured.append((value, array))
        return self.wrap(value)

    def constant(self, value: object) -> Traced:
        """Return a value that is the same forever."""
        kept = value.copy() if isinstance(value, np.ndarray) else value
        return self.wrap(self._value(value, batched=False, static=True, constant=kept))

    @contextmanager
    def errstate(self, settings: KeywordArguments) -> Iterator[None]:
        """Operations of the function under its own np.errstate."""
        self._errors.append({**(self._errors[-1] if self._errors else {}), **settings})
        try:
            yield
        finally:
            self._errors.pop()

    def evaluate(self, fn: Callable[..., object], name: str, args: object, kwargs: object) -> Traced:
        """Return what the operation makes of the samples."""
        try:
            with np.errstate(all="ignore"):
                return fn(*map_arguments(args, sample_of), **map_arguments(kwargs, sample_of))
        except Exception as error:
            raise self.refuse(f"{name} raises {type(error).__name__} ({error}) for values of such a shape") from None

    def call(self, fn: Callable[..., object], name: str, args: tuple[object, ...], kwargs: KeywordArguments) -> Traced:
        """Apply an operation: to the samples now, to blocks when the graph runs."""
        if self.failed is not None:
            raise Untraceable(self.failed)
        args, kwargs = map_arguments(args, self.value_of), map_arguments(kwargs, self.value_of)
        call = Call(fn, name, args, kwargs)
        used = call.values
        if any(v.opaque for v in used):
            mixed = mixed_text([v.spec or v for v in used], (args, kwargs)) if name in COMPARISONS else None
            if mixed:
                self.failed = MixedText(f"{mixed}, at {user_line()}")
                raise Untraceable(self.failed)
            by_value = None if kwargs or self._errors else change_of_values(name, args)
            if by_value is None:
                raise self.refuse(f"{name} {OPAQUE}")
            return self.operation(name, args, {}, Blockwise(*by_value))
        self.sizes.fits(name, args, kwargs)
        call.sample = self.evaluate(fn, name, args, kwargs)
        if all(v.static for v in used):
            return self._constants(call.sample, name)
        return self.record(call)

    def decide(self, value: Value) -> bool:
        """Answer whether a value is true, on the path that is traced."""
        if self.failed is not None:
            raise Untraceable(self.failed)
        one = not value.opaque and not self.returned and np.size(value.sample) == 1
        if not one or value.sample.dtype.kind not in "biufc":
            raise self.refuse("branches on data")
        if self.sizes.used:
            raise self.refuse("branches on data, of rows of a length that only they tell")
        answer = self.decisions.answer(value, len(self.steps), len(self.template), user_line())
        if answer is None:
            raise self.refuse(f"branches on data more than {MAX_DECISIONS_PER_PATH} times in a row")
        return answer

    def note_shape_read(self, value: Value) -> None:
        """Note that the function reads the shape of a value."""
        if value.sized and not self.sizes.read:
            self.sizes.read = user_line()

    def value_of(self, item: Traced) -> Operand:
        """Return the value a symbol stands for; captured arrays that come in by other ways are inputs too."""
        value = getattr(type(item), "_traced", None)
        if value is not None:
            if item._recorder is not self:
                raise self.refuse("uses a value of another trace")
            return item._value
        if type(item) is np.ndarray:
            return self.capture(item)._value
        return item

    def _constants(self, sample: object, name: str) -> Traced:
        if isinstance(sample, np.ndarray | np.generic):
            if sample.dtype.kind not in KINDS:
                raise self.refuse(f"{name} gives {sample.dtype}")
            return self.constant(sample)
        if isinstance(sample, tuple | list):
            return type(sample)([self._constants(s, name) for s in sample])
        return sample

    def record(self, call: Call) -> Traced:
        """Add a step to the graph; its symbol, or symbols."""
        sample = call.sample
        batched = any(v.batched for v in call.values)
        several = type(sample) in (tuple, list)
        for one in sample if several else (sample,):
            if not isinstance(one, np.ndarray | np.generic) or one.dtype.kind not in KINDS:
                raise self.refuse(f"{call.name} gives {_describe(one)}")
        value = self._value(sample, batched=batched)
        value.call, value.sized = call, sizes_in((call.args, call.kwargs))
        if batched:
            try:
                kernel, rowwise, value.faithful = self._choose(call)
            except Untraceable as error:
                raise self.refuse(error.reason) from None
            self.loose = self.loose or call.loose
        else:
            kernel, rowwise = call_plainly(call), False
        errors = dict(self._errors[-1]) if self._errors else {}
        self.steps.append(Step(call.name, value.slot, kernel, rowwise, errors, tuple(call.values), sample, call))
        return self._items(value) if several else self.wrap(value)

    def _items(self, value: Value) -> Traced:
        """Return the results of an operation that has several."""
        made = []
        for i, one in enumerate(value.sample):
            item = self._value(one, batched=value.batched)
            item.faithful, item.sized = value.faithful, value.sized
            self.steps.append(Step("", item.slot, _picker(value.slot, i), uses=(value,)))
            made.append(self.wrap(item))
        return type(value.sample)(made)

    def operation(
        self,
        name: str,
        args: tuple[object, ...],
        kwargs: KeywordArguments,
        how: Blockwise,
    ) -> Traced:
        """Return a function of ours that works on whole columns; see `traced_operation`."""
        args, kwargs = map_arguments((args, kwargs), lambda item: _plain_if_static(self.value_of(item)))
        if not any(value.batched for value in leaves((args, kwargs))):
            raise self.refuse(f"{name} is called on values that are the same for all rows")
        try:
            described, named = map_arguments(args, _spec_of), map_arguments(kwargs, _spec_of)
            structure, specs = flatten(how.spec(*described, **named))
            run = how.block(*described, **named)
        except Exception as error:
            raise self.refuse(f"{name} raises {type(error).__name__} ({error})") from None
        used = tuple(leaves((args, kwargs)))
        slots = [(value.slot, value.batched) for value in used]
        nothing = self._value((), batched=True)
        made = [self._value(dummy(one), batched=True) for one in specs]
        first, stop = nothing.slot + 1, len(self.template)

        deferring = False

        def kernel(values: Values, n: int) -> None:
            columns = [values[slot] if batched else _spread(values[slot], n) for slot, batched in slots]
            result = run(*columns)
            if how.takes_deferred and not deferring and isinstance(result, Deferred):
                result = result.column()
            values[first:stop] = [result] if deferring else structure.leaves_in(result)

        def defer() -> None:
            nonlocal run, deferring
            deferring = True
            run = run if how.deferred is None else how.deferred(*described, **named)

        def scale(slot: int, scaled: Scaled) -> bool:
            nonlocal run
            assert how.scaled is not None, "the operation supports scaling"
            other = how.scaled(slot - first, scaled, *described, **named)
            run = other or run
            return other is not None

        step = Step(name, nothing.slot, kernel, uses=used, in_place=how.in_place, gives=range(first, stop))
        step.call = Call(how.block, name, args, kwargs)
        step.scale = None if how.scaled is None else scale
        step.takes_deferred = how.takes_deferred
        step.defer = defer if how.takes_deferred or how.deferred is not None else None
        step.reads_all = how.reads_all is not None and how.reads_all(*described, **named)
        self.steps.append(step)
        for i, one in enumerate(specs):
            made[i].spec = one
            if how.even and one.shape and one.shape[0] is None:
                made[i] = self._supposed(made[i], one)
        return structure.pack([self.wrap(item) for item in made])

    def _supposed(self, given: Value, spec: TensorSpec) -> Value:
        """Assume a length for rows of unknown length; the block ends if they have another."""
        number = self.sizes.suppose()
        size = self.sizes.used[number]
        sample = dummy(TensorSpec((size, *(spec.shape or ())[1:]), spec.dtype))
        sample.flags.writeable = False  # it may be the memory of the rows
        item = self._value(sample, batched=True)
        item.sized = frozenset({number})

        def kernel(values: Values, _: int) -> Result:
            column = values[given.slot]
            if not isinstance(column, np.ndarray) or column.shape[1:] != sample.shape:
                raise Resized(number, column.shape[1]) if isinstance(column, np.ndarray) else ValueError("uneven rows")
            return column

        self.steps.append(Step("", item.slot, kernel, uses=(given,)))
        return item

    def check_written(self, symbol: Traced) -> None:
        """Refuse to write to an array that is not the function's own, or that something else looks at."""
        memory = symbol._value.sample
        if not isinstance(memory, np.ndarray):
            raise self.refuse("assigns into what is no array")
        if not memory.flags.writeable or any(np.may_share_memory(memory, a) for _, a in self.captured):
            raise self.refuse("writes to an array that it does not own")
        others = [s for ref in self._live if (s := ref()) is not None and s is not symbol]
        if any(_overlap(memory, s._value.sample) for s in others):
            raise self.refuse("writes to an array while another name or view of it is in use")

    def layout_guards(self) -> list[Callable[[], bool]]:
        """Return whether captured arrays still have the layout that they had."""
        return [_same_layout(array) for _, array in self.captured]

    def release(self) -> None:
        """Free the samples: stand-ins for NumPy's types would keep them until the garbage collector runs."""
        for step in self.steps:
            for value in step.uses:
                value.call = None
                value.sample = value.sample if value.static else map_arguments(value.sample, _outline)
            step.uses, step.sample, step.call = (), None, None
        self.steps, self.template, self.captured, self._live = [], [], [], []

    def record_known(self, call: Call) -> Value:
        """Return the value of a call whose sample is known: a constant if all inputs are."""
        made = self.constant(call.sample) if all(v.static for v in call.values) else self.record(call)
        return made._value  # type: ignore[no-any-return]


def _same_layout(array: Array) -> Callable[[], bool]:
    layout = (array.shape, array.dtype, array.strides)
    return lambda: (array.shape, array.dtype, array.strides) == layout


def _plain_if_static(item: object) -> Operand:
    """Return a value that is the same forever as itself."""
    return item.sample if isinstance(item, Value) and item.static else item


def _spread(value: Operand, n: int) -> Operand:
    """Return the column of a value that all rows share."""
    return np.broadcast_to(value, (n, *np.shape(value)))


def _outline(sample: object) -> Operand:
    """Return an array of the same shape and dtype that takes no memory."""
    return np.broadcast_to(np.zeros((), sample.dtype), sample.shape) if isinstance(sample, np.ndarray) else sample


def _describe(value: object) -> str:
    dtype = getattr(value, "dtype", None)
    return f"an array of {dtype}" if dtype is not None else f"a Python {type(value).__name__} that depends on the data"


def _overlap(memory: object, other: object) -> bool:
    return isinstance(other, np.ndarray) and np.may_share_memory(memory, other)


def _picker(slot: int, index: int) -> Kernel:
    return lambda values, _: values[slot][index]


def _spec_of(item: object) -> Operand:
    if not isinstance(item, Value):
        return item
    return item.spec or TensorSpec(np.shape(item.sample), item.sample.dtype)
