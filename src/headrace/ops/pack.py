"""Token sequences of many lengths in rows of one, for language models."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.block import Block
from headrace.columns import Indices, values
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Stream
from headrace.ops.arguments import one_of, positive
from headrace.ops.packing import ConcatMark, ConcatStream, FirstFitStream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Divides, Node
from headrace.plan.spec import Spec, TensorSpec, leaf_spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Strategy = Literal["concat", "first_fit"]
"""How sequences become rows."""


def pack(
    self: Dataset,
    length: int,
    strategy: Strategy = "concat",
    separator: int | None = None,
    *,
    lookahead: int = 1024,
    documents: bool = False,
    name: str | None = None,
) -> Dataset:
    """Put token sequences, one an element, into rows of `length`: dicts of tokens, segments and positions.

    Tokens with the same segment, from 1 on, are of one document; 0 is padding. Positions count from 0 in each segment.
    A `separator` is put behind each document and belongs to it. With `documents=True` each token knows the number of
    its document, -1 where there is none.

    "concat" cuts rows out of all documents one behind the other: full, but for the last, and documents may go on in the
    next row. "first_fit" keeps documents whole, unless they are longer than a row: of every `lookahead` documents the
    longest come first, each in the first row that has room, and rows in the order of their first documents. More
    documents to look at fill rows better, and are read again on a resume. `it.stats()` tells how full rows are.

    >>> docs = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([np.arange(n) + 10 * n for n in (1, 2, 3, 4)]))
    >>> for row in docs.pack(6, "first_fit"):
    ...     print(row["tokens"], row["segments"], row["positions"])
    [10 30 31 32  0  0] [1 2 2 2 0 0] [0 0 1 2 0 0]
    [20 21 40 41 42 43] [1 1 2 2 2 2] [0 1 0 1 2 3]
    >>> [row["tokens"].tolist() for row in docs.pack(6, separator=0)]
    [[10, 0, 20, 21, 0, 30], [31, 32, 0, 40, 41, 42], [43, 0, 0, 0, 0, 0]]
    """
    one_of("strategy", strategy, Strategy)
    size, ahead = positive("length", length), positive("lookahead", lookahead)
    dtype = _token_dtype(self._node.spec)
    if separator is not None and np.asarray(separator).astype(dtype) != separator:
        raise ValueError(f"pack: the separator {separator!r} is no {dtype}")
    window = ahead if strategy == "first_fit" else None
    return self._then(Pack, size, strategy, separator, bool(documents), dtype, window, name=name)


def _token_dtype(spec: Spec) -> np.dtype[Any]:
    leaf = spec.leaves[0] if spec.structure is not None and len(spec.leaves) == 1 else None
    if spec.structure is not None and (spec.structure.kind is not None or leaf is None or leaf.rank not in (1, None)):
        raise SpecError(f"pack takes one row of tokens an element, not {spec}: map it to the tokens first")
    dtype = None if leaf is None else leaf.dtype
    if dtype is None:
        raise SpecError(
            "pack must know the dtype of the tokens, which the operation before it does not tell: give it "
            "output_signature=hr.TensorSpec((None,), np.int32)"
        )
    if dtype.kind not in "iufb":
        raise SpecError(f"pack takes numbers as tokens, not {spec}")
    return dtype


@dataclass(frozen=True, eq=False)
class Pack(Node):
    """Rows of `length` cells."""

    input: Node
    length: int
    strategy: Strategy
    separator: int | None
    documents: bool
    dtype: np.dtype[Any] = field(repr=False)
    window: int | None = None

    divides = Divides.SHARES

    @cached_property
    def spec(self) -> Spec:
        row = (self.length,)
        known = {
            "tokens": TensorSpec(row, self.dtype),
            "segments": TensorSpec(row, np.int32),
            "positions": TensorSpec(row, np.int32),
        }
        more = {"documents": TensorSpec(row, np.int64)} if self.documents else {}
        return Spec.of_signature({**known, **more})

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality if self.input.cardinality == 0 else self.input.cardinality.vague

    @property
    def lookahead(self) -> int:
        """How many documents are looked at together."""
        return self.window or 1

    @property
    def separator_bytes(self) -> NDArray[np.uint8]:
        """The separator as it stands in a row; nothing where there is none."""
        given = [] if self.separator is None else [self.separator]
        return np.array(given, self.dtype).view(np.uint8)

    def units(self, lengths: Indices) -> Indices:
        """How many cells documents take, with what stands behind them."""
        return lengths if self.separator is None else lengths + 1

    def refusal(self, row: Block) -> str:
        """Why a row is no document."""
        found = ", ".join(str(leaf_spec(next(values(column)))) for column in row.columns)
        return f"a document is one row of {self.dtype} tokens, this element is {found}"

    def index_remedy(self) -> str:
        return "how many documents a row holds is not known before; save() the rows and load() them"


@opens(Pack, own=ConcatMark)
def open_packed(node: Pack, ctx: Context, at: At) -> Stream:
    """Rows as documents come, or a window of documents at a time."""
    return FirstFitStream(node, ctx, at) if node.strategy == "first_fit" else ConcatStream(node, ctx, at)
