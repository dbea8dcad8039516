"""Decide whether a function has side effects, from its code and from what it holds."""

from __future__ import annotations

import builtins
import dis
import inspect
from functools import cache, lru_cache
from types import CodeType, FunctionType

from headrace.identity.code import codes, instructions

BUILTINS = frozenset({
    "Ellipsis", "False", "None", "NotImplemented", "True", "__debug__", "abs", "all", "any", "bool", "bytes",
    "callable", "chr", "complex", "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "getattr",
    "hasattr", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "ord", "pow",
    "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip",
})  # fmt: skip
EFFECTS = {
    "STORE_GLOBAL": "assigns the global {}",
    "DELETE_GLOBAL": "deletes the global {}",
    "STORE_ATTR": "assigns the attribute {}",
    "DELETE_ATTR": "deletes the attribute {}",
    "LOAD_BUILD_CLASS": "makes a class",
    "IMPORT_NAME": "imports {}",
    "LOAD_NAME": "uses the name {}",
}


@cache
def pure_builtins() -> dict[str, object]:
    """Return the builtins that a traced function may use; read-only."""
    return {
        name: value
        for name, value in vars(builtins).items()
        if name in BUILTINS or (isinstance(value, type) and issubclass(value, BaseException))
    }


def effect(fn: FunctionType) -> str | None:
    """Describe a visible side effect of the function's code, None if there is none."""
    if fn.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return f"{fn.__name__} is a generator or a coroutine"
    return _effect(fn.__code__, fn.__code__.co_filename)


@lru_cache(maxsize=1024)
def _effect(code: CodeType, file: str) -> str | None:  # equal code may stand in several files
    for part in codes(code):
        line = part.co_firstlineno
        for instruction in instructions(part):
            line = instruction.starts_line if type(instruction.starts_line) is int else _line(instruction) or line
            what = EFFECTS.get(instruction.opname)
            if what is None and instruction.opname in ("STORE_DEREF", "DELETE_DEREF"):
                what = "assigns {} of the function around it" if instruction.argval in code.co_freevars else None
            if what is not None:
                return f"{what.format(instruction.argval)} at {file}:{line}"
    return None


def _line(instruction: dis.Instruction) -> int | None:
    return getattr(instruction, "line_number", None)


@lru_cache(maxsize=1024)
def decides(code: CodeType) -> bool:
    """Return whether the code can take another path for another value, because it branches or loops."""
    return any("JUMP" in i.opname or i.opname == "FOR_ITER" for i in instructions(code))
