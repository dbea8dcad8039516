"""A kind of column of another package: token rows of one length with a loss mask, four bytes and a bit a token.

A row is an int32 array of shape (2, length): the tokens, and 1 where the loss counts. Only `headrace.extend` is used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import headrace as hr
from headrace import extend


class TokenRows:
    """A column: `tokens` of shape (rows, length), and their masks as bits."""

    def __init__(self, tokens: np.ndarray, bits: np.ndarray) -> None:
        self.tokens, self.bits = tokens, bits

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: slice) -> "TokenRows":
        return TokenRows(self.tokens[rows], self.bits[rows])

    def dense(self) -> np.ndarray:
        mask = np.unpackbits(self.bits, axis=1, count=self.tokens.shape[1])
        return np.stack([self.tokens, mask.astype(np.int32)], axis=1)


class TokenKind(extend.Kind):
    """What can be done with TokenRows; a batch of them is an array."""

    name = "tests.tokens"

    def values(self, column: TokenRows) -> Iterator[Any]:
        return iter(column.dense())

    def take(self, column: TokenRows, indices: extend.Indices) -> TokenRows:
        return TokenRows(column.tokens[indices], column.bits[indices])

    def join(self, columns: Sequence[TokenRows]) -> TokenRows | None:
        if len({column.tokens.shape[1] for column in columns}) > 1:
            return None
        return TokenRows(
            np.concatenate([column.tokens for column in columns]), np.concatenate([column.bits for column in columns])
        )

    def stack(self, column: TokenRows, size: int, path: str) -> np.ndarray:
        dense = column.dense()
        return dense.reshape(-1, size, *dense.shape[1:])

    def nbytes(self, column: TokenRows) -> int:
        return column.tokens.nbytes + column.bits.nbytes

    def spec(self, column: TokenRows) -> hr.TensorSpec:
        return hr.TensorSpec((2, column.tokens.shape[1]), np.int32)

    def to_arrow(self, column: TokenRows) -> tuple[Any, extend.Notes]:
        import pyarrow as pa

        parts = [np.ascontiguousarray(part) for part in (column.tokens, column.bits)]
        arrays = [pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), part.shape[1]) for part in parts]
        return pa.StructArray.from_arrays(arrays, ["tokens", "bits"]), {"kind": self.name}

    def from_arrow(self, array: Any, notes: extend.Notes) -> TokenRows:
        tokens, bits = array.flatten()
        parts = [each.flatten().to_numpy().reshape(len(array), -1) for each in (tokens, bits)]
        return TokenRows(*parts)


extend.register_kind(TokenKind(), TokenRows)


def from_token_rows(tokens: Any, mask: Any) -> hr.Dataset:
    """Return a dataset of these rows of tokens with their loss masks."""
    bits = np.packbits(np.asarray(mask, bool), axis=1)
    return extend.add_source(FromTokenRows, TokenRows(np.asarray(tokens, np.int32), bits))


@dataclass(frozen=True, eq=False)
class FromTokenRows(extend.Numbered):
    """The rows of a TokenRows."""

    column: TokenRows

    @property
    def operation(self) -> str:
        return "from_token_rows"

    @property
    def spec(self) -> extend.Spec:
        return extend.Spec.of_signature(TokenKind().spec(self.column))

    @property
    def cardinality(self) -> extend.Cardinality:
        return extend.Cardinality(len(self.column))


@extend.opens(FromTokenRows)
def open_token_rows(node: FromTokenRows, ctx: extend.Context, at: extend.At) -> extend.Stream:
    def read(start: int, stop: int) -> extend.Block:
        return extend.Block(extend.LEAF, [node.column[start:stop]], stop - start, ids=ctx.ids_between(start, stop))

    return extend.NumberedStream(node, read)


@extend.fetches(FromTokenRows)
def fetch_token_rows(node: FromTokenRows, ctx: extend.Context, indices: extend.Indices) -> extend.Block:
    rows = TokenKind().take(node.column, indices)
    return extend.Block(extend.LEAF, [rows], len(indices), ids=ctx.ids(indices))


@extend.means(FromTokenRows)
def each_token_row(node: FromTokenRows, at: extend.Place) -> Iterator[extend.Row]:
    for number, value in enumerate(node.column.dense()):
        yield extend.Row((at.path, number), value)
