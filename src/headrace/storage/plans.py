"""The identity of the pipeline that made stored rows: its operations, parameters, functions, data and seeds."""

from __future__ import annotations

import hashlib
from functools import cached_property

from headrace.core.types import JsonObject
from headrace.execute.changes import described_nodes
from headrace.execute.state import description, drawn_seeds, with_seeds
from headrace.identity.digests import PYTHON, digest_difference
from headrace.identity.looker import Looker
from headrace.plan.capabilities import HoldsFiles, contents_of, file_names_of, files_gone, provides
from headrace.plan.node import Node, walk
from headrace.storage.structures import kinds


class Maker:
    """The plan whose rows are stored."""

    def __init__(self, plan: Node) -> None:
        self.plan = plan
        self._looker = Looker()

    @cached_property
    def page(self) -> JsonObject:
        """Return the identity of this plan, as JSON values."""
        return {
            "operations": description(self.plan),
            "names": {
                str(i): name for i, (node, _) in enumerate(described_nodes(self.plan)) if (name := file_names_of(node))
            },
            "digests": ["-" if told else self._digest(node) for node, told in described_nodes(self.plan)],
            "python": PYTHON,
            "seeds": drawn_seeds(self.plan),
        }

    def _digest(self, node: Node) -> str:
        files = node.files_held() if provides(node, HoldsFiles) else None
        contents = contents_of(node) if files is None else (*contents_of(node), files)
        return str(self._looker.digest(contents)) if contents else "-"

    @property
    def types(self) -> set[type]:
        """The classes of elements that its specs and functions name."""
        assert self.page
        structures = [node.spec.structure for node in walk(self.plan)]
        return self._looker.types.union(*(kinds(structure) for structure in structures if structure is not None))

    def differs(self, page: JsonObject) -> str | None:
        """Return why the rows of another plan are not those of this one, None if they are.

        Files that are not there any more are taken for what they were, if they are called as they were.
        """
        here = self.page
        same_python = page["python"] == PYTHON
        nodes = [node for node, _ in described_nodes(self.plan)]
        for i in range(max(len(page["operations"]), len(nodes))):
            was, now = _nth(page["operations"], i), _nth(here["operations"], i)
            if was != now and not (i < len(nodes) and self._gone(nodes[i], page["names"].get(str(i)))):
                return f"operation {i + 1} was {was}, here it is {now}"
            what = digest_difference(page["digests"][i], here["digests"][i], same_python=same_python)
            if what is not None and any(map(callable, contents_of(nodes[i]))):
                return f"the function of operation {i + 1}, {now}, has changed: {what}"
            if what is not None:
                return f"operation {i + 1}, {now}, has other data"
        return None

    def _gone(self, node: Node, names: str | None) -> bool:
        return names is not None and file_names_of(node) == names and files_gone(node)

    @property
    def sources_gone(self) -> bool:
        """Whether files that the plan reads are not there any more."""
        return any(files_gone(node) for node in walk(self.plan))

    def with_stored_seeds(self, page: JsonObject) -> Node:
        """Return the plan with the seeds that the stored rows were drawn with."""
        return with_seeds(self.plan, page["seeds"])

    @property
    def digest(self) -> str:
        """A short name for this plan, the same in every process."""
        text = repr((self.page["operations"], self.page["digests"]))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _nth(lines: list[str], i: int) -> str:
    return lines[i] if i < len(lines) else "missing (the plan ends before)"
