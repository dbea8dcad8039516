"""What the adapters promise: next to nothing on the CPU, and on a GPU a trainer that does not wait.

The lines about a GPU are skipped where there is none.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle, islice, pairwise
from pathlib import Path
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
EPOCHS = 3
"""So many in a run: what counts is a step, and not how a pass begins."""
SMALL, WIDE = 32, 64
"""Channels of the first layer. To launch the kernels of the small net takes as long as to run them."""
WORKERS = (0, 4, 8, 16)
RESIDENT = "one batch on the GPU"
BY_HAND = "page-locked batches, copied by a plain loop"
PICTURES, PICTURE_BATCH = 12_000, 256


@dataclass(frozen=True)
class Data:
    """Images and labels for both sides.

    `batches` gives a dataset of batches, shuffled; `items` one that PyTorch's loader shuffles and batches; `groups` the
    same of whole batches, for whom that is faster.
    """

    batches: Callable[[], hr.Dataset]
    items: Callable[[], Any]
    groups: Callable[[], Any]


@cache
def images() -> tuple[np.ndarray, np.ndarray]:
    """As many and as large as MNIST's."""
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8), generator.integers(0, 10, IMAGES)


# Out of memory, as they are


def shuffled() -> hr.Dataset:
    return hr.Dataset.from_tensor_slices(images()).shuffle(10_000).batch(BATCH, drop_remainder=True)


class Items:
    """What PyTorch's loader indexes: images in memory."""

    def __init__(self) -> None:
        import torch

        self.images, self.labels = map(torch.from_numpy, images())

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return self.images[i], self.labels[i]


class Groups(Items):
    """The same, a batch at a time."""

    def __getitems__(self, chosen: list[int]) -> tuple[Any, Any]:
        return self.images[chosen], self.labels[chosen]


MEMORY = Data(shuffled, Items, Groups)


# Out of TFRecord shards, flipped at random and made a little lighter or darker

FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


@cache
def folder() -> Any:
    """The directory of the shards; removed when the program ends."""
    made = tempfile.TemporaryDirectory()
    rows = hr.Dataset.from_tensor_slices(images()).map(lambda x, y: {"image": x.tobytes(), "label": y})
    rows.write_tfrecord(Path(made.name) / "images", shards=8)
    return made


def parse(record: Any) -> tuple[Any, Any]:
    example = hr.io.parse_single_example(record, FEATURES)
    pixels = hr.io.decode_raw(example["image"], np.uint8, fixed_length=784)
    return pixels.reshape(28, 28), example["label"]


def augmented(image: Any, label: Any, rng: Any) -> tuple[Any, Any]:
    flipped = np.where(rng.bernoulli(0.5), image[:, ::-1], image)
    lighter = flipped.astype(np.int16) + rng.integers(-20, 21, dtype=np.int16)
    return np.clip(lighter, 0, 255).astype(np.uint8), label


def records() -> hr.Dataset:
    files = hr.Dataset.list_files(f"{folder().name}/images-*.tfrecord", shuffle=False)
    rows = hr.TFRecordDataset(files).map(parse, num_parallel_calls=hr.AUTOTUNE).shuffle(10_000)
    return rows.random_map(augmented, num_parallel_calls=hr.AUTOTUNE).batch(BATCH, drop_remainder=True)


class AugmentedItems(Items):
    """Images in memory, which is where people have MNIST, augmented one by one."""

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        import torch

        image = self.images[i]
        if random.random() < 0.5:
            image = image.flip(1)
        lighter = image.to(torch.int16).add_(random.randint(-20, 20))
        return lighter.clamp_(0, 255).to(torch.uint8), self.labels[i]


class AugmentedGroups(Items):
    """Images in memory, augmented a batch at a time."""

    def __getitems__(self, chosen: list[int]) -> tuple[Any, Any]:
        import torch

        batch, count = self.images[chosen], len(chosen)
        flip = torch.rand(count, 1, 1) < 0.5
        batch = torch.where(flip, batch.flip(2), batch).to(torch.int16)
        batch.add_(torch.randint(-20, 21, (count, 1, 1), dtype=torch.int16))
        return batch.clamp_(0, 255).to(torch.uint8), self.labels[chosen]


RECORDS = Data(records, AugmentedItems, AugmentedGroups)


# On the CPU


def seconds_a_batch(batches: Iterable[Any], clock: Callable[[], float] = perf_counter) -> float:
    started, count = clock(), 0
    for _ in batches:
        count += 1
    return (clock() - started) / count


