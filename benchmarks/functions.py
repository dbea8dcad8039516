"""Users' functions: plain NumPy code that headrace traces and runs on whole blocks, against the peers' ways.

Every side computes the same numbers, or draws them alike. Speeds are ratios of sides that took turns in one run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, batches, elements, main
from peers import tensorflow, untuned

import headrace as hr
from headrace.trace.graph import Graph
from headrace.trace.tracing import trace

IMAGES = 60_000
BUFFER = 10_000
BATCH = 128
NUMBERS = 500_000
KEPT = 166_667
SINGLE = 100_000


@cache
def images() -> tuple[np.ndarray, np.ndarray]:
    """As many and as large as MNIST's."""
    random = np.random.default_rng(0)
    return random.integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8), random.integers(0, 10, IMAGES)


def scale(x: Any, y: Any) -> Any:
    return x.astype(np.float32) / 255, y


def ours() -> Any:
    return hr.Dataset.from_tensor_slices(images()).shuffle(BUFFER).map(scale).batch(BATCH)


def ours_ahead() -> Any:
    return ours().prefetch(hr.AUTOTUNE)


def tf_scale(x: Any, y: Any) -> Any:
    tf = tensorflow()
    return tf.cast(x, tf.float32) / 255, y


def tf_images() -> Any:
    return tensorflow().data.Dataset.from_tensor_slices(images()).shuffle(BUFFER)


def tf_each(calls: int | None = None) -> Any:
    return tf_images().map(tf_scale, num_parallel_calls=calls).batch(BATCH).prefetch(-1)


def tf_by_hand(calls: int | None = None) -> Any:
    return tf_images().batch(BATCH).map(tf_scale, num_parallel_calls=calls).prefetch(-1)


def torch_loader(**options: Any) -> Any:
    import torch
    from torch.utils.data import DataLoader, Dataset

    x, y = (torch.from_numpy(a) for a in images())

    class Scaled(Dataset):  # type: ignore[misc, type-arg]
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, i: int) -> Any:
            return x[i].float() / 255, y[i]

    return DataLoader(Scaled(), batch_size=BATCH, shuffle=True, **options)


class GrainRows:
    """What Grain reads from: rows by number."""

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, i: int) -> Any:
        x, y = images()
        return x[i], y[i]


def grain_loader() -> Any:
    import grain

    rows = grain.MapDataset.source(GrainRows()).shuffle(seed=1)
    return rows.map(lambda pair: scale(*pair)).batch(BATCH).to_iter_dataset()


def augment(x: Any, y: Any, rng: Any) -> Any:
    """Mirrored or not, and brighter or darker."""
    x = np.where(rng.bernoulli(0.5), x[:, ::-1], x)
    return x.astype(np.float32) / 255 + np.float32(rng.uniform(-0.2, 0.2)), y


def ours_augmented() -> Any:
    return hr.Dataset.from_tensor_slices(images()).random_map(augment, seed=1).batch(BATCH)


def tf_augment(rows: Any, number: Any) -> Any:
    """The same of one image or, with the images in front, of a batch of them."""
    tf = tensorflow()
    x, y = rows
    draws = tf.random.stateless_uniform(tf.concat([tf.shape(x)[:-2], [2]], 0), tf.stack([1, number]))
    mirrored, brighter = draws[..., :1, None] < 0.5, draws[..., 1:, None] * 0.4 - 0.2
    return tf.cast(tf.where(mirrored, tf.reverse(x, [-1]), x), tf.float32) / 255 + brighter, y


def tf_augmented(calls: int | None = None, *, by_hand: bool = False) -> Any:
    """Each element, or each batch, has its number as its seed."""
    rows = tfd().Dataset.from_tensor_slices(images())
    rows = (rows.batch(BATCH) if by_hand else rows).enumerate()
    made = rows.map(lambda number, row: tf_augment(row, number), num_parallel_calls=calls)
    return (made if by_hand else made.batch(BATCH)).prefetch(-1)


def tf_augmented_by_hand(calls: int | None = None) -> Any:
    return tf_augmented(calls, by_hand=True)


def third(x: Any) -> Any:
    return x % 3 == 0


def odd(x: Any) -> Any:
    return x * 2 + 1


