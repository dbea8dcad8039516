"""Which pipeline made stored rows: its operations, parameters and functions, and the seeds it drew."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import CodeType
from typing import Any

from headrace.execute.state import description, drawn_seeds, reseeded
from headrace.plan.node import Node, walk


@dataclass(frozen=True)
class Maker:
    """The plan whose rows are stored."""

    plan: Node

    def page(self) -> dict[str, Any]:
        """What tells this plan from others, as JSON holds it."""
        return {
            "operations": description(self.plan),
            "functions": [_fingerprint(node) for node in walk(self.plan) if not node.transparent],
            "python": sys.implementation.cache_tag,
            "seeds": drawn_seeds(self.plan),
        }

    def differs(self, page: dict[str, Any]) -> str | None:
        """Why the rows of another plan are not those of this one, None if they are. Captured values do not count."""
        here = self.page()
        comparable = page["python"] == here["python"]  # bytecode is another in every Python
        for i in range(max(len(page["operations"]), len(here["operations"]))):
            was, now = _nth(page["operations"], i), _nth(here["operations"], i)
            if was != now:
                return f"operation {i + 1} was {was}, here it is {now}"
            if comparable and page["functions"][i] != here["functions"][i]:
                return f"the function of operation {i + 1}, {now}, has changed"
        return None

    def reseeded(self, page: dict[str, Any]) -> Node:
        """The plan with the seeds that the stored rows were drawn with."""
        return reseeded(self.plan, page["seeds"])

    @property
    def digest(self) -> str:
        """A short name for this plan, the same in every process."""
        page = self.page()
        text = repr((page["operations"], page["functions"]))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _nth(lines: list[str], i: int) -> str:
    return lines[i] if i < len(lines) else "nothing more"


def _fingerprint(node: Node) -> str:
    """What the functions among a node's parameters do, as far as their code tells; empty where there are none."""
    codes = [code for f in fields(node) if (code := getattr(getattr(node, f.name), "__code__", None)) is not None]
    if not codes:
        return ""
    text = repr([list(_facts(code)) for code in codes])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _facts(code: CodeType) -> Iterator[Any]:
    yield code.co_code
    yield code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield list(_facts(constant))
        elif isinstance(constant, frozenset):
            yield sorted(map(repr, constant))
        else:
            yield constant
