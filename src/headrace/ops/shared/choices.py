"""Map choices to rows of inputs, if inputs may end before the choices do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headrace.columns import Indices

CHOICES_PER_CHUNK = 1 << 16
"""How many choices are processed together. A row is stored as its input, and the row of that input in the chunk."""
Read = Callable[[int, int], Indices]
"""The choices from one number to before another; fewer at the end."""


class Choices:
    """Rows of inputs of these lengths, chosen one by one. Choices are processed lazily.

    A choice whose input has ended gives no row, or ends the dataset if `stop_on_empty`.

    >>> choices = Choices([1, 3], stop_on_empty=False)
    >>> chosen = lambda start, stop: np.array([0, 1, 0, 1, 1])[start:stop]
    >>> choices.count(chosen), choices.find(np.arange(4), chosen)
    (4, (array([0, 1, 1, 1]), array([0, 0, 1, 2])))
    """

    def __init__(self, lengths: Sequence[int], *, stop_on_empty: bool) -> None:
        self._lengths = np.array(lengths, np.int64)
        self._stop_on_empty = stop_on_empty
        self._kind = np.min_scalar_type(len(lengths))
        self._taken = np.zeros(len(lengths), np.int64)
        self._seen = self._rows = 0
        self._over = False
        self._starts: list[int] = []
        self._bases: list[Indices] = []
        self._chunks: list[tuple[np.ndarray, np.ndarray]] = []

    def count(self, read: Read) -> int:
        """Return how many rows there are."""
        while not self._over:
            self._look(read)
        return self._rows

    def find(self, indices: Indices, read: Read) -> tuple[Indices, Indices]:
        """Return the input of each of these rows, and which of its rows it is."""
        last = int(indices.max(initial=-1))
        while self._rows <= last and not self._over:
            self._look(read)
        which, row = np.empty((2, len(indices)), np.int64)
        chunk_of = np.searchsorted(np.array(self._starts), indices, side="right") - 1
        for chunk in np.unique(chunk_of).tolist():
            within = np.flatnonzero(chunk_of == chunk)
            place = indices[within] - self._starts[chunk]
            inputs, ranks = self._chunks[chunk]
            which[within] = chosen = inputs[place].astype(np.int64)
            row[within] = self._bases[chunk][chosen] + ranks[place]
        return which, row

    def _look(self, read: Read) -> None:
        """Process the next choices."""
        numbers = read(self._seen, self._seen + CHOICES_PER_CHUNK)
        wrong = np.flatnonzero((numbers < 0) | (numbers >= len(self._lengths)))
        if len(wrong):
            raise IndexError(f"choice {numbers[wrong[0]]} of {len(self._lengths)} datasets")
        self._seen += len(numbers)
        counts = np.bincount(numbers, minlength=len(self._lengths))
        order = np.argsort(numbers, kind="stable")
        ranks = np.empty(len(numbers), np.int64)
        ranks[order] = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
        good = self._taken[numbers] + ranks < self._lengths[numbers]
        stops = self._stop_on_empty and not good.all()
        if stops:
            good[np.argmin(good) :] = False
        self._starts.append(self._rows)
        self._bases.append(self._taken)
        self._chunks.append((numbers[good].astype(self._kind), ranks[good].astype(np.uint16)))
        self._rows += int(good.sum())
        self._taken = np.minimum(self._taken + counts, self._lengths)
        self._over = bool(stops or len(numbers) < CHOICES_PER_CHUNK or (self._taken == self._lengths).all())
