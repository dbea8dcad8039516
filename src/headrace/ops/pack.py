"""Documents of many lengths in rows of one, for language models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from headrace.columns import Indices, values
from headrace.columns.block import Block
from headrace.core.types import Component
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Stream
from headrace.ops.shared.arguments import one_of, positive
from headrace.ops.shared.pack_fields import Names, PackArguments, PackedGroup, PackedItems, check_names
from headrace.ops.shared.pack_streams import ConcatMark, ConcatStream, FitStream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Divides, Node
from headrace.plan.spec import Spec, TensorSpec, leaf_spec
from headrace.plan.structure import LEAF, Structure

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Strategy = Literal["concat", "first_fit", "best_fit"]
"""How documents become rows."""


def pack(
    self: Dataset,
    length: int | Mapping[str, int],
    strategy: Strategy = "concat",
    separator: object = None,
    *,
    fields: Names | None = None,
    items: Names | None = None,
    lookahead: int = 1024,
    max_documents: int | None = None,
    pad: object = 0,
    documents: bool = False,
    cu_seqlens: bool = False,
    name: str | None = None,
) -> Dataset:
    """Pack token sequences into rows of fixed length: dicts with `tokens`, `segments` and `positions`.

    An element is one document: a row of tokens, or a dict or tuple of fields with one value (or one row of values) per
    token. A packed row is a dict of the fields and of `segments` and `positions`: tokens with the same segment, counted
    from 1, belong to one document, and 0 is padding; positions count from 0 in each segment. A field that is called
    "positions" is kept in their place. Documents without tokens are left out.

    "concat" cuts rows out of all documents one after another: every row but the last is full, and documents continue in
    the next row. The other strategies keep documents whole, unless they are longer than a row. They look at
    `lookahead` documents together and place the longest first: "first_fit" into the first row with room, "best_fit"
    into the row with the least room that is enough. Rows come in the order of their first documents. A larger
    `lookahead` fills rows better, and is read again on a resume. `it.stats()` tells how full rows are.

    Args:
        length: Tokens per row. A dict gives each field its own length, for encoder-decoder pairs: then a document is in
            the same row of all fields, every field has its own `<field>_segments` and `<field>_positions`, and a
            document that is too long for a row is an error.
        strategy: "concat", "first_fit" or "best_fit".
        separator: A value that follows each document and belongs to it. With several fields, a dict by field.
        fields: The components to pack; by default all. For elements that are tuples, their names in order.
        items: Components that travel with their document: items such as its images, or one value such as its name.
            In a packed row they follow one another, and `<name>_segments` says to which document each belongs.
            Of elements that are tuples, they are the components after `fields`.
            A document that is cut leaves them in the row where it begins.
        lookahead: How many documents are packed together; not for "concat".
        max_documents: The most documents in one row; not for "concat".
        pad: What fills rows up. With several fields, a dict by field; 0 for those that are not named.
        documents: Whether `documents` holds the number of each token's document, -1 for padding.
        cu_seqlens: Whether to add `cu_seqlens`, the boundaries of documents in the form that flash attention takes, and
            `max_seqlen`. Padding counts as one document more. With `max_documents` it has the same size in all rows.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset of packed rows.

    Raises:
        SpecError: The elements have no such fields, or their dtypes are not known.
        ValueError: An argument contradicts another.

    >>> docs = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([np.arange(n) + 10 * n for n in (1, 2, 3, 4)]))
    >>> for row in docs.pack(6, "first_fit"):
    ...     print(row["tokens"], row["segments"], row["positions"])
    [10 30 31 32  0  0] [1 2 2 2 0 0] [0 0 1 2 0 0]
    [20 21 40 41 42 43] [1 1 2 2 2 2] [0 1 0 1 2 3]
    >>> [row["tokens"].tolist() for row in docs.pack(6, separator=0)]
    [[10, 0, 20, 21, 0, 30], [31, 32, 0, 40, 41, 42], [43, 0, 0, 0, 0, 0]]
    >>> pairs = docs.map(lambda tokens: {"tokens": tokens, "labels": tokens + 1})
    >>> row = next(iter(pairs.pack(6, "best_fit", pad={"labels": -100}, cu_seqlens=True)))
    >>> row["labels"], row["cu_seqlens"]
    (array([  11,   31,   32,   33, -100, -100]), array([0, 1, 4, 6], dtype=int32))
    """
    one_of("strategy", strategy, Strategy)
    ahead = positive("lookahead", lookahead)
    most = None if max_documents is None else positive("max_documents", max_documents)
    given = PackArguments(self._node.spec, length, fields, items, separator, pad)
    groups, kept = given.groups(), given.items_of()
    check_names(groups, kept)
    if strategy == "concat" and (most is not None or len(groups) > 1):
        what = "max_documents" if len(groups) == 1 else "several lengths"
        raise ValueError(f'pack: {what} need strategy="first_fit" or "best_fit": "concat" cuts documents anywhere')
    window = None if strategy == "concat" else ahead
    structure = self._node.spec.structure or LEAF
    options = PackOptions(most, bool(documents), bool(cu_seqlens))
    return self._then(Pack, strategy, groups, kept, window, options, structure, name=name)


@dataclass(frozen=True)
class PackOptions:
    """What packed rows may hold, and which fields of segments they have."""

    max_documents: int | None = None
    documents: bool = False
    cu_seqlens: bool = False

    def __str__(self) -> str:
        return f"{self.max_documents}, {self.documents}, {self.cu_seqlens}"


@dataclass(frozen=True, eq=False)
class Pack(Node):
    """Rows of one length, for each group of fields."""

    input: Node
    strategy: Strategy
    groups: tuple[PackedGroup, ...]
    items: tuple[PackedItems, ...] = ()
    window: int | None = None
    options: PackOptions = PackOptions()
    structure: Structure = field(default=LEAF, repr=False)

    divides = Divides.SHARES

    def label(self, *, for_state: bool = False) -> str:
        """Return the operation with its parameters. In states, packed tokens alone are named as in earlier versions."""
        (group, *more), options = self.groups, self.options
        tokens = group.fields[0]
        alone = not more and not self.items and self.structure == LEAF and len(group.fields) == 1
        if not for_state or not alone or tokens.pad or options != PackOptions(documents=options.documents):
            return super().label(for_state=for_state)
        shown = f"length={group.length}, strategy={self.strategy}, separator={tokens.separator}"
        window = "" if self.window is None else f", window={self.window}"
        return f"pack({shown}, documents={options.documents}{window})"

    @cached_property
    def spec(self) -> Spec:
        known: dict[str, TensorSpec] = {}
        for group in self.groups:
            known |= {each.name: TensorSpec((group.length, *each.width), each.dtype) for each in group.fields}
            known |= {f"{group.prefix}{name}": spec for name, spec in self._places(group).items()}
        for each in self.items:
            known[each.name] = TensorSpec((None, *each.width), each.dtype)
            known[f"{each.name}_segments"] = TensorSpec((None,), np.int32)
        return Spec.of_signature(known)

    def _places(self, group: PackedGroup) -> dict[str, TensorSpec]:
        row, options = (group.length,), self.options
        made = {"segments": TensorSpec(row, np.int32)}
        if self.makes_positions(group):
            made["positions"] = TensorSpec(row, np.int32)
        if options.documents:
            made["documents"] = TensorSpec(row, np.int64)
        if options.cu_seqlens:
            most = options.max_documents
            made["cu_seqlens"] = TensorSpec((None if most is None else most + 2,), np.int32)
            made["max_seqlen"] = TensorSpec((), np.int32)
        return made

    @staticmethod
    def makes_positions(group: PackedGroup) -> bool:
        """Whether positions are counted; not if the elements have some."""
        return all(f"{group.prefix}positions" != each.name for each in group.fields)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality if self.input.cardinality == 0 else self.input.cardinality.vague

    @property
    def lookahead(self) -> int:
        """How many documents are looked at together."""
        return self.window or 1

    @cached_property
    def lengths(self) -> Indices:
        """How many cells a row has, of each group."""
        return np.array([group.length for group in self.groups], np.int64)

    @cached_property
    def behind(self) -> Indices:
        """How many cells follow each document, of each group."""
        return np.array([int(group.separated) for group in self.groups], np.int64)[:, None]

    def refusal(self, row: Block) -> str:
        """Return why a row is not a document."""
        leaves = [next(values(column)) for column in row.columns]
        return self.refusal_of(row.structure, leaves)

    def refusal_of(self, structure: Structure, leaves: list[Component]) -> str:
        """Return why an element with these components is not a document."""
        found = ", ".join(str(leaf_spec(leaf)) for leaf in leaves)
        fields = [each for group in self.groups for each in group.fields]
        if structure != self.structure:
            return f"a document is {structure_text(self.structure)}, this element is {found}"
        for each in fields:
            if not each.fits(leaves[each.leaf]):
                kind = f"one row of {each.dtype} tokens" if not each.width else f"rows of {each.width} {each.dtype}"
                named = "" if len(fields) == 1 else f" in {each.name!r}"
                return f"a document is {kind}{named}, this element is {found}"
        for item in self.items:
            if not item.fits(leaves[item.leaf]):
                return f"the items {item.name!r} are {leaf_spec(leaves[item.leaf])}, not {item}"
        for group in self.groups:
            first, *others = group.fields
            for each in others:
                if len(leaves[each.leaf]) != len(leaves[first.leaf]):
                    sizes = f"{len(leaves[first.leaf])} and {len(leaves[each.leaf])}"
                    return f"the fields {first.name!r} and {each.name!r} of a document differ in length: {sizes}"
        for group in self.groups:
            name, size = group.fields[0].name, len(leaves[group.fields[0].leaf]) + group.separated
            if size > group.length:
                return f"{name!r} takes {size} cells, and rows have {group.length}: truncate or chunk() it before"
        raise AssertionError("this element is a document")

    def index_remedy(self) -> str:
        return "how many documents a row holds is not known before; save() the rows and load() them"


def structure_text(structure: Structure) -> str:
    """What elements look like, in few words."""
    return "one row of tokens" if structure.kind is None else str(structure)


@opens(Pack, own=ConcatMark)
def open_packed(node: Pack, ctx: Context, at: At) -> Stream:
    """Rows as documents come, or a window of documents at a time."""
    return ConcatStream(node, ctx, at) if node.strategy == "concat" else FitStream(node, ctx, at)
