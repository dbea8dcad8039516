"""What `pack` means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from headrace.errors import ElementError, SpecError
from headrace.ops.pack import Pack
from headrace.reference.base import Place, Row, fold_id, parts_of, rows

Cells = list[dict[str, Any]]
"""What the cells of one group hold, field by field."""


@dataclass
class Piece:
    """A part of a document, from a cell on: its cells in each group, and its items if it is the first part."""

    number: int
    first: int
    cells: list[Cells]
    id: tuple[int, int]
    items: dict[str, Any]

    @property
    def sizes(self) -> list[int]:
        """How many cells it takes in each group."""
        return [len(cells) for cells in self.cells]


@rows.register
def _(node: Pack, at: Place) -> Iterator[Row]:
    return _concatenated(node, at) if node.strategy == "concat" else _fitted(node, at)


def _document(node: Pack, number: int, row: Row) -> Piece | ElementError:
    """A document in one piece."""
    if isinstance(row.value, ElementError):
        return row.value
    structure, leaves = parts_of(row.value)
    made: list[Cells] = []
    fits = structure == node.structure and all(item.fits(leaves[item.leaf]) for item in node.items)
    for group in node.groups if fits else ():
        parts = {field.name: leaves[field.leaf] for field in group.fields}
        fits = fits and all(field.fits(leaves[field.leaf]) for field in group.fields)
        if not fits or len({len(part) for part in parts.values()}) > 1:
            fits = False
            break
        cells = [dict(zip(parts, each, strict=True)) for each in zip(*parts.values(), strict=True)]
        if group.separated:
            cells.append({field.name: field.separator for field in group.fields})
        made.append(cells)
        fits = len(node.groups) == 1 or len(cells) <= group.length
        if not fits:
            break
    if not fits:
        return node.error(SpecError(node.refusal_of(structure, leaves)), number)
    return Piece(number, 0, made, row.id, {item.name: leaves[item.leaf] for item in node.items})


def _split(piece: Piece, sizes: list[int]) -> list[Piece]:
    """A document of one group in parts of these sizes."""
    parts, first = [], 0
    for size in sizes:
        cells = [piece.cells[0][first : first + size]]
        parts.append(Piece(piece.number, first, cells, piece.id, piece.items if first == 0 else {}))
        first += size
    return parts


def _fitted(node: Pack, at: Place) -> Iterator[Row]:
    documents = enumerate(rows(node.input, at))
    lengths = [group.length for group in node.groups]
    while window := list(islice(documents, node.lookahead)):
        pieces: list[Piece] = []
        for number, row in window:
            found = _document(node, number, row)
            if isinstance(found, ElementError):
                yield Row(row.id, found)
            elif len(lengths) == 1:
                pieces += _split(found, [lengths[0]] * -(-found.sizes[0] // lengths[0]))
            elif any(found.sizes):
                pieces.append(found)
        bins: list[list[Piece]] = []
        for piece in sorted(pieces, key=lambda p: -max(a / b for a, b in zip(p.sizes, lengths, strict=True))):
            _choose(node, bins, piece).append(piece)
        for parts in sorted((sorted(b, key=_place) for b in bins), key=lambda parts: _place(parts[0])):
            yield _packed(node, parts)


def _place(piece: Piece) -> tuple[int, int]:
    return piece.number, piece.first


def _choose(node: Pack, bins: list[list[Piece]], piece: Piece) -> list[Piece]:
    """The bin that a piece goes into."""
    found: list[tuple[float, list[Piece]]] = []
    for parts in bins:
        room = [group.length - sum(p.sizes[g] for p in parts) for g, group in enumerate(node.groups)]
        if len(parts) == node.options.max_documents or any(a > b for a, b in zip(piece.sizes, room, strict=True)):
            continue
        found.append((sum(a / group.length for a, group in zip(room, node.groups, strict=True)), parts))
    if not found:
        bins.append([])
        return bins[-1]
    return min(found, key=lambda pair: pair[0])[1] if node.strategy == "best_fit" else found[0][1]


def _concatenated(node: Pack, at: Place) -> Iterator[Row]:
    pending: list[Piece] = []
    length = room = node.groups[0].length
    for number, row in enumerate(rows(node.input, at)):
        found = _document(node, number, row)
        if isinstance(found, ElementError):
            yield Row(row.id, found)
            continue
        sizes, left = [], found.sizes[0]
        while left:
            sizes.append(min(left, room))
            left -= sizes[-1]
            room = room - sizes[-1] or length
        for part in _split(found, sizes):
            pending.append(part)
            if sum(p.sizes[0] for p in pending) == length:
                yield _packed(node, pending)
                pending = []
    if pending:
        yield _packed(node, pending)


def _packed(node: Pack, pieces: list[Piece]) -> Row:
    made: dict[str, Any] = {}
    for g, group in enumerate(node.groups):
        length, prefix = group.length, group.prefix
        for field in group.fields:
            made[field.name] = np.full((length, *field.width), field.pad, field.dtype)
        places = {name: np.zeros(length, np.int32) for name in ("segments", "positions")}
        places["documents"] = np.full(length, -1)
        cell, ends = 0, [0]
        for segment, piece in enumerate(pieces, 1):
            for position, values in enumerate(piece.cells[g]):
                for name, value in values.items():
                    made[name][cell] = value
                for name, value in zip(places, (segment, position, piece.number), strict=True):
                    places[name][cell] = value
                cell += 1
            ends.append(cell)
        wanted = ["segments", *(["positions"] if "positions" not in made else [])]
        wanted += ["documents"] if node.options.documents else []
        made |= {f"{prefix}{name}": places[name] for name in wanted}
        if node.options.cu_seqlens:
            ends += [length] if cell < length else []
            if node.options.max_documents is not None:
                ends += [length] * (node.options.max_documents + 2 - len(ends))
            made[f"{prefix}cu_seqlens"] = np.array(ends, np.int32)
            made[f"{prefix}max_seqlen"] = np.int32(max(b - a for a, b in pairwise(ends)))
    for item in node.items:
        found = [(s, p.items[item.name]) for s, p in enumerate(pieces, 1) if item.name in p.items]
        made[item.name] = item.joined([value for _, value in found])
        sizes = [s for s, value in found for _ in range(1 if item.single else len(value))]
        made[f"{item.name}_segments"] = np.array(sizes, np.int32)
    first = pieces[0]
    return Row((fold_id((first.id[0], 0), first.id[1])[0], first.first), made)
