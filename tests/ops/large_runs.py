"""Pipelines of large runs, and a process that goes on with their states: reads jobs, writes what is left of each."""

import json
import sys

import numpy as np

import headrace as hr

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")


def documents(n=90):
    return D.range(n).map(lambda i: np.arange(i * 7 % 23) + 100 * i, output_signature=TOKENS)


def fields(n=90):
    return documents(n).map(lambda t: {"x": t, "y": -t}, output_signature={"x": TOKENS, "y": TOKENS})


def mixed(how):
    parts = {"a": documents(17), "b": documents(40)}
    if how == "tokens":
        return hr.mix(parts, {"a": 2, "b": 1}, seed=3, schedule={50: [1, 3]}, unit="tokens")
    if how == "streamed":
        parts = {name: ds.filter(lambda t: len(t) != 3) for name, ds in parts.items()}
    return hr.mix(parts, {"a": 2, "b": 1}, seed=3, schedule={50: [1, 3]})


PIPELINES = {
    "concat": lambda: documents().pack(16, separator=1),
    "best fit": lambda: fields().pack(32, "best_fit", lookahead=11, cu_seqlens=True, max_documents=4),
    "pairs": lambda: fields().pack({"x": 32, "y": 40}, "first_fit", lookahead=11),
    "chunk": lambda: documents().chunk(5, 2),
    "token budget": lambda: documents().batch_by_tokens(60, sort_window=24, group=6, pad_to_multiple_of=4),
    "mixture": lambda: mixed("by number").take(110),
    "mixture by tokens": lambda: mixed("tokens").take(110),
    "mixture by tokens, packed": lambda: mixed("tokens").pack(32, "best_fit", separator=1, lookahead=9).take(40),
    "chunks of a mixture within a budget": lambda: mixed("tokens").chunk(9, 1).take(240).batch_by_tokens(32, group=6),
    "streamed mixture": lambda: mixed("streamed").pack(32, "first_fit", lookahead=9).take(40),
}


def plain(element):
    """An element as JSON holds it."""
    if isinstance(element, dict):
        return {name: plain(value) for name, value in element.items()}
    return element.tolist()


def rest(name, world_size, state):
    """What all processes of a run together give from a state on, in order."""
    its = [PIPELINES[name]().distribute(rank, world_size).iterator(state=state) for rank in range(world_size)]
    return [plain(element) for step in zip(*its, strict=True) for element in step]


if __name__ == "__main__":
    print(json.dumps([rest(*job) for job in json.loads(sys.stdin.read())]))
