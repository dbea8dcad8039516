"""Text for people: values, labels and specs that stay within the width of a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.plan.spec import Spec

WIDTH = 120
"""The longest line of a plan, a table or a repr."""
VALUE_WIDTH = 40
"""The longest text of one parameter."""
SPEC_WIDTH = 60
"""The longest text of a spec on a shared line."""

ROW_BY_ROW = "row by row: "
"""The prefix of an operation's remark if its rows are made one by one; the reason follows."""

_PLAIN = (str, bytes, bool, int, float)


def cut_to_width(text: str, width: int) -> str:
    """Truncate a text to `width`."""
    if len(text) <= width:
        return text
    closing = text[-1] if text[-1:] in (")", "}", "]") else ""
    return text[: max(0, width - 1 - len(closing))] + "…" + closing


def parameter_text(name: str, value: object) -> str:
    """Return a parameter as it stands in a label: some values have a `brief` form of their own, some are not shown."""
    if isinstance(value, Spec):
        return f"{name}={spec_text(value, VALUE_WIDTH)}"
    if hasattr(value, "brief"):
        return str(value.brief())
    if dataclasses.is_dataclass(value) and type(value).__str__ is object.__str__:
        return _settings(value)
    return f"{name}={cut_to_width(str(value), VALUE_WIDTH)}"


def _settings(value: Any) -> str:
    """Return the attributes of an object that are plain values, as text."""
    found = []
    for f in dataclasses.fields(value):
        held = getattr(value, f.name)
        if held != f.default and isinstance(held, _PLAIN) and f.repr:
            found.append(f"{f.name}={cut_to_width(repr(held), VALUE_WIDTH)}")
    return ", ".join(found)


def spec_text(spec: Spec, width: int = SPEC_WIDTH) -> str:
    """Return a spec with as many of its components as fit, and how many there are besides."""
    if spec.structure is None:
        return "?"
    text = spec.structure.text(map(str, spec.leaves), join=lambda parts: as_many_as_fit(parts, width - 2))
    return cut_to_width(text, width)


def as_many_as_fit(texts: Sequence[str], width: int) -> str:
    """Join as many texts as fit and append how many were left out; keep at least the first, truncated if necessary."""
    if sum(len(text) + 2 for text in texts) - 2 <= width:
        return ", ".join(texts)
    shown: list[str] = []
    used = 0
    for i, text in enumerate(texts):
        left = len(texts) - i - 1
        more = f", … {left} more" if left else ""
        if shown and used + 2 + len(text) + len(more) > width:
            return f"{', '.join(shown)}, … {left + 1} more"
        shown.append(text if shown else cut_to_width(text, max(1, width - len(more))))
        used += len(shown[-1]) + 2 * (i > 0)
    return ", ".join(shown)


def bytes_text(size: float) -> str:
    """Return a number of bytes in a readable unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def site_text(site: str) -> str:
    """Return a file and line, as seen from the working directory."""
    try:
        return str(Path(site).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return site
