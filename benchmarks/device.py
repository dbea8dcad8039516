"""Decoding and augmenting on a GPU, against the CPU and against a resident batch. One command for a machine with a GPU.

    python benchmarks/device.py                  # every line; those that need a GPU say so where there is none
    python benchmarks/device.py --only pixels    # the lines with this in their name
    python benchmarks/device.py --seconds 480 --only memory

Sides of a line take turns in one process, and the median of the rounds counts. JPEGs are 500 × 375, of quality 90.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import headrace as hr

BATCH, SIZE, DISTINCT = 256, 224, 256
MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
_folder = TemporaryDirectory(prefix="headrace-benchmark-")
FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


class SkippedError(Exception):
    """A line that cannot be measured here."""


@cache
def jpegs() -> list[bytes]:
    """Smooth pictures with noise, each of about 110 kB."""
    y, x = np.mgrid[:375, :500]
    made = []
    for i in range(DISTINCT):
        rng = np.random.default_rng(i)
        waves = [np.sin(x / rng.uniform(5, 60) + y / rng.uniform(5, 60)) for _ in range(3)]
        pixels = 128 + 80 * np.stack(waves, -1) + rng.normal(0, 12, (375, 500, 3))
        made.append(hr.image.encode_jpeg(np.clip(pixels, 0, 255).astype(np.uint8), quality=90))
    return made


@cache
def records(count: int) -> str:
    path = Path(_folder.name, f"jpegs-{count}.tfrecord")
    with hr.io.TFRecordWriter(path) as out:
        for i in range(count):
            row = {"image": np.array([jpegs()[i % DISTINCT]], object), "label": np.array([i % 1000])}
            out.write_all(hr.io.encode_examples(row))
    return str(path)


def parse(record: Any) -> Any:
    row = hr.io.parse_single_example(record, FEATURES)
    return row["image"], row["label"]


def augment(jpeg: Any, label: Any, rng: Any) -> Any:
    image = hr.image.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE", fancy_upscaling=False)
    image = hr.image.random_resized_crop(image, (SIZE, SIZE), rng)
    image = hr.image.random_flip_left_right(image, rng)
    return (image / np.float32(255) - MEAN) / DEVIATION, label


def jitter(image: Any, label: Any, rng: Any) -> Any:
    image = hr.image.random_flip_left_right(image, rng)
    image = hr.image.random_brightness(image, 0.2, rng)
    image = hr.image.random_contrast(image, 0.8, 1.2, rng)
    image = hr.image.random_saturation(image, 0.8, 1.2, rng)
    return hr.image.convert_image_dtype(image, np.float32), label


def from_jpegs(count: int, device: str | None) -> hr.Dataset:
    ds = hr.TFRecordDataset(records(count)).repeat().map(parse).shuffle(1024, seed=1)
    how: Any = {"num_parallel_calls": hr.AUTOTUNE} if device is None else {"device": device}
    return ds.random_map(augment, seed=1, **how).batch(BATCH, drop_remainder=True)


def torch_with_gpu() -> Any:
    try:
        import torch
    except ImportError:
        raise SkippedError("PyTorch is not installed") from None
    if not torch.cuda.is_available():
        raise SkippedError("no GPU here")
    return torch


def steps_per_second(
    step: Callable[[Any], None], batches: Iterator[Any], count: int, sync: Callable[[], None]
) -> float:
    for _ in range(5):
        step(next(batches))
    sync()
    started = time.perf_counter()
    for _ in range(count):
        step(next(batches))
    sync()
    return count / (time.perf_counter() - started)


def trainer(torch: Any, name: str) -> Callable[[Any], None]:
    import torchvision

    model = getattr(torchvision.models, name)().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(batch: Any) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def against_resident(torch: Any, model: str, ds: hr.Dataset, rounds: int, steps: int) -> dict[str, Any]:
    """The share of the rate of a batch that stays on the GPU, and the CPU cores that were busy."""
    step = trainer(torch, model)
    feed = iter(ds.to_torch(device="cuda", layout="NCHW"))
    resident = next(feed)
    shares, rates, cores = [], [], []
    for _ in range(rounds):
        whole = steps_per_second(step, iter(lambda: resident, None), steps, torch.cuda.synchronize)
        busy, started = time.process_time(), time.perf_counter()
        rate = steps_per_second(step, feed, steps, torch.cuda.synchronize)
        cores.append((time.process_time() - busy) / (time.perf_counter() - started))
        shares.append(rate / whole)
        rates.append(rate * BATCH)
    feed.close()
    middle = statistics.median
    return {"of resident": middle(shares), "images/s": middle(rates), "CPU cores": middle(cores)}


def resnet50(rounds: int, seconds: float) -> dict[str, Any]:
    del seconds
    return against_resident(torch_with_gpu(), "resnet50", from_jpegs(20_000, "cuda"), rounds, 60)


def resnet50_on_the_cpu(rounds: int, seconds: float) -> dict[str, Any]:
    del seconds
    return against_resident(torch_with_gpu(), "resnet50", from_jpegs(20_000, None), rounds, 60)


def resnet18_on_arrays(rounds: int, seconds: float) -> dict[str, Any]:
    del seconds
    torch = torch_with_gpu()
    pixels = np.random.default_rng(0).integers(0, 256, (4096, SIZE, SIZE, 3), np.uint8)
    ds = hr.Dataset.from_tensor_slices((pixels, np.arange(4096) % 1000)).shuffle(4096, seed=1).repeat()
    ds = ds.random_map(jitter, seed=1, device="cuda").batch(BATCH, drop_remainder=True)
    return against_resident(torch, "resnet18", ds, rounds, 100)


def feed_alone(rounds: int, seconds: float) -> dict[str, Any]:
    del seconds
    torch = torch_with_gpu()
    feed = iter(from_jpegs(20_000, "cuda").to_torch(device="cuda"))
    rates = [BATCH * steps_per_second(lambda _: None, feed, 50, torch.cuda.synchronize) for _ in range(rounds)]
    feed.close()
    return {"images/s": statistics.median(rates)}


def generator_of_paths(rounds: int, seconds: float) -> dict[str, Any]:
    """The tutorial's shape: `from_generator` of JPEGs, augmented by each side."""
    del seconds
    torch = torch_with_gpu()
    files = []
    for i, jpeg in enumerate(jpegs()):
        files.append(Path(_folder.name, f"{i}.jpeg"))
        files[-1].write_bytes(jpeg)

    def rows() -> Iterator[Any]:
        while True:
            yield from ((path.read_bytes(), i % 1000) for i, path in enumerate(files))

    signature = (hr.TensorSpec((), bytes), hr.TensorSpec((), np.int64))
    rates: dict[str, list[float]] = {"cpu": [], "cuda": []}
    for _ in range(rounds):
        for side, how in (("cpu", {}), ("cuda", {"device": "cuda"})):
            ds = hr.Dataset.from_generator(rows, output_signature=signature).random_map(augment, seed=1, **how)
            feed = iter(ds.batch(BATCH).to_torch(device="cuda"))
            rates[side].append(steps_per_second(lambda _: None, feed, 10, torch.cuda.synchronize))
            feed.close()
    there, here = (statistics.median(rates[side]) * BATCH for side in ("cuda", "cpu"))
    return {"times as fast": there / here, "images/s": there}


