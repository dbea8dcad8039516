"""Decoding and augmenting on a GPU, against the CPU and against a resident batch. One command for a machine with a GPU.

    python benchmarks/device.py                  # every line; those that need a GPU say so where there is none
    python benchmarks/device.py --only pixels    # the lines with this in their name
    python benchmarks/device.py --seconds 480 --only memory
    python benchmarks/device.py --small          # every line in seconds, to see that it runs: the numbers mean nothing

Sides of a line take turns in one process, and the median of the rounds counts. JPEGs are 500 × 375, of quality 90. Each
line is printed when it is measured. The whole table takes about five minutes, of which a minute is the line on memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import headrace as hr


@dataclass
class Scale:
    """How much is measured."""

    batch: int = 256
    size: int = 224
    """Height and width of augmented images."""
    distinct: int = 256
    """JPEGs that differ."""
    records: int = 5120
    rounds: int = 3
    seconds: float = 60.0
    """Of the line on memory."""
    steps: int = 60
    """Of a trainer in each round."""
    resumes: int = 50
    peers: bool = True
    """Whether TensorFlow is started."""


SMALL = Scale(batch=8, size=32, distinct=16, records=64, rounds=1, seconds=2.0, steps=2, resumes=5, peers=False)
scale = Scale()


def use(other: Scale) -> None:
    """Measure as much as another scale says."""
    vars(scale).update(vars(other))


MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
_folder = TemporaryDirectory(prefix="headrace-benchmark-")
FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


Found = dict[str, Any]
"""Numbers of a line by name."""


class SkippedError(Exception):
    """A line that cannot be measured here."""


@cache
def jpegs() -> list[bytes]:
    """Smooth pictures with noise, each of about 110 kB."""
    y, x = np.mgrid[:375, :500]
    made = []
    for i in range(scale.distinct):
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
            row = {"image": np.array([jpegs()[i % scale.distinct]], object), "label": np.array([i % 1000])}
            out.write_all(hr.io.encode_examples(row))
    return str(path)


def parse(record: Any) -> Any:
    row = hr.io.parse_single_example(record, FEATURES)
    return row["image"], row["label"]


def augmentation() -> Callable[..., Any]:
    size = (scale.size, scale.size)

    def augment(jpeg: Any, label: Any, rng: Any) -> Any:
        image = hr.image.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE", fancy_upscaling=False)
        image = hr.image.random_resized_crop(image, size, rng)
        image = hr.image.random_flip_left_right(image, rng)
        return (image / np.float32(255) - MEAN) / DEVIATION, label

    return augment


def jitter(image: Any, label: Any, rng: Any) -> Any:
    image = hr.image.random_flip_left_right(image, rng)
    image = hr.image.random_brightness(image, 0.2, rng)
    image = hr.image.random_contrast(image, 0.8, 1.2, rng)
    image = hr.image.random_saturation(image, 0.8, 1.2, rng)
    return hr.image.convert_image_dtype(image, np.float32), label


def from_jpegs(device: str | None) -> hr.Dataset:
    ds = hr.TFRecordDataset(records(scale.records)).repeat().map(parse).shuffle(1024, seed=1)
    how: Any = {"num_parallel_calls": hr.AUTOTUNE} if device is None else {"device": device}
    return ds.random_map(augmentation(), seed=1, **how).batch(scale.batch, drop_remainder=True)


def torch_with_gpu() -> Any:
    try:
        import torch
    except ImportError:
        raise SkippedError("PyTorch is not installed") from None
    if not torch.cuda.is_available():
        raise SkippedError("no GPU here")
    return torch


def torch_anywhere() -> tuple[Any, str]:
    """PyTorch, and the device that lines on equality run on: without a GPU, the CPU."""
    try:
        import torch
    except ImportError:
        raise SkippedError("PyTorch is not installed") from None
    return torch, "cuda" if torch.cuda.is_available() else "cpu"


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


def against_resident(torch: Any, model: str, ds: hr.Dataset, steps: int) -> Found:
    """The share of the rate of a batch that stays on the GPU, and the CPU cores that were busy."""
    step = trainer(torch, model)
    feed = iter(ds.to_torch(device="cuda", layout="NCHW"))
    resident = next(feed)
    shares, rates, cores = [], [], []
    for _ in range(scale.rounds):
        whole = steps_per_second(step, iter(lambda: resident, None), steps, torch.cuda.synchronize)
        busy, started = time.process_time(), time.perf_counter()
        rate = steps_per_second(step, feed, steps, torch.cuda.synchronize)
        cores.append((time.process_time() - busy) / (time.perf_counter() - started))
        shares.append(rate / whole)
        rates.append(rate * scale.batch)
    feed.close()
    middle = statistics.median
    return {"of resident": middle(shares), "images/s": middle(rates), "CPU cores": middle(cores)}


def resnet50() -> Found:
    return against_resident(torch_with_gpu(), "resnet50", from_jpegs("cuda"), scale.steps)


def resnet50_on_the_cpu() -> Found:
    return against_resident(torch_with_gpu(), "resnet50", from_jpegs(None), scale.steps // 2)


def resnet18_on_arrays() -> Found:
    torch = torch_with_gpu()
    rows = 16 * scale.batch
    pixels = np.random.default_rng(0).integers(0, 256, (rows, scale.size, scale.size, 3), np.uint8)
    ds = hr.Dataset.from_tensor_slices((pixels, np.arange(rows) % 1000)).shuffle(rows, seed=1).repeat()
    ds = ds.random_map(jitter, seed=1, device="cuda").batch(scale.batch, drop_remainder=True)
    return against_resident(torch, "resnet18", ds, 2 * scale.steps)


def chain_of_colours() -> Found:
    """Milliseconds of the GPU for flip and colour jitter of a batch: as one chain, and by PyTorch's operations."""
    torch = torch_with_gpu()
    from headrace.device.machine import machine_of

    pixels = np.random.default_rng(0).integers(0, 256, (scale.batch, scale.size, scale.size, 3), np.uint8)
    ds = hr.Dataset.from_tensor_slices((pixels, np.arange(scale.batch))).repeat()
    ds = ds.random_map(jitter, seed=1, device="cuda").batch(scale.batch)

    def milliseconds(fused: bool) -> float:
        if not fused:
            vars(machine_of("cuda"))["fused"] = None
        with iter(ds.to_torch(device="cuda", prefetch=0)) as feed:
            next(feed)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(10):
                    next(feed)
                torch.cuda.synchronize()
        vars(machine_of("cuda")).pop("fused", None)
        return sum(e.self_device_time_total for e in profile.key_averages() if not e.key.startswith("Mem")) / 1e4

    return {"ms": milliseconds(True), "by single operations": milliseconds(False)}


