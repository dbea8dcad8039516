"""Import optional frameworks; an error names the extra that installs them."""

from __future__ import annotations

import importlib

from headrace.core.types import Library


def framework(name: str, wanted_by: str) -> Library:
    """Import a framework. Raise ImportError with the extra that installs it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name.partition(".")[0]:
            raise
        extra = name.partition(".")[0]
        raise ModuleNotFoundError(
            f"{wanted_by} needs {extra}, which is not installed: pip install 'headrace[{extra}]'", name=error.name
        ) from None
