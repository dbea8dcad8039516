"""What the adapters promise: next to nothing on the CPU, and on a GPU a trainer that does not wait.

The lines about a GPU are skipped where there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from harness import Bound, Case, Job, UnsupportedError, alternating, main

import headrace as hr

IMAGES = 60_000
BATCH = 512
STEPS = IMAGES // BATCH
MEGABYTES = 64
COPIES = 32


@dataclass(frozen=True)
class Data:
    """Where images come from, for both sides; `rows` gives a headrace dataset of (image, label), not yet shuffled."""

    rows: Callable[[], hr.Dataset]
    torch_dataset: Callable[[], Any]


@cache
def images() -> tuple[np.ndarray, np.ndarray]:
    """As many and as large as MNIST's."""
    random = np.random.default_rng(0)
    return random.integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8), random.integers(0, 10, IMAGES)


def tensor_dataset() -> Any:
    import torch

    return torch.utils.data.TensorDataset(*map(torch.from_numpy, images()))


MEMORY = Data(lambda: hr.Dataset.from_tensor_slices(images()), tensor_dataset)


# On the CPU


def seconds_a_batch(batches: Iterable[Any], clock: Callable[[], float] = perf_counter) -> float:
    started, count = clock(), 0
    for _ in batches:
        count += 1
    return (clock() - started) / count


def added_by_to_torch(rounds: int) -> Sequence[float]:
    """Microseconds of the processor, beyond those of the same batches in NumPy; best of three passes in each round."""
    plain = MEMORY.rows().shuffle(10_000).batch(128)
    feed = plain.to_torch()

    def best(batches: Iterable[Any]) -> Callable[[], float]:
        return lambda: min(seconds_a_batch(batches, thread_time) for _ in range(3))

    return [1e6 * (b - a) for a, b in alternating(rounds, best(plain), best(feed))]


# On a GPU


@cache
def gpu() -> Any:
    """torch, if it has a CUDA device."""
    import torch

    if not torch.cuda.is_available():
        raise UnsupportedError("no CUDA device")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    return torch


@cache
def megabytes() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (8 * MEGABYTES, 1 << 20), dtype=np.uint8)


def fed_copies() -> int:
    """Batches of 64 MB, from an array to the device, each taken as it comes."""
    torch = gpu()
    rows = 0
    for batch in hr.Dataset.from_tensor_slices(megabytes()).batch(MEGABYTES).repeat(COPIES // 8).to_torch("cuda"):
        rows += len(batch)
    torch.cuda.synchronize()
    return rows


@cache
def pinned() -> tuple[Any, Any]:
    torch = gpu()
    host = torch.empty((MEGABYTES, 1 << 20), dtype=torch.uint8, pin_memory=True)
    return host, torch.empty_like(host, device="cuda")


def bare_copies() -> int:
    """The same page-locked buffer, again and again: as fast as it can be."""
    host, device = pinned()
    for _ in range(COPIES):
        device.copy_(host, non_blocking=True)
    gpu().cuda.synchronize()
    return COPIES * MEGABYTES


def convnet() -> Callable[[Any, Any], None]:
    """One training step, on images as bytes."""
    torch = gpu()
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step(x: Any, y: Any) -> None:
        loss = nn.functional.cross_entropy(model(x.unsqueeze(1).float().div_(255)), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def training(batches: Callable[[], Iterable[Any]]) -> Job:
    """A job: an epoch of training on what `batches` makes once; counts rows."""
    made = cache(lambda: (convnet(), batches()))

    def job() -> int:
        torch = gpu()
        step, feed = made()
        rows = 0
        for x, y in feed:
            step(x, y)
            rows += len(y)
        torch.cuda.synchronize()
        return rows

    return job


def resident() -> Iterable[Any]:
    """One batch that lies on the device."""
    torch = gpu()
    x, y = (torch.from_numpy(part[:BATCH]).cuda() for part in images())
    return [(x, y)] * STEPS


def fed(data: Data) -> Iterable[Any]:
    gpu()
    batches = data.rows().shuffle(10_000).batch(BATCH, drop_remainder=True)
    return batches.prefetch(hr.AUTOTUNE).to_torch("cuda")


class Loaded:
    """PyTorch's own loader, with page-locked batches and copies that do not wait."""

    def __init__(self, data: Data, workers: int) -> None:
        torch = gpu()
        self._loader = torch.utils.data.DataLoader(
            data.torch_dataset(),
            BATCH,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            pin_memory=True,
            persistent_workers=workers > 0,
        )

    def __iter__(self) -> Iterable[Any]:
        for x, y in self._loader:
            yield x.cuda(non_blocking=True), y.cuda(non_blocking=True)


def loaded(data: Data, workers: int) -> Job:
    return training(lambda: Loaded(data, workers))


def pipeline_alone(rounds: int) -> Sequence[float]:
    """Milliseconds a batch on the device, with nobody computing."""
    feed = fed(MEMORY)
    return [1e3 * seconds_a_batch(feed) for _ in range(rounds)]


def step_alone(rounds: int) -> Sequence[float]:
    """Milliseconds a step on a batch that lies on the device."""
    job = training(resident)
    job()
    times = []
    for _ in range(rounds):
        started = perf_counter()
        job()
        times.append(1e3 * (perf_counter() - started) / STEPS)
    return times


ITEMS: list[Case | Bound] = [
    Bound("to_torch on the CPU, added to a batch", 20, "µs", added_by_to_torch),
    Case(
        f"host to device, batches of {MEGABYTES} MB",
        {"copies of a pinned buffer": 0.8},
        {"headrace": fed_copies, "copies of a pinned buffer": bare_copies},
        COPIES * MEGABYTES,
    ),
    Case(
        "training a convnet",
        {"one batch on the GPU": 1 / 1.03},
        {
            "headrace": training(lambda: fed(MEMORY)),
            "one batch on the GPU": training(resident),
            "DataLoader": {f"{n} workers": loaded(MEMORY, n) for n in (0, 4, 8, 16)},
        },
        STEPS * BATCH,
    ),
    Bound("a step of the convnet", None, "ms", step_alone),
    Bound("a batch of the pipeline, nobody computing", None, "ms", pipeline_alone),
]

if __name__ == "__main__":
    sys.exit(main("trainers", ITEMS, description=__doc__))