def numbers(data: Any) -> Any:
    return data.Dataset.range(NUMBERS).filter(third).map(odd).batch(256)


def singles(data: Any) -> Any:
    return data.Dataset.range(SINGLE).map(odd)


def tfd() -> Any:
    return tensorflow().data


SPEED = [
    Case(
        "images, scaled one by one",
        asked={"tf.data": 30, "tf.data, batched manually": 6, "PyTorch": 8, "Grain": 8},
        rows=IMAGES,
        sides={
            "headrace": {"as written": batches(ours), "prefetch": batches(ours_ahead)},
            "tf.data": {
                "plain": batches(tf_each),
                "autotune off": batches(lambda: untuned(tf_each())),
                "parallel": batches(lambda: tf_each(-1)),
            },
            "tf.data, batched manually": {
                "plain": batches(tf_by_hand),
                "autotune off": batches(lambda: untuned(tf_by_hand())),
                "parallel": batches(lambda: tf_by_hand(-1)),
            },
            "PyTorch": {
                "no workers": batches(torch_loader),
                "2 workers": batches(lambda: torch_loader(num_workers=2, timeout=120)),
            },
            "Grain": {"as written": batches(grain_loader)},
        },
    ),
    Case(
        "images, mirrored and brightened at random",
        asked={},
        rows=IMAGES,
        sides={
            "headrace": {
                "as written": batches(ours_augmented),
                "prefetch": batches(lambda: ours_augmented().prefetch(hr.AUTOTUNE)),
            },
            "tf.data": {
                "plain": batches(tf_augmented),
                "autotune off": batches(lambda: untuned(tf_augmented())),
                "parallel": batches(lambda: tf_augmented(-1)),
            },
            "tf.data, batched manually": {
                "plain": batches(tf_augmented_by_hand),
                "autotune off": batches(lambda: untuned(tf_augmented_by_hand())),
                "parallel": batches(lambda: tf_augmented_by_hand(-1)),
            },
        },
    ),
    Case(
        "numbers, filtered and mapped",
        asked={"tf.data": 200},
        rows=KEPT,
        sides={
            "headrace": batches(lambda: numbers(hr)),
            "tf.data": {
                "plain": batches(lambda: numbers(tfd())),
                "autotune off": batches(lambda: untuned(numbers(tfd()))),
            },
        },
    ),
    Case(
        "numbers, mapped, one by one",
        asked={"tf.data": 50},
        rows=SINGLE,
        sides={
            "headrace": elements(lambda: singles(hr)),
            "tf.data": {
                "plain": elements(lambda: singles(tfd())),
                "as_numpy_iterator": elements(lambda: singles(tfd()), lambda ds: ds.as_numpy_iterator()),
                "autotune off": elements(lambda: untuned(singles(tfd()))),
            },
        },
    ),
]


def whitened(x: Any) -> Any:
    x = x.astype(np.float32)
    x /= 255
    x -= x.mean(axis=(0, 1), keepdims=True)
    x = np.clip(x / (x.std(axis=(0, 1), keepdims=True) + 1e-6), -3, 3)
    return np.pad(x[4:-4, 4:-4].transpose(2, 0, 1), ((0, 0), (2, 2), (2, 2)))


def tracing(fn: Callable[..., Any], spec: Any) -> Callable[[int], Sequence[float]]:
    """Milliseconds that a trace takes."""
    from headrace.plan.spec import Spec

    given = Spec.of_signature(spec)

    def values(rounds: int) -> Iterator[float]:
        for _ in range(max(5, rounds)):
            started = perf_counter()
            made = trace(fn, given, exact=True)
            yield 1e3 * (perf_counter() - started)
            assert isinstance(made, Graph), made

    return lambda rounds: list(values(rounds))


TRACING = [
    Bound("tracing a scaling", 50, "ms", tracing(scale, (hr.TensorSpec((28, 28), "u1"), hr.TensorSpec((), "i8"))), max),
    Bound("tracing a dozen operations", 50, "ms", tracing(whitened, hr.TensorSpec((224, 224, 3), "u1")), max),
]

if __name__ == "__main__":
    sys.exit(main("headrace: users' functions", [*SPEED, *TRACING], description=__doc__))
