"""The type of a dataset's elements, for type checkers: `Dataset[Element]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Element = TypeVar("Element", default=Any)
    Mapped = TypeVar("Mapped", default=Any)
else:  # a TypeVar without defaults does at run time
    from typing import TypeVar

    Element = TypeVar("Element")
    Mapped = TypeVar("Mapped")
