"""Detect functions that draw random numbers, or read a clock, so that a second call gives another result.

This reads the code without calling it. Draws from a generator that the function is given, or that it seeds itself
(`np.random.default_rng(int(x))`), are ignored; so are installed packages, whose code is not inspected.
"""

from __future__ import annotations

import builtins
import dis
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType

import numpy as np

from headrace.core.types import Component
from headrace.identity.classes import is_library
from headrace.identity.code import ATTRIBUTES, LOOKUPS, codes, instructions
from headrace.plan.bound import MODULE

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
SEEDED = {"default_rng", "RandomState", "Random", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
"""Functions that make or seed a generator, at random if they are called without an argument."""
CLOCKS = {
    "time": {
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns",
    },
    "uuid": {"uuid1", "uuid4"},
    "secrets": {"token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice"},
    "posix": {"urandom", "getrandom"},
}  # fmt: skip
TORCH_DRAWS = {
    "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm",
}  # fmt: skip
"""Functions of torch that draw from its global generator, unless they are given another one."""
NOW = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
CALLS = {"CALL", "PRECALL", "CALL_FUNCTION", "CALL_METHOD"}


def nondeterminism(fn: Callable[..., object]) -> str | None:
    """Return what a function uses that is another at each call, as `np.random.rand`; None if nothing was found."""
    found = list(_found(fn, set()))
    seeds = any(name.rpartition(".")[2] in ("seed", "manual_seed") for name in found)
    return None if seeds or not found else found[0]


def _found(fn: object, seen: set[int]) -> Iterator[str]:
    while isinstance(fn, partial):
        yield from (f"a {type(v).__name__}" for v in (*fn.args, *fn.keywords.values()) if isinstance(v, GENERATORS))
        fn = fn.func
    if not isinstance(fn, FunctionType | MethodType):
        fn = getattr(fn, "__call__", None)  # noqa: B004 - of an object with such a method
    owner = fn.__self__ if isinstance(fn, MethodType) else None
    fn = getattr(fn, "__func__", fn)
    if not isinstance(fn, FunctionType) or is_library(fn.__code__) or id(fn) in seen:
        return
    seen.add(id(fn))
    defaults = (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())
    yield from (f"a {type(value).__name__} as a default" for value in defaults if isinstance(value, GENERATORS))
    for part in codes(fn.__code__):
        held = getattr(owner, "__dict__", {})
        yield from (f"self.{name}" for name in part.co_names if isinstance(held.get(name), GENERATORS))
        yield from _in_code(part, _scope(fn), seen)


def _scope(fn: FunctionType) -> dict[str, Component]:
    """Return what names mean in a function."""
    closure = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    module = dict.get(fn.__globals__, MODULE, {})  # of a bound function: what it finds there is not bound
    return {**vars(builtins), **module, **fn.__globals__, **closure}


def _in_code(code: CodeType, scope: dict[str, Component], seen: set[int]) -> Iterator[str]:
    steps = [step for step in instructions(code) if step.opname not in ("PUSH_NULL", "CACHE", "EXTENDED_ARG")]
    imported: dict[str, Component] = {}
    with_generator = any(isinstance(names, tuple) and "generator" in names for names in code.co_consts)
    for i, step in enumerate(steps):
        if step.opname == "IMPORT_NAME" and i + 1 < len(steps):
            imported[str(steps[i + 1].argval)] = sys.modules.get(str(step.argval).partition(".")[0])
        names = scope if step.opname in LOOKUPS else imported if step.opname.startswith("LOAD_FAST") else {}
        value = names.get(step.argval) if isinstance(step.argval, str) else None
        if value is None:
            continue
        path, after = [str(step.argval)], i + 1
        while isinstance(value, ModuleType | type) and after < len(steps) and steps[after].opname in ATTRIBUTES:
            value = getattr(value, str(steps[after].argval), None)
            path.append(str(steps[after].argval))
            after += 1
        if with_generator and _is_draw_of_torch(value):
            continue
        if _differs(value, steps[after] if after < len(steps) else None):
            yield ".".join(path)
        elif isinstance(value, FunctionType | MethodType):
            yield from _found(value, seen)


def _differs(value: object, following: dis.Instruction | None) -> bool:
    """Return whether a value that code has looked up gives something else each time."""
    name, module = getattr(value, "__name__", ""), getattr(value, "__module__", None) or ""
    if isinstance(value, GENERATORS) or isinstance(getattr(value, "__self__", None), GENERATORS):
        return True
    if (name == "seed" and module.startswith("numpy.random")) or (name == "manual_seed" and module == "torch.random"):
        return True
    if name in SEEDED and module.partition(".")[0] in ("numpy", "random", "_random"):
        return following is not None and following.opname in CALLS and following.arg == 0
    if getattr(value, "__qualname__", "") in NOW or value is random.SystemRandom:
        return True
    return name in CLOCKS.get(module, ()) or _is_draw_of_torch(value)


def _is_draw_of_torch(value: object) -> bool:
    return getattr(value, "__module__", None) == "torch" and getattr(value, "__name__", "") in TORCH_DRAWS
