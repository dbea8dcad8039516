"""Draws of a traced function: `rng.normal(...)` in a graph.

The generator of a row is data like any other: three words, its key and the row's id. A draw is a function of these, of
its arguments, and of how many numbers the row has drawn before, which is the same for all rows.
"""

from __future__ import annotations

import inspect

import numpy as np
from numpy.typing import NDArray

from headrace.core.random import BlockGenerator, RowGenerator
from headrace.core.types import Argument, Attribute, KeywordArguments
from headrace.trace.numpy_names import real
from headrace.trace.recorder import Recorder
from headrace.trace.rules.draws import ARRAYS, METHODS, NUMBERS
from headrace.trace.symbols import Symbol
from headrace.trace.values import Operand, Traced

SIGNATURES = {name: inspect.signature(getattr(BlockGenerator, name)) for name in METHODS}


def generator_column(key: int, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the generators of the rows with these ids."""
    column = np.empty((len(ids), 3), np.uint64)
    column[:, 0] = key
    column[:, 1:] = ids
    return column


class Draw:
    """A method of the generator as a function of the generator's words."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.used: int = 0

    def __call__(self, state: NDArray[np.uint64], *, used: int, **given: object) -> Traced:
        """Return what the generator gives after `used` numbers."""
        rng = RowGenerator(int(state[0]), state[1:], used)
        made = getattr(rng, self.method)(**given)
        self.used = rng.used
        return made


class TracedGenerator:
    """The stand-in for a generator while a function is traced."""

    __slots__ = ("_recorder", "_state", "_used")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._state = recorder.input(np.zeros(3, np.uint64))
        self._used = 0

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` checks."""
        return RowGenerator

    def __getattr__(self, name: str) -> Attribute:
        if name in METHODS:
            return lambda *args, **kwargs: self._draw(name, args, kwargs)
        getattr(RowGenerator, name)  # an AttributeError, if the real one raises it
        raise self._recorder.refuse(f"uses rng.{name}")

    def __repr__(self) -> str:
        raise self._recorder.refuse("makes text of its generator")

    def _draw(self, method: str, args: tuple[object, ...], kwargs: KeywordArguments) -> Traced:
        given = SIGNATURES[method].bind(self, *real(args), **real(kwargs)).arguments
        del given["self"]
        draw = Draw(method)
        if method == "shuffle":
            self._shuffle(draw, **given)
            made = None
        else:
            given = {name: self._array(value) if name in NUMBERS | ARRAYS else value for name, value in given.items()}
            made = self._recorder.call(draw, f"rng.{method}", (self._state,), {**given, "used": self._used})
        self._used = draw.used
        return made

    def _array(self, value: Operand) -> Traced:
        """Return a list of symbols as the array that the generator makes of it."""
        symbols = isinstance(value, list | tuple) and any(type(v) is Symbol for v in value)
        return self._recorder.call(np.asarray, "asarray", (value,), {}) if symbols else value

    def _shuffle(self, draw: Draw, x: Traced, **given: object) -> None:
        if type(x) is not Symbol or not isinstance(x._value.sample, np.ndarray):
            raise self._recorder.refuse("shuffles what is no array")

        def change(target: Traced, state: Traced, **named: Argument) -> None:
            draw(state, x=target, **named)

        x._write(change, "rng.shuffle", (self._state,), {**given, "used": self._used})
