"""Rows dealt to bins of the same number of rows, so that the costs of the bins are nearly equal."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Indices

Costs = NDArray[np.float64]

CLOSE_ENOUGH = 1.001
"""Rows are exchanged until the most expensive bin costs no more than this times the mean."""
MAX_EXCHANGES_PER_BIN = 2
CHEAP_BINS = 16
"""With how many bins the most expensive one is compared for an exchange."""


def dealt(costs: Costs, world_size: int, share: int) -> Indices:
    """The order in which rows go to processes, `share` to each, step by step, at costs that are nearly equal.

    The longest-processing-time rule makes bins of `share` rows, exchanges of rows even them out, and bins of similar
    costs make up a step. The last rows, too few for a step, stay where they are.

    Args:
        costs: What each row costs, at least 0.
        world_size: How many processes there are.
        share: How many rows of a step go to each.

    Returns:
        The numbers of the rows: those of the first step, process by process, then those of the next.
    """
    bins = len(costs) // (world_size * share) * world_size
    whole = bins * share
    if bins < 2:
        return np.arange(len(costs))
    bin_of = longest_first(costs[:whole], bins, share)
    even_out(costs[:whole], bin_of, bins)
    totals = np.bincount(bin_of, costs[:whole], bins)
    first = np.full(bins, whole)
    np.minimum.at(first, bin_of, np.arange(whole))
    steps = np.argsort(-totals, kind="stable").reshape(-1, world_size)  # similar costs in one step
    steps = np.array([sorted(step, key=first.__getitem__) for step in steps.tolist()])
    ranked = steps[np.argsort(first[steps].min(1), kind="stable")].ravel()
    place = np.empty(bins, np.int64)
    place[ranked] = np.arange(bins)
    order = np.argsort(place[bin_of], kind="stable")
    return np.concatenate([order, np.arange(whole, len(costs))])


def longest_first(costs: Costs, bins: int, share: int) -> Indices:
    """The most expensive rows first, each into the cheapest bin that has room."""
    open_bins = [(0.0, number) for number in range(bins)]
    room = [share] * bins
    made = np.empty(len(costs), np.int64)
    given = costs.tolist()
    for row in np.argsort(-costs, kind="stable").tolist():
        total, number = open_bins[0]
        made[row] = number
        room[number] -= 1
        if room[number]:
            heapq.heapreplace(open_bins, (total + given[row], number))
        else:
            heapq.heappop(open_bins)
    return made


def even_out(costs: Costs, bin_of: Indices, bins: int) -> None:
    """Exchange rows of the most expensive bin for others of cheap ones, while that helps; `bin_of` is changed."""
    rows = np.argsort(bin_of, kind="stable").reshape(bins, -1)
    table = costs[rows]
    totals = table.sum(1)
    enough = CLOSE_ENOUGH * totals.mean()
    for _ in range(MAX_EXCHANGES_PER_BIN * bins):
        worst = int(np.argmax(totals))
        if totals[worst] <= enough:
            break
        cheap = np.argsort(totals, kind="stable")[:CHEAP_BINS]
        moved = table[worst][:, None, None] - table[cheap][None]
        after = np.maximum(totals[worst] - moved, totals[cheap][None, :, None] + moved)
        mine, other, its = np.unravel_index(int(np.argmin(after)), after.shape)
        partner = int(cheap[other])
        if partner == worst or after[mine, other, its] >= totals[worst]:
            break
        for both in (rows, table):
            both[worst, mine], both[partner, its] = both[partner, its], both[worst, mine]
        totals[worst], totals[partner] = table[worst].sum(), table[partner].sum()
    bin_of[rows] = np.arange(bins)[:, None]
