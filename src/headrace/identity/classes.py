"""Find the owner of code, and the methods of a class that may run if certain names are accessed."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from headrace.core.types import Component
from headrace.identity.code import attribute_names, changes

MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__attrs_post_init__"})
UNCALLED = MAKERS | {
    "__class_getitem__", "__copy__", "__deepcopy__", "__del__", "__dir__", "__eq__", "__format__", "__ge__",
    "__getstate__", "__gt__", "__hash__", "__init_subclass__", "__le__", "__lt__", "__ne__", "__reduce__",
    "__reduce_ex__", "__replace__", "__repr__", "__setstate__", "__sizeof__", "__str__", "__subclasshook__",
}  # fmt: skip
"""Special methods that seldom run when elements are made, and ask for everything when they do."""
VALUES = {"_collections_abc", "abc", "argparse", "collections", "dataclasses", "enum", "functools", "typing", "types"}
"""Python modules whose objects only hold values. Objects of other modules do something: log, lock, send."""
SERVICES = {
    "absl", "aiohttp", "boto3", "botocore", "dask", "fsspec", "gcsfs", "google", "grpc", "h5py", "lmdb", "loguru",
    "mlflow", "psycopg", "pymongo", "ray", "redis", "requests", "rich", "s3fs", "sqlalchemy", "structlog",
    "tensorboard", "tqdm", "urllib3", "wandb", "zarr",
}  # fmt: skip
"""Packages whose objects do something, and change as they do."""
SETTINGS = {"absl", "ml_collections", "omegaconf"}
"""Packages whose objects hold settings, and more than a function reads."""
_PATHS = sysconfig.get_paths()
_LIBRARY = tuple({_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OURS = str(Path(__file__).parents[1])


class Reached(NamedTuple):
    """Methods that may run, the names they and their callers ask for, the attributes they assign or change."""

    methods: dict[str, list[FunctionType]]
    asked: frozenset[str]
    changed: frozenset[str]


def reachable_methods(kind: type, names: frozenset[str]) -> Reached:
    """Return what may run of a class if these names of its objects are accessed; special methods always may."""
    methods: dict[str, list[FunctionType]] = {}
    asked, changed = set(names), set()
    members = {name: member for base in reversed(kind.__mro__) for name, member in vars(base).items()}
    more = True
    while more:
        more = False
        for name, member in members.items():
            special = name.startswith("__") and name.endswith("__") and name not in UNCALLED
            if name in methods or not (special or name in asked) or not is_method(member):
                continue
            methods[name] = functions_of(member)
            more = True
            if isinstance(member, functools.cached_property):
                changed.add(name)
            for fn in methods[name]:
                asked |= attribute_names(fn.__code__)
                changed |= changes(fn.__code__).attributes if name not in MAKERS else set()
    return Reached({name: fns for name, fns in methods.items() if fns}, frozenset(asked), frozenset(changed))


def is_method(member: object) -> bool:
    """Return whether a member of a class is a method, or computed on access."""
    return isinstance(member, functools.cached_property) or hasattr(type(member), "__get__")


def functions_of(member: object) -> list[FunctionType]:
    """Return the Python functions of a class member."""
    if isinstance(member, property):
        found: list[Any] = [member.fget, member.fset]
    elif isinstance(member, functools.cached_property):
        found = [member.func]
    else:
        found = [getattr(member, "__func__", member)]
    return [fn for fn in found if isinstance(fn, FunctionType)]


def attributes_of(value: object) -> dict[str, Component]:
    """Return what an object holds, in slots or not; no property is asked."""
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                found[slot] = getattr(value, slot)
    return found


def is_library(code: CodeType, home: str = "") -> bool:
    """Return whether Python, an installed package or headrace contains this code; files under `home` count as the
    user's.
    """
    return _is_library_file(code.co_filename) and not (home and code.co_filename.startswith(home))


def is_library_class(kind: type) -> bool:
    """Return whether a class is of an installed package, of Python or of headrace."""
    module = sys.modules.get(kind.__module__)
    return module is not None and is_library_module(module)


def is_service(kind: type) -> bool:
    """Return whether objects of a class act (log, lock, send), so that their contents do not determine what comes
    out.
    """
    package = kind.__module__.partition(".")[0]
    if kind.__module__.startswith("numpy.random") or package in SERVICES:
        return True
    return package in sys.stdlib_module_names and package not in VALUES and package != "__main__"


def is_library_module(module: ModuleType) -> bool:
    """Return whether a module is of an installed package, of Python or of headrace."""
    if module.__name__ in ("__main__", "__mp_main__"):  # whatever was started: in a worker process that is headrace's
        return False
    path = getattr(module, "__file__", None)
    return path is None or _is_library_file(path)


@functools.lru_cache(4096)
def _is_library_file(path: str) -> bool:
    return path.startswith((*_LIBRARY, _OURS, "<frozen")) or "site-packages" in path or "dist-packages" in path


def home_of(value: Component) -> str:
    """Return the directory of a user's package that is installed like a library, if a function is from one."""
    while issubclass(type(value), functools.partial):
        value = value.func
    if type(value) not in (FunctionType, MethodType):
        return ""
    path = value.__code__.co_filename
    if path.startswith((_OURS, "<frozen")):
        return ""
    for folder in ("site-packages", "dist-packages"):
        before, found, after = path.rpartition(f"/{folder}/")
        if found:
            return f"{before}{found}{after.partition('/')[0]}"
    return ""
