"""The decorator `typing.override` of Python 3.12, for methods whose signature a base class determines."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

__all__ = ["override"]

if TYPE_CHECKING:
    from typing_extensions import override
else:
    F = TypeVar("F")

    def override(fn: F) -> F:
        """Mark a method that overrides one of a base class; type checkers verify that there is one."""
        return fn