def feed_alone() -> Found:
    torch = torch_with_gpu()
    feed = iter(from_jpegs("cuda").to_torch(device="cuda"))
    rates, cores = [], []
    for _ in range(scale.rounds):
        busy, started = time.process_time(), time.perf_counter()
        rates.append(scale.batch * steps_per_second(lambda _: None, feed, scale.steps, torch.cuda.synchronize))
        cores.append((time.process_time() - busy) / (time.perf_counter() - started))
    feed.close()
    return {"images/s": statistics.median(rates), "CPU cores": statistics.median(cores)}


def turns(sides: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median rate of each side, after a round that does not count."""
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(scale.rounds + 1):
        for side, rate in sides.items():
            rates[side].append(rate())
    return {side: statistics.median(found[1:]) for side, found in rates.items()}


def crops_on_the_cpu() -> Found:
    """Random crops of JPEGs as bytes, in batches, and full decodes of the same JPEGs by as many bare threads."""
    import simplejpeg

    files = [jpegs()[i % scale.distinct] for i in range(4 * scale.batch)]
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    size = (scale.size, scale.size)

    def crop(jpeg: Any, rng: Any) -> Any:
        image = hr.image.decode_jpeg(jpeg, channels=3)
        image = hr.image.random_resized_crop(image, size, rng, dtype=np.uint8)
        return hr.image.random_flip_left_right(image, rng)

    ds = hr.Dataset.from_tensor_slices(files).random_map(crop, seed=1, num_parallel_calls=hr.AUTOTUNE)

    def ours() -> float:
        started = time.perf_counter()
        rows = sum(len(batch) for batch in ds.batch(scale.batch))
        return rows / (time.perf_counter() - started)

    def decodes() -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            rows = sum(1 for _ in pool.map(partial(simplejpeg.decode_jpeg, fastdct=True), files))
        return rows / (time.perf_counter() - started)

    found = turns({"ours": ours, "decodes": decodes})
    return {"of full decodes": found["ours"] / found["decodes"], "images/s": found["ours"], "threads": threads}


def against_tf_data() -> Found:
    """`benchmarks/images.py` on two CPUs: all images, and the first 300 in fresh processes."""
    if not scale.peers:
        raise SkippedError("--small does not start TensorFlow")
    from importlib.util import find_spec

    if find_spec("tensorflow") is None:
        raise SkippedError("TensorFlow is not installed")
    found = Path(_folder.name, "images.json")
    command = [sys.executable, str(Path(__file__).with_name("images.py")), "--only", "224×224, batch(32)"]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:2]))  # inherited
    try:
        subprocess.run(
            [*command, "--rounds", str(scale.rounds), "--json", str(found)], check=True, stdout=subprocess.DEVNULL
        )
    finally:
        os.sched_setaffinity(0, before)
    lines = json.loads(found.read_text())["lines"]
    return {"first pass" if "first" in line["name"] else "steady": float(line["measured"]) for line in lines}


def generator_of_paths() -> Found:
    """The tutorial's shape: `from_generator` of JPEGs, augmented by each side."""
    torch = torch_with_gpu()
    files = []
    for i, jpeg in enumerate(jpegs()):
        files.append(Path(_folder.name, f"{i}.jpeg"))
        files[-1].write_bytes(jpeg)

    def rows() -> Iterator[Any]:
        while True:
            yield from ((path.read_bytes(), i % 1000) for i, path in enumerate(files))

    signature = (hr.TensorSpec((), bytes), hr.TensorSpec((), np.int64))

    def rate(how: dict[str, Any]) -> float:
        ds = hr.Dataset.from_generator(rows, output_signature=signature).random_map(augmentation(), seed=1, **how)
        with iter(ds.batch(scale.batch).to_torch(device="cuda")) as feed:
            return steps_per_second(lambda _: None, feed, 10, torch.cuda.synchronize)

    sides: dict[str, dict[str, Any]] = {
        "cpu": {},
        "all CPUs": {"num_parallel_calls": hr.AUTOTUNE},
        "cuda": {"device": "cuda"},
    }
    found = turns({side: partial(rate, how) for side, how in sides.items()})
    return {
        "times as fast": found["cuda"] / found["cpu"],
        "against all CPUs": found["cuda"] / found["all CPUs"],
        "images/s": found["cuda"] * scale.batch,
    }


def memory() -> Found:
    """Memory of the GPU over a long run: it must not grow."""
    torch = torch_with_gpu()
    feed = iter(from_jpegs("cuda").to_torch(device="cuda"))
    for _ in range(20):
        next(feed)
    torch.cuda.synchronize()
    first, until, batches = torch.cuda.memory_reserved(), time.perf_counter() + scale.seconds, 0
    most = first
    while time.perf_counter() < until:
        next(feed)
        batches += 1
        most = max(most, torch.cuda.memory_reserved())
    feed.close()
    return {"batches": batches, "grew MB": (most - first) / 2**20, "reserved MB": most / 2**20}


VICTIM = """
import sys
sys.path.insert(0, {here!r})
import device
device.use(device.SMALL)
feed = iter(device.from_jpegs({device!r}).to_torch(device={device!r}))
for _ in range(3):
    next(feed)
print("ready", flush=True)
while True:
    next(feed)
"""


def killed() -> Found:
    """What kill -9 leaves behind: files in shared memory, processes, memory of the GPU."""
    torch, device = torch_anywhere()
    shared = Path("/dev/shm")
    before = {p.name for p in shared.iterdir()} if shared.exists() else set()
    used = torch.cuda.mem_get_info()[0] if device == "cuda" else 0
    code = VICTIM.format(here=str(Path(__file__).parent), device=device)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    if child.stdout.readline() != "ready\n":
        raise RuntimeError("the process that is to be killed did not start")
    child.kill()
    child.wait()
    until = time.perf_counter() + 10  # the driver frees memory soon after the process has ended
    while device == "cuda" and torch.cuda.mem_get_info()[0] < used and time.perf_counter() < until:
        time.sleep(0.1)
    left = {p.name for p in shared.iterdir()} - before if shared.exists() else set()
    group = subprocess.run(["ps", "-o", "pid=", "--sid", str(child.pid)], capture_output=True, text=True, check=False)
    held = used - torch.cuda.mem_get_info()[0] if device == "cuda" else 0
    return {
        "device": device, "files left": len(left), "processes left": len(group.stdout.split()), "MB": held / 2**20,
    }  # fmt: skip


def draws_and_resume() -> Found:
    """Windows and flips on the device against those of the CPU, and states at random steps: elements that differ."""
    _, device = torch_anywhere()
    y, x = np.mgrid[:61, :83]
    places = np.stack([y, x, y * 83 + x], -1).astype(np.float32)  # each pixel tells where it was

    def placed(number: Any, rng: Any) -> Any:
        image = hr.image.random_crop(places + number * np.float32(0), (20, 24), rng)
        image = hr.image.random_flip_left_right(image, rng)
        return image, rng.random(4), rng.integers(0, 1000, 3)

    ds = hr.Dataset.range(512, output_type=np.float32).shuffle(100, seed=3).repeat(2)
    pairs = zip(ds.random_map(placed, seed=5, device=device), ds.random_map(placed, seed=5), strict=True)
    differ = sum(not all(np.array_equal(a, b) for a, b in zip(*pair, strict=True)) for pair in pairs)

    rows = hr.Dataset.from_tensor_slices((jpegs(), np.arange(scale.distinct))).shuffle(100, seed=4).repeat(2)
    ds = rows.random_map(augmentation(), seed=6, device=device).batch(4)
    feed = ds.to_torch(device=device)
    states, batches = [], []
    for batch in feed:
        states.append(feed.state_dict())
        batches.append(batch)
    wrong = 0
    for step in np.random.default_rng(7).integers(0, len(batches) - 2, scale.resumes).tolist():
        again = ds.to_torch(device=device)
        again.load_state_dict(states[step])
        with iter(again) as it:
            for expected in batches[step + 1 : step + 3]:
                wrong += not all(bool((a == b).all()) for a, b in zip(next(it), expected, strict=True))
    return {"device": device, "draws that differ": differ, "resumes": scale.resumes, "batches that differ": wrong}


def pixels() -> Found:
    """The largest differences to the CPU path, in levels of 255: decoding, and the whole pipeline."""
    _, device = torch_anywhere()
    files = jpegs()[:64]
    ds = hr.Dataset.from_tensor_slices((files, np.arange(len(files))))

    def largest(**how: Any) -> float:
        def decode(jpeg: Any, label: Any) -> Any:
            del label
            return hr.image.decode_jpeg(jpeg, channels=3, **how)

        pairs = zip(ds.map(decode, device=device, approximate=True), ds.map(decode), strict=True)
        return float(max(np.abs(a.astype(int) - b).max() for a, b in pairs))

    exact = largest(dct_method="INTEGER_ACCURATE", fancy_upscaling=False)
    pairs = zip(
        ds.random_map(augmentation(), seed=1, device=device), ds.random_map(augmentation(), seed=1), strict=True
    )
    whole = max(float(np.abs((a[0] - b[0]) * DEVIATION).max()) for a, b in pairs) * 255
    return {"device": device, "decode": exact, "decode, defaults": largest(), "pipeline": whole}


def damaged() -> Found:
    """JPEGs of which some bytes were changed: those that are an error, or have other pixels, on one side only."""
    _, device = torch_anywhere()
    rng, files = np.random.default_rng(0), []
    for jpeg in jpegs()[:64]:
        content = np.frombuffer(jpeg, np.uint8).copy()
        content[rng.integers(1000, len(content) - 2, 2)] = rng.integers(0, 256, 2)
        files.append(content.tobytes())
    ds = hr.Dataset.from_tensor_slices((files, np.arange(len(files))))

    def decode(jpeg: Any, label: Any) -> Any:
        return hr.image.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE", fancy_upscaling=False), label

    there, here = (
        {int(label): image for image, label in made.ignore_errors()}
        for made in (ds.map(decode, device=device), ds.map(decode))
    )
    both = there.keys() & here.keys()
    other = [label for label in both if not np.array_equal(there[label], here[label])]
    return {"device": device, "errors on one side": len(there.keys() ^ here.keys()), "other pixels": len(other)}


def operations() -> Found:
    """The largest difference to the CPU path by operation, in levels of 255."""
    _, device = torch_anywhere()
    files = jpegs()[:8]
    i, size = hr.image, (57, 66)
    changes: dict[str, Callable[..., Any]] = {
        "random_crop": lambda image, rng: i.random_crop(image, size, rng),
        "random_flip_left_right": i.random_flip_left_right,
        "rot90": lambda image, _: i.rot90(image, 3),
        "resize": lambda image, _: i.resize(image, size),
        "resize, antialias": lambda image, _: i.resize(image, size, antialias=True),
        "resize, uint8": lambda image, _: i.resize(image, size, dtype=np.uint8),
        "random_resized_crop": lambda image, rng: i.random_resized_crop(image, size, rng),
        "random_brightness": lambda image, rng: i.random_brightness(image, 0.3, rng),
        "random_contrast": lambda image, rng: i.random_contrast(image, 0.5, 1.5, rng),
        "random_saturation": lambda image, rng: i.random_saturation(image, 0.5, 1.5, rng),
        "random_hue": lambda image, rng: i.random_hue(image, 0.2, rng),
        "rgb_to_grayscale": lambda image, _: i.rgb_to_grayscale(image),
        "adjust_gamma": lambda image, _: i.adjust_gamma(image, 0.7, 1.1),
        "per_image_standardization": lambda image, _: i.per_image_standardization(image),
    }
    decoded = hr.Dataset.from_tensor_slices([i.decode_jpeg(jpeg, channels=3) for jpeg in files])
    found: Found = {"device": device}
    for name, change in changes.items():
        pairs = zip(decoded.random_map(change, seed=2, device=device), decoded.random_map(change, seed=2), strict=True)
        found[name] = max(float(np.abs(a.astype(np.float64) - b).max()) for a, b in pairs)
    return found


def on_torchs_cpu() -> Found:
    """The same code on PyTorch's CPU device against NumPy on one thread: for information, it is meant for tests."""
    torch_anywhere()
    files = jpegs()[:64]
    ds = hr.Dataset.from_tensor_slices((files, np.arange(len(files))))

    def rate(how: dict[str, Any]) -> float:
        started = time.perf_counter()
        rows = sum(len(batch[1]) for batch in ds.random_map(augmentation(), seed=1, **how).batch(32))
        return rows / (time.perf_counter() - started)

    found = turns({"numpy": partial(rate, {}), "cpu": partial(rate, {"device": "cpu"})})
    return {"of NumPy": found["cpu"] / found["numpy"], "images/s": found["cpu"]}


LINES: dict[str, tuple[Callable[[], Found], str]] = {
    "ResNet-50 bf16 from JPEG TFRecords, augmented on the GPU": (resnet50, "≥ 0.95 of resident, ≤ 2 CPU cores"),
    "ResNet-50 bf16 from JPEG TFRecords, augmented on the CPU": (resnet50_on_the_cpu, "for comparison"),
    "feed alone": (feed_alone, "≥ 12,000 images/s"),
    "CPU alone: JPEG → random_resized_crop, flip, uint8 batches": (crops_on_the_cpu, "≥ 1.0 of full decodes"),
    "CPU alone: JPEG → 224 → batch against tf.data on 2 cores": (against_tf_data, "≥ 1.6, first pass too"),
    "ResNet-18 bf16 on 224² arrays, flip and colour jitter": (resnet18_on_arrays, "≥ 0.98 of resident"),
    "chain of colours": (chain_of_colours, "for information"),
    "draws and resume": (draws_and_resume, "none differ"),
    "pixels against the CPU path": (pixels, "decode 0, pipeline ≤ 1; with the defaults stated: ≤ 25"),
    "pixels by operation": (operations, "crop, flip 0; resize ≤ 1; others stated in docs/device.md"),
    "from_generator of JPEG paths": (generator_of_paths, "≥ 3 times as fast as on the CPU"),
    "memory over a long run": (memory, "flat"),
    "kill -9": (killed, "nothing left"),
    "PyTorch's CPU device": (on_torchs_cpu, "for information"),
    "damaged JPEGs": (damaged, "for information"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="lines with this in their name")
    parser.add_argument("--rounds", type=int, help=f"rounds of every line (default {scale.rounds})")
    parser.add_argument("--seconds", type=float, help=f"of the line on memory (default {scale.seconds:.0f})")
    parser.add_argument("--small", action="store_true", help="few small images and steps: does every line run?")
    given = parser.parse_args()
    if given.small:
        use(SMALL)
    scale.rounds = given.rounds or scale.rounds
    scale.seconds = given.seconds or scale.seconds
    print(f"{os.cpu_count()} CPUs", flush=True)
    begin, broken = time.perf_counter(), 0
    for name, (measure, asked) in LINES.items():
        if given.only and not any(text.lower() in name.lower() for text in given.only):
            continue
        started = time.perf_counter()
        try:
            found = measure()
        except SkippedError as why:
            print(f"{name}: skipped, {why}", flush=True)
            continue
        except Exception:  # the other lines are still worth their time
            broken += 1
            print(f"{name}: failed\n{traceback.format_exc()}", flush=True)
            continue
        shown = ", ".join(f"{k} {v:,.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in found.items())
        print(f"{name}: {shown} (asked: {asked}) [{time.perf_counter() - started:.0f} s]", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s", flush=True)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
