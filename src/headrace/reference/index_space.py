"""What the operations mean that deal elements out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from headrace.core.keys import mix_key
from headrace.distribute.distribute import FILLED, Distribute
from headrace.errors import ElementError
from headrace.ops.choose import Choose
from headrace.ops.mix import Mix, MixChoices
from headrace.ops.shared.mix_history import UNIT, halved
from headrace.ops.shared.row_sizes import checked_size, leaf_number, size_of_component
from headrace.reference.base import Place, Row, call, draw, fold_id, pair, parts_of, private_copy, rows
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
    if node.counts:
        return _counted(node, at)
    return rows(Choose(node.branches, node.places, True, "mix", site=node.site), at)


def _counted(node: Mix, at: Place) -> Iterator[Row]:
    inputs = [rows(n, at.branch(p) if p else at) for n, p in zip(node.branches, node.places, strict=True)]
    *sources, choices = inputs
    names, history, last = node.choices.names, node.choices.history, node.places[-1]
    seed = node.choices.seed.key((at.branch(last) if last else at).path)
    came, tokens, charged = ([0] * len(names) for _ in range(3))
    for number in count():
        index = max(i for i, segment in enumerate(history.segments) if segment.start <= number)
        segment = history.segments[index]
        if number == segment.start:
            charged = [0] * len(names)
        if node.unit == "rows":
            branch = int(next(choices).value)
        else:
            key = mix_key(seed, history.forgotten + index)
            turns = []
            for i, (name, weight) in enumerate(zip(segment.names, segment.weights, strict=True)):
                b = names.index(name)
                draw = (mix_key(key, i, came[b]) >> 11) / 2**53
                if weight:
                    turns.append(((charged[b] + draw * (tokens[b] / max(1, came[b]))) / weight, draw, i))
            branch = names.index(segment.names[min(turns)[2]])
        row = next(sources[branch], None)
        if row is None:
            return
        size = 0
        value = row.value
        if not isinstance(value, ElementError):
            try:
                if node.length_func is not None:
                    found = call(node.length_func, private_copy(value))
                else:
                    structure, leaves = parts_of(value)
                    found = size_of_component(leaves[leaf_number("mix", structure, node.key)])
                size = int(checked_size(found, "iu"))
            except Exception as error:
                value = node.error(error, number)
        came[branch] += 1
        tokens[branch] += size
        charged[branch] += max(1, size)
        yield Row(fold_id(row.id, branch + 1), value)


@rows.register
def _(node: MixChoices, at: Place) -> Iterator[Row]:
    history = node.history
    number = history.segments[0].start
    stops = [segment.start for segment in history.segments[1:]]
    for place, segment in enumerate(history.segments):
        key = mix_key(node.seed.key(at.path), history.forgotten + place)
        shares = halved(segment.weights).tolist()
        stop = stops[place] if place < len(stops) else None
        while stop is None or number < stop:
            first = number - segment.start
            block = [_branch(shares, first + i) for i in range(256)]
            for i in range(255, 0, -1):
                j = draw(key, first + i, i + 1)
                block[i], block[j] = block[j], block[i]
            for branch in block if stop is None else block[: stop - number]:
                yield Row((at.path, number), np.int64(node.names.index(segment.names[branch])))
                number += 1


def _branch(shares: list[int], n: int) -> int:
    """Return the branch of the n-th row before rows are permuted."""
    first, stop = 0, len(shares)
    while stop - first > 1:
        middle = first + (stop - first) // 2
        left = (n * shares[middle] + UNIT // 2) // UNIT
        if ((n + 1) * shares[middle] + UNIT // 2) // UNIT > left:
            stop, n = middle, left
        else:
            first, n = middle, n - left
    return first
