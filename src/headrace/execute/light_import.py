"""The package as a worker process imports it: module by module, and whole once a name of the package itself is needed.

A worker that calls a user's function needs less than half of what the package imports, and many start at a time. This
file is run before anything of the package is imported, and so imports nothing of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

PACKAGE = "headrace"


class LightPackage(ModuleType):
    """The package before it has run: a module of it is imported when it is asked for, any other name has it run."""

    running = threading.RLock()
    has_run = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(name)
        if importlib.util.find_spec(f"{PACKAGE}.{name}") is not None:
            return importlib.import_module(f"{PACKAGE}.{name}")
        with LightPackage.running:
            if not LightPackage.has_run:
                LightPackage.has_run = True
                spec = self.__spec__
                assert spec is not None and spec.loader is not None, "it was found before"
                spec.loader.exec_module(self)
        if name not in vars(self):
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
        return vars(self)[name]


def import_lightly() -> None:
    """Have the package be there without running it."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None, "the process that starts this one has it"
    package = importlib.util.module_from_spec(spec)
    package.__class__ = LightPackage
    sys.modules[PACKAGE] = package
