"""What the operations mean that deal elements out and pack them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from headrace.errors import ElementError, SpecError
from headrace.keys import mix_key
from headrace.ops.choose import Choose
from headrace.ops.distribute import FILLED, Distribute
from headrace.ops.mix import UNIT, Mix, MixChoices, halved
from headrace.ops.pack import Pack
from headrace.plan.spec import leaf_spec
from headrace.reference.base import Place, Row, draw, fold_id, pair, parts_of, rows
from headrace.reference.batch import stack_elements


@rows.register
def _(node: Distribute, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, at))
    for number, first in enumerate(range(0, len(everything), node.together)):
        places = range(first + node.rank * node.share, first + (node.rank + 1) * node.share)
        short = first + node.together > len(everything)
        if short and node.uneven == "drop":
            return at.drop(everything[first:])
        real = [place < len(everything) for place in places]
        mine = []
        for place in places:
            filling = first if node.uneven == "pad" else (place - len(everything)) % len(everything)
            mine.append(everything[place if place < len(everything) else filling])
        failed = next((row.value for row in mine if isinstance(row.value, ElementError)), None)
        made, mask, known = mine[0].value, np.array(real)[0], mine[0].id
        if node.batch_size is not None:
            made, mask = failed or stack_elements(node, [row.value for row in mine], number), np.array(real)
            known = fold_id(known, 3)
        if node.uneven == "pad" and not isinstance(made, ElementError):
            made = pair(made, mask)
        yield Row(fold_id(known, FILLED) if short else known, made)


@rows.register
def _(node: Mix, at: Place) -> Iterator[Row]:
    return rows(Choose(node.branches, node.places, True, "mix", site=node.site), at)


@rows.register
def _(node: MixChoices, at: Place) -> Iterator[Row]:
    number = 0
    stops = [start for start, _ in node.segments[1:]]
    for segment, (start, weights) in enumerate(node.segments):
        key = mix_key(node.seed.key(at.path), segment)
        shares = halved(weights).tolist()
        stop = stops[segment] if segment < len(stops) else None
        while stop is None or number < stop:
            first = number - start
            block = [_branch(shares, first + i) for i in range(256)]
            for i in range(255, 0, -1):
                j = draw(key, first + i, i + 1)
                block[i], block[j] = block[j], block[i]
            for branch in block if stop is None else block[: stop - number]:
                yield Row((at.path, number), np.int64(branch))
                number += 1


def _branch(shares: list[int], n: int) -> int:
    """Whose the n-th row would be if rows did not change places."""
    first, stop = 0, len(shares)
    while stop - first > 1:
        middle = first + (stop - first) // 2
        left = (n * shares[middle] + UNIT // 2) // UNIT
        if ((n + 1) * shares[middle] + UNIT // 2) // UNIT > left:
            stop, n = middle, left
        else:
            first, n = middle, n - left
    return first


Piece = tuple[int, int, list[Any], tuple[int, int]]
"""The number of a document, where in it a part begins, the cells of that part, and the document's id."""


@rows.register
def _(node: Pack, at: Place) -> Iterator[Row]:
    return _first_fit(node, at) if node.strategy == "first_fit" else _concatenated(node, at)


def _document(node: Pack, number: int, row: Row) -> list[Any] | ElementError:
    """The cells of a document."""
    if isinstance(row.value, ElementError):
        return row.value
    _, leaves = parts_of(row.value)
    fits = len(leaves) == 1 and isinstance(leaves[0], np.ndarray) and leaves[0].ndim == 1
    if not fits or leaves[0].dtype != node.dtype or leaves[0] is not row.value:
        found = ", ".join(str(leaf_spec(leaf)) for leaf in leaves)
        why = f"a document is one row of {node.dtype} tokens, this element is {found}"
        return node.error(SpecError(why), number)
    return [*leaves[0], *([] if node.separator is None else [node.separator])]


def _first_fit(node: Pack, at: Place) -> Iterator[Row]:
    documents = enumerate(rows(node.input, at))
    while window := list(islice(documents, node.lookahead)):
        pieces: list[Piece] = []
        for number, row in window:
            cells = _document(node, number, row)
            if isinstance(cells, ElementError):
                yield Row(row.id, cells)
                continue
            firsts = range(0, len(cells), node.length)
            pieces += [(number, first, cells[first : first + node.length], row.id) for first in firsts]
        bins: list[list[Piece]] = []
        for piece in sorted(pieces, key=lambda p: -len(p[2])):
            room = (b for b in bins if sum(len(p[2]) for p in b) + len(piece[2]) <= node.length)
            found = next(room, None)
            if found is None:
                bins.append(found := [])
            found.append(piece)
        for parts in sorted(sorted(b, key=lambda p: p[:2]) for b in bins):
            yield _packed(node, parts)


def _concatenated(node: Pack, at: Place) -> Iterator[Row]:
    pending: list[Piece] = []
    room = node.length
    for number, row in enumerate(rows(node.input, at)):
        cells = _document(node, number, row)
        if isinstance(cells, ElementError):
            yield Row(row.id, cells)
            continue
        first = 0
        while first < len(cells):
            part = cells[first : first + room]
            pending.append((number, first, part, row.id))
            first += len(part)
            room -= len(part)
            if room == 0:
                yield _packed(node, pending)
                pending, room = [], node.length
    if pending:
        yield _packed(node, pending)


def _packed(node: Pack, pieces: list[Piece]) -> Row:
    made = {"tokens": np.zeros(node.length, node.dtype), "documents": np.full(node.length, -1)}
    made |= {name: np.zeros(node.length, np.int32) for name in ("segments", "positions")}
    at = 0
    for segment, (number, _, cells, _) in enumerate(pieces, 1):
        for position, token in enumerate(cells):
            for name, value in zip(made, (token, number, segment, position), strict=True):
                made[name][at] = value
            at += 1
    if not node.documents:
        del made["documents"]
    _, first, _, (path, number) = pieces[0]
    return Row((fold_id((path, 0), number)[0], first), made)