def memory(rounds: int, seconds: float) -> dict[str, Any]:
    """Memory of the GPU over a long run: it must not grow."""
    del rounds
    torch = torch_with_gpu()
    feed = iter(from_jpegs(4_000, "cuda").to_torch(device="cuda"))
    for _ in range(20):
        next(feed)
    torch.cuda.synchronize()
    first, until, batches = torch.cuda.memory_reserved(), time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        next(feed)
        batches += 1
    last = torch.cuda.memory_reserved()
    feed.close()
    return {"batches": batches, "grew MB": (last - first) / 2**20, "reserved MB": last / 2**20}


VICTIM = """
import sys
sys.path.insert(0, {here!r})
import device
if {device!r} == "cpu":
    device.BATCH, device.SIZE = 8, 64
feed = iter(device.from_jpegs(64, {device!r}).to_torch())
for _ in range(3):
    next(feed)
print("ready", flush=True)
while True:
    next(feed)
"""


def killed(rounds: int, seconds: float) -> dict[str, Any]:
    """What kill -9 leaves behind: files in shared memory, processes, memory of the GPU."""
    del rounds, seconds
    try:
        import torch
    except ImportError:
        raise SkippedError("PyTorch is not installed") from None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shared = Path("/dev/shm")
    before = {p.name for p in shared.iterdir()} if shared.exists() else set()
    used = torch.cuda.mem_get_info()[0] if device == "cuda" else 0
    code = VICTIM.format(here=str(Path(__file__).parent), device=device)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    child.wait()
    time.sleep(1)
    left = {p.name for p in shared.iterdir()} - before if shared.exists() else set()
    group = subprocess.run(["ps", "-o", "pid=", "--sid", str(child.pid)], capture_output=True, text=True, check=False)
    freed = torch.cuda.mem_get_info()[0] - used if device == "cuda" else 0
    return {
        "device": device,
        "files left": len(left),
        "processes left": len(group.stdout.split()),
        "MB": -freed / 2**20,
    }