def added_by_to_torch(rounds: int) -> Sequence[float]:
    """Microseconds of the processor, beyond those of the same batches in NumPy; best of three passes in each round."""
    plain = hr.Dataset.from_tensor_slices(images()).shuffle(10_000).batch(128)
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


def copies(rows: Callable[[], hr.Dataset]) -> Job:
    """A job: batches of 64 MB on the device, each taken as it comes."""
    made = cache(lambda: rows().batch(MEGABYTES).repeat(COPIES // 8).to_torch("cuda"))

    def job() -> int:
        torch = gpu()
        count = sum(len(batch) for batch in made())
        torch.cuda.synchronize()
        return count

    return job


def in_order() -> hr.Dataset:
    """Views of the array: in the second pass it is page-locked, and read by the device itself."""
    return hr.Dataset.from_tensor_slices(megabytes())


def in_disorder() -> hr.Dataset:
    """Memory that is new in every batch."""
    return in_order().shuffle(8 * MEGABYTES)


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


def convnet(width: int) -> Callable[[Any, Any], None]:
    """One training step, on images as bytes."""
    torch = gpu()
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(2 * width * 49, 128), nn.ReLU(), nn.Linear(128, 10),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step(x: Any, y: Any) -> None:
        loss = nn.functional.cross_entropy(model(x.unsqueeze(1).float().div_(255)), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def resnet() -> Callable[[Any, Any], None]:
    """One training step of a ResNet-18 in bfloat16, on images as bytes."""
    torch = gpu()
    nn = torch.nn
    torch.manual_seed(0)

    class Residual(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
                nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
            )  # fmt: skip
            alike = stride == 1 and before == after
            shortcut = [nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)]
            self.shortcut = nn.Identity() if alike else nn.Sequential(*shortcut)

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.main(x) + self.shortcut(x), inplace=True)

    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Residual(a, b, 1 if a == b else 2) for a, b in pairwise(widths)]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    model = nn.Sequential(*stem, *blocks, *head).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step(x: Any, y: Any) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            pixels = x.permute(0, 3, 1, 2).to(torch.bfloat16).div_(255)
            loss = nn.functional.cross_entropy(model(pixels), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def training(
    batches: Callable[[], Iterable[Any]],
    width: int = SMALL,
    net: Callable[[], Callable[[Any, Any], None]] | None = None,
) -> Job:
    """A job: a few epochs of training on what `batches` makes once; counts rows."""
    made = cache(lambda: ((net or partial(convnet, width))(), batches()))

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
    """One batch on the device."""
    torch = gpu()
    x, y = (torch.from_numpy(part[:BATCH]).cuda() for part in images())
    return [(x, y)] * (EPOCHS * STEPS)


def by_hand() -> Iterable[Any]:
    """Batches that are there already, in page-locked memory: what is left to do is what any loader has to."""
    torch = gpu()
    parts = [
        [torch.from_numpy(part[i : i + BATCH]).pin_memory() for part in images()] for i in range(0, 20 * BATCH, BATCH)
    ]
    return Repeated(parts)


class Repeated:
    """Batches copied to the device one by one, again and again."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Any]:
        for x, y in islice(cycle(self._parts), EPOCHS * STEPS):
            yield x.cuda(non_blocking=True), y.cuda(non_blocking=True)


def fed(data: Data, mode: str = "thread") -> Iterable[Any]:
    gpu()
    return data.batches().repeat(EPOCHS).prefetch(8, mode=mode).to_torch("cuda")


def trained_here(data: Data, width: int = SMALL) -> dict[str, Job]:
    """Jobs that train on what headrace makes, in this process and in another one."""
    return {
        "on a thread": training(lambda: fed(data), width),
        "in a process": training(lambda: fed(data, "process"), width),
    }


class Loaded:
    """PyTorch's own loader, with page-locked batches and copies that do not wait."""

    def __init__(self, data: Any, workers: int, **options: Any) -> None:
        torch = gpu()
        self._loader = torch.utils.data.DataLoader(
            data,
            BATCH,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            pin_memory=True,
            persistent_workers=workers > 0,
            **options,
        )

    def __iter__(self) -> Iterable[Any]:
        for _ in range(EPOCHS):
            for x, y in self._loader:
                yield x.cuda(non_blocking=True), y.cuda(non_blocking=True)


def loaders(data: Data) -> dict[str, Mapping[str, Job]]:
    """Jobs of the loader with 0, 4, 8 and 16 workers, item by item and by whole batches."""

    def items(workers: int) -> Job:
        return training(lambda: Loaded(data.items(), workers))

    def groups(workers: int) -> Job:
        return training(lambda: Loaded(data.groups(), workers, collate_fn=whole))

    return {
        "DataLoader": {f"{n} workers": items(n) for n in WORKERS},
        "DataLoader, whole batches": {f"{n} workers": groups(n) for n in WORKERS},
    }


def whole(batch: Any) -> Any:
    """What was fetched as a batch stays one."""
    return batch


def trained(name: str, data: Data, asked: Mapping[str, float]) -> Case:
    """A case: training on this data against training on a batch that is there already."""
    sides = {"headrace": trained_here(data), RESIDENT: training(resident), BY_HAND: training(by_hand), **loaders(data)}
    return Case(name, asked, sides, EPOCHS * STEPS * BATCH)


def pipeline_alone(data: Data) -> Callable[[int], Sequence[float]]:
    """Milliseconds per batch on the device, without computation."""

    def measure(rounds: int) -> Sequence[float]:
        feed = fed(data)
        for _ in feed:
            pass
        return [1e3 * seconds_a_batch(feed) for _ in range(rounds)]

    return measure


def step_alone(width: int) -> Callable[[int], Sequence[float]]:
    """Milliseconds per step on a batch that is on the device."""

    def measure(rounds: int) -> Sequence[float]:
        job = training(resident, width)
        job()
        times = []
        for _ in range(rounds):
            started = perf_counter()
            job()
            times.append(1e3 * (perf_counter() - started) / (EPOCHS * STEPS))
        return times

    return measure


@cache
def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Large ones."""
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (PICTURES, 224, 224, 3), np.uint8), generator.integers(0, 1000, PICTURES)


def flip(image: Any, label: Any, rng: Any) -> tuple[Any, Any]:
    return (image[:, ::-1] if rng.random() < 0.5 else image), label


def flipped() -> Iterable[Any]:
    gpu()
    ds = hr.Dataset.from_tensor_slices(pictures()).shuffle().random_map(flip, num_parallel_calls=hr.AUTOTUNE)
    return ds.batch(PICTURE_BATCH, drop_remainder=True).repeat(EPOCHS).prefetch(hr.AUTOTUNE).to_torch("cuda")


def resident_pictures() -> Iterable[Any]:
    torch = gpu()
    x, y = (torch.from_numpy(part[:PICTURE_BATCH]).cuda() for part in pictures())
    return [(x, y)] * (EPOCHS * (PICTURES // PICTURE_BATCH))


PINNED = "copies of a pinned buffer"

ITEMS: list[Case | Bound] = [
    Bound("to_torch on the CPU, added to a batch", 20, "µs", added_by_to_torch),
    Case(
        f"host to device, batches of {MEGABYTES} MB",
        {PINNED: 0.8},
        {"headrace": copies(in_order), PINNED: bare_copies},
        COPIES * MEGABYTES,
    ),
    Case(
        f"host to device, shuffled batches of {MEGABYTES} MB",
        {PINNED: 0.4},
        {"headrace": copies(in_disorder), PINNED: bare_copies},
        COPIES * MEGABYTES,
    ),
    trained("training a convnet on TFRecords", RECORDS, {RESIDENT: 1 / 1.03}),
    Case(
        "training a wider convnet on TFRecords",
        {RESIDENT: 1 / 1.03},
        {"headrace": trained_here(RECORDS, WIDE), RESIDENT: training(resident, WIDE)},
        EPOCHS * STEPS * BATCH,
    ),
    trained("training a convnet on arrays", MEMORY, {}),
    Case(
        "training a ResNet-18 in bfloat16 on 224×224 images, shuffled and flipped",
        {RESIDENT: 0.97},
        {"headrace": training(flipped, net=resnet), RESIDENT: training(resident_pictures, net=resnet)},
        EPOCHS * (PICTURES // PICTURE_BATCH) * PICTURE_BATCH,
    ),
    Bound("a step of the convnet", None, "ms", step_alone(SMALL)),
    Bound("a step of the wider convnet", None, "ms", step_alone(WIDE)),
    Bound("a batch of the pipeline on TFRecords, without computation", None, "ms", pipeline_alone(RECORDS)),
    Bound("a batch of the pipeline on arrays, without computation", None, "ms", pipeline_alone(MEMORY)),
]

if __name__ == "__main__":
    sys.exit(main("trainers", ITEMS, description=__doc__))
