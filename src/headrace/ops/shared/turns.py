"""The layout of interleaved datasets: which dataset, and which of its rows, by the row's number."""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np

from headrace.columns import Indices


class Turns:
    """Datasets of these lengths, `cycle` of them at a time, `block` rows in each turn.

    A dataset stays in its slot for as many rounds as it fills with rows, and one in which it ends. Between two rounds
    in which a dataset starts or ends, all rounds are alike: only such stretches are stored. `children_drop_rows` says
    whether one of them may yield failures that have no number.

    >>> Turns(np.array([3, 1]), cycle=2, block=2).find(np.arange(4))
    (array([0, 0, 1, 0]), array([0, 1, 0, 2]))
    """

    def __init__(self, lengths: Indices, cycle: int, block: int, *, children_drop_rows: bool = False) -> None:
        self._block = block
        self.children_drop_rows = children_drop_rows
        self.rows: int = int(lengths.sum())
        full, rest = np.divmod(lengths, block)
        self._begin, slots = _seats(full, cycle)
        last = self._begin + full
        rounds = np.unique(np.concatenate([self._begin, last, last + 1]))
        stretch, child = _pairs(np.searchsorted(rounds, self._begin), np.searchsorted(rounds, last))
        some = np.flatnonzero(rest)
        stretch = np.concatenate([stretch, np.searchsorted(rounds, last[some])])
        child = np.concatenate([child, some])
        given = np.concatenate([np.full(len(child) - len(some), block, np.int64), rest[some]])
        order = np.lexsort((slots[child], stretch))
        self._child, given = child[order], given[order]
        self._cells = np.cumsum(given) - given
        which, first = np.unique(stretch[order], return_index=True)
        self._first_cell = self._cells[first]
        self._each = np.diff([*self._first_cell, given.sum()])
        self._round = rounds[which]
        held = self._each * (rounds[which + 1] - self._round) if len(which) else self._each
        self._starts = np.cumsum(held) - held

    def find(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the dataset of each of these rows, and which of its rows it is."""
        stretch = np.searchsorted(self._starts, indices, side="right") - 1
        rounds, within = np.divmod(indices - self._starts[stretch], self._each[stretch])
        cell = self._first_cell[stretch] + within
        place = np.searchsorted(self._cells, cell, side="right") - 1
        child = self._child[place]
        turn = self._round[stretch] + rounds - self._begin[child]
        return child, turn * self._block + cell - self._cells[place]


def _seats(full: Indices, cycle: int) -> tuple[Indices, Indices]:
    """In which round and in which slot each dataset begins: the first slot that is free."""
    free = [(0, slot) for slot in range(cycle)]
    heapify(free)
    seats = np.empty((len(full), 2), np.int64)
    for i, rounds in enumerate(full.tolist()):
        at, slot = seats[i] = free[0]
        heapreplace(free, (at + rounds + 1, slot))
    return seats[:, 0], seats[:, 1]


def _pairs(first: Indices, stop: Indices) -> tuple[Indices, Indices]:
    """Return all numbers from `first` to before `stop`, each with the number of the range it is in."""
    sizes = stop - first
    which = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(which)) - (np.cumsum(sizes) - sizes - first)[which], which
