"""Show the examples of docstrings as code: doctests need no heading in the sources."""

from __future__ import annotations

from typing import Any

import griffe


class FenceDoctests(griffe.Extension):
    """Put a fence around each run of lines that begins with a prompt and ends with an empty line."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with fences around its doctests."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.startswith(">>>"):
            inside = True
            lines.append("```pycon")
        elif inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
