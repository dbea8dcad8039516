"""Data for large training runs: packing, token budgets, balanced ranks and tokenising, against Grain and `tokenizers`.

Documents have log-normal lengths: mean 600, sigma 1, cut at 2,048. All sides take turns in one run.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, Share, main

import headrace as hr
from headrace.distribute.even_costs import dealt

D = hr.Dataset
LENGTH, LOOKAHEAD, DOCUMENTS = 2_048, 1_024, 10_000
BUDGET, RANKS, SHARE, WINDOW = 16_384, 64, 8, 4
LINES = 20_000


@cache
def lengths(count: int = DOCUMENTS) -> Any:
    drawn = np.random.default_rng(0).lognormal(np.log(600) - 0.5, 1, count)
    return np.clip(drawn.astype(int), 1, LENGTH)


@cache
def documents() -> hr.Ragged:
    sizes = lengths()
    tokens = np.random.default_rng(1).integers(1, 50_000, sizes.sum(), np.int32)
    return hr.Ragged(tokens, np.concatenate([[0], np.cumsum(sizes)]))


def packed() -> Any:
    return D.from_tensor_slices(documents()).pack(LENGTH, "best_fit", lookahead=LOOKAHEAD)


def packed_by_grain() -> Any:
    import grain.python as grain
    from grain import experimental

    rows = [{"tokens": row} for row in documents()]
    source = grain.MapDataset.source(rows).to_iter_dataset()
    return experimental.BestFitPackIterDataset(source, length_struct={"tokens": LENGTH}, num_packing_bins=LOOKAHEAD)


def rows_of(rows: Any) -> int:
    return sum(1 for _ in rows)


def rows_per_second(make: Any) -> float:
    """How many packed rows a second, without the time it takes to make the dataset."""
    rows = make()
    started = perf_counter()
    count = rows_of(rows)
    return count / (perf_counter() - started)


def fill(make: Any) -> float:
    return float(lengths().sum()) / (rows_of(make()) * LENGTH)


def padding_by_tokens() -> float:
    return _padding(D.from_tensor_slices(documents()).batch_by_tokens(BUDGET))


def padding_by_buckets() -> float:
    bounds = list(range(64, LENGTH + 1, 64))
    sizes = [max(1, BUDGET // bound) for bound in [*bounds, LENGTH + 64]]
    return _padding(D.from_tensor_slices(documents()).bucket_by_sequence_length(len, bounds, sizes))


def _padding(batches: Any) -> float:
    return 1 - float(lengths().sum()) / sum(batch.size for batch in batches)


def uneven_steps(rounds: int) -> list[float]:  # noqa: ARG001 - the same in every round
    """By how much the numbers of steps of eight ranks differ, and those of rows within a step."""
    ds = D.from_tensor_slices(documents()).batch_by_tokens(BUDGET, group=8, drop_remainder=True)
    shares = [[len(batch) for batch in ds.distribute(rank, 8)] for rank in range(8)]
    steps = [len(share) for share in shares]
    rows = [max(step) - min(step) for step in zip(*shares, strict=False)]
    return [float(max(steps) - min(steps) + max(rows))]


def imbalance(rounds: int) -> list[float]:  # noqa: ARG001 - the same in every round
    """The most expensive rank of a step against the mean, over many windows."""
    rows = RANKS * SHARE * WINDOW
    costs = lengths(25 * rows).astype(np.float64) ** 2
    ratios = []
    for first in range(0, len(costs), rows):
        window = costs[first : first + rows]
        shares = window[dealt(window, RANKS, SHARE)].reshape(WINDOW, RANKS, SHARE).sum(2)
        ratios += (shares.max(1) / shares.mean(1)).tolist()
    return [float(np.mean(ratios))]


@cache
def library() -> Any:
    """A BPE tokenizer of 32,000 tokens, trained on synthetic words."""
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=32_000, show_progress=False)
    made.train_from_iterator(lines(), trainer)
    return made


@cache
def lines() -> list[str]:
    random = np.random.default_rng(0)
    syllables = ["".join(random.choice(list("abcdefghijklmnopqrstuvwxyz"), 3)) for _ in range(400)]
    words = ["".join(random.choice(syllables, random.integers(1, 4))) for _ in range(30_000)]
    ranks = np.minimum(random.zipf(1.3, (LINES, 100)), len(words)) - 1
    return [" ".join(words[rank] for rank in row) for row in ranks]


def tokens_per_second() -> float:
    library()
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    ds = D.from_tensor_slices(lines()).map(hr.text.tokenize(library()), num_parallel_calls=hr.AUTOTUNE)
    started = perf_counter()
    count = sum(len(tokens) for tokens in ds)
    return count / (perf_counter() - started)


def tokens_per_second_of_library() -> float:
    library()
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    started = perf_counter()
    count = sum(len(each.ids) for each in library().encode_batch(lines()))
    return count / (perf_counter() - started)


CASES: list[Case | Bound | Share] = [
    Share("best_fit, fill", 1.0, lambda: fill(packed), {"Grain, BestFit": lambda: fill(packed_by_grain)}),
    Share(
        "best_fit, rows/s",
        20,
        lambda: rows_per_second(packed),
        {"Grain, BestFit": lambda: rows_per_second(packed_by_grain)},
    ),
    Share(
        "token budget, useful share of padding",
        2,
        lambda: 1 / padding_by_tokens(),
        {"bucket_by_sequence_length": lambda: 1 / padding_by_buckets()},
    ),
    Bound("token budget, steps and rows of 8 ranks differ by", 0, "", uneven_steps),
    Bound("balance of 64 ranks x 8 rows, max/mean", 1.03, "x", imbalance),
    Share(
        "tokens/s",
        0.9,
        tokens_per_second,
        {"tokenizers' encode_batch": tokens_per_second_of_library},
    ),
]

if __name__ == "__main__":
    sys.exit(main("headrace: large runs", CASES, description=__doc__))