def pixels(rounds: int, seconds: float) -> dict[str, Any]:
    """The largest differences to the CPU path, in levels of 255: decoding, and the whole pipeline."""
    del rounds, seconds
    try:
        import torch
    except ImportError:
        raise SkippedError("PyTorch is not installed") from None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    files = jpegs()[:64]
    ds = hr.Dataset.from_tensor_slices((files, np.arange(len(files))))

    def decode(jpeg: Any, label: Any) -> Any:
        del label
        return hr.image.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE", fancy_upscaling=False)

    pairs = zip(ds.map(decode, device=device), ds.map(decode), strict=True)
    decoded = max(int(np.abs(a.astype(int) - b).max()) for a, b in pairs)
    pairs = zip(ds.random_map(augment, seed=1, device=device), ds.random_map(augment, seed=1), strict=True)
    whole = max(float(np.abs((a[0] - b[0]) * DEVIATION).max()) for a, b in pairs) * 255
    return {"device": device, "decode": decoded, "pipeline": whole}


def on_torchs_cpu(rounds: int, seconds: float) -> dict[str, Any]:
    """The same code on PyTorch's CPU device against NumPy on one thread: for information, it is meant for tests."""
    del seconds
    rates: dict[str, list[float]] = {"cpu": [], "numpy": []}
    files = jpegs()[:64]
    ds = hr.Dataset.from_tensor_slices((files, np.arange(len(files))))
    for _ in range(rounds):
        for side, how in (("numpy", {}), ("cpu", {"device": "cpu"})):
            started = time.perf_counter()
            rows = sum(len(batch[1]) for batch in ds.random_map(augment, seed=1, **how).batch(32))
            rates[side].append(rows / (time.perf_counter() - started))
    there, here = (statistics.median(rates[side]) for side in ("cpu", "numpy"))
    return {"of NumPy": there / here, "images/s": there}


LINES: dict[str, tuple[Callable[[int, float], dict[str, Any]], str]] = {
    "ResNet-50 bf16 from JPEG TFRecords, augmented on the GPU": (resnet50, "≥ 0.95 of resident, ≤ 2 CPU cores"),
    "ResNet-50 bf16 from JPEG TFRecords, augmented on the CPU": (resnet50_on_the_cpu, "for comparison"),
    "feed alone": (feed_alone, "≥ 12,000 images/s"),
    "ResNet-18 bf16 on 224² arrays, flip and colour jitter": (resnet18_on_arrays, "≥ 0.98 of resident"),
    "from_generator of JPEG paths": (generator_of_paths, "≥ 3 times as fast as on the CPU"),
    "pixels against the CPU path": (pixels, "decode 0, pipeline ≤ 1"),
    "memory over a long run": (memory, "flat"),
    "kill -9": (killed, "nothing left"),
    "PyTorch's CPU device": (on_torchs_cpu, "for information"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="lines with this in their name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=480.0, help="of the line on memory")
    given = parser.parse_args()
    print(f"{os.cpu_count()} CPUs")
    for name, (measure, asked) in LINES.items():
        if given.only and not any(text.lower() in name.lower() for text in given.only):
            continue
        try:
            found = measure(given.rounds, given.seconds)
        except SkippedError as why:
            print(f"{name}: skipped, {why}")
            continue
        shown = ", ".join(f"{k} {v:,.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in found.items())
        print(f"{name}: {shown} (asked: {asked})")


if __name__ == "__main__":
    main()
