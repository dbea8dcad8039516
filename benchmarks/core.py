"""What the core promises: speed against tf.data and PyTorch, states, memory, import time, overhead.

Every line says what was asked and what was measured. Speeds are ratios of sides that took turns in one run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, Job, UnsupportedError, alternating, batches, elements, fresh, main
from peers import tensorflow, untuned

import headrace as hr
from headrace.iterator import Settings

IMAGES = 60_000
BUFFER = 10_000
BATCH = 128
CHUNK = 1_000
MEGABYTE_LIMIT = 1.3 * 100
HEAVY = ("torch", "tensorflow", "jax", "keras", "pyarrow", "pandas")


@cache
def images() -> tuple[np.ndarray, np.ndarray]:
    """As many and as large as MNIST's."""
    random = np.random.default_rng(0)
    return random.integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8), random.integers(0, 10, IMAGES)


# Both libraries take the same calls: `data` is hr, or tf.data.


def slices(data: Any) -> Any:
    return data.Dataset.from_tensor_slices(images())


def stream(data: Any) -> Any:
    """Rows that come in turn and cannot be indexed."""
    source = data.Dataset.from_tensor_slices
    return source(images()).batch(CHUNK).flat_map(lambda x, y: source((x, y)))


def shuffled(dataset: Any) -> Any:
    return dataset.shuffle(BUFFER).batch(BATCH)


def prefetched(dataset: Any) -> Any:
    return shuffled(dataset).prefetch(hr.AUTOTUNE)


def tfd() -> Any:
    return tensorflow().data


def torch_rows() -> Any:
    import torch
    from torch.utils.data import TensorDataset

    return TensorDataset(*map(torch.from_numpy, images()))


def torch_loader(**options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(torch_rows(), batch_size=BATCH, shuffle=True, **options)


def torch_whole_batches() -> Any:
    """What few write: the sampler gives the dataset all numbers of a batch at once, and nothing is collated."""
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    rows = torch_rows()
    return DataLoader(rows, batch_size=None, sampler=BatchSampler(RandomSampler(rows), BATCH, drop_last=False))


def on_one_thread(job: Job) -> Job:
    """Without PyTorch's own threads, which cost small copies more than they bring."""

    def alone() -> int:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return job()
        finally:
            torch.set_num_threads(before)

    return alone


def counted() -> Iterator[int]:
    yield from range(30_000)


def from_generator(data: Any, spec: Any) -> Any:
    return data.Dataset.from_generator(counted, output_signature=spec).batch(BATCH)


def tf_generator() -> Any:
    tf = tensorflow()
    return from_generator(tf.data, tf.TensorSpec((), tf.int64))


SPEED = [
    Case(
        "slices, shuffled and batched",
        asked={"tf.data": 10, "PyTorch": 10},
        rows=IMAGES,
        sides={
            "headrace": batches(lambda: prefetched(slices(hr))),
            "tf.data": {
                "plain": batches(lambda: prefetched(slices(tfd()))),
                "no prefetch": batches(lambda: shuffled(slices(tfd()))),
                "autotune off": batches(lambda: untuned(prefetched(slices(tfd())))),
                "parallel batch": batches(
                    lambda: slices(tfd()).shuffle(BUFFER).batch(BATCH, num_parallel_calls=-1).prefetch(-1)
                ),
            },
            "PyTorch": {
                "no workers": batches(torch_loader),
                "no workers, 1 thread": on_one_thread(batches(torch_loader)),
                "2 workers": batches(lambda: torch_loader(num_workers=2, timeout=120)),
            },
            "PyTorch, whole batches": {
                "all threads": batches(torch_whole_batches),
                "1 thread": on_one_thread(batches(torch_whole_batches)),
            },
        },
    ),
    Case(
        "stream, shuffled and batched",
        asked={"tf.data": 8},
        rows=IMAGES,
        sides={
            "headrace": batches(lambda: prefetched(stream(hr))),
            "tf.data": {
                "flat_map": batches(lambda: prefetched(stream(tfd()))),
                "flat_map, autotune off": batches(lambda: untuned(prefetched(stream(tfd())))),
                "unbatch": batches(lambda: prefetched(slices(tfd()).batch(CHUNK).unbatch())),
                "unbatch, autotune off": batches(lambda: untuned(prefetched(slices(tfd()).batch(CHUNK).unbatch()))),
            },
        },
    ),
    Case(
        "range, batched",
        asked={"tf.data": 100},
        rows=2_000_000,
        sides={
            "headrace": batches(lambda: hr.Dataset.range(2_000_000).batch(1024)),
            "tf.data": {
                "plain": batches(lambda: tfd().Dataset.range(2_000_000).batch(1024)),
                "autotune off": batches(lambda: untuned(tfd().Dataset.range(2_000_000).batch(1024))),
            },
        },
    ),
    Case(
        "generator, batched",
        asked={"tf.data": 40},
        rows=30_000,
        sides={
            "headrace": batches(lambda: from_generator(hr, hr.TensorSpec((), np.int64))),
            "tf.data": {
                "plain": batches(tf_generator),
                "prefetch": batches(lambda: tf_generator().prefetch(-1)),
                "autotune off": batches(lambda: untuned(tf_generator())),
            },
        },
    ),
    Case(
        "range, one by one",
        asked={"tf.data": 30},
        rows=100_000,
        sides={
            "headrace": elements(lambda: hr.Dataset.range(100_000)),
            "tf.data": {
                "plain": elements(lambda: tfd().Dataset.range(100_000)),
                "as_numpy_iterator": elements(lambda: tfd().Dataset.range(100_000), lambda ds: ds.as_numpy_iterator()),
                "autotune off": elements(lambda: untuned(tfd().Dataset.range(100_000))),
            },
        },
    ),
]


Source = Callable[[Any], Any]


@cache
def halfway(source: Source) -> tuple[hr.Dataset, hr.Iterator]:
    """A pass that stands in the middle of its epoch."""
    dataset = shuffled(source(hr))
    iterator = dataset.iterator()
    for _ in islice(iterator, IMAGES // BATCH // 2):
        pass
    return dataset, iterator


def state_bytes(source: Source) -> Callable[[int], Sequence[float]]:
    return lambda rounds: [len(json.dumps(halfway(source)[1].state())) for _ in range(rounds)]


def state_milliseconds(source: Source, calls: int = 200) -> Callable[[int], Sequence[float]]:
    def once() -> float:
        state = halfway(source)[1].state
        started = perf_counter()
        for _ in range(calls):
            state()
        return 1e3 * (perf_counter() - started) / calls

    return lambda rounds: [once() for _ in range(rounds)]


@cache
def saved(source: Source) -> tuple[hr.Dataset, dict[str, Any]]:
    """A state from the middle of an epoch, once it has been seen to lead to the right batch."""
    dataset, iterator = halfway(source)
    state = iterator.state()
    with dataset.iterator(state=state) as again:
        np.testing.assert_array_equal(next(again)[0], next(iterator)[0])
    iterator.restore(state)
    return dataset, state


def restored(source: Source) -> Job:
    """A full buffer again, and the first batch out of it; closing is part of it."""

    def job() -> int:
        dataset, state = saved(source)
        with dataset.iterator(state=state) as iterator:
            next(iterator)
        return BUFFER

    return job


@cache
def scattered() -> np.ndarray:
    return np.random.default_rng(1).permutation(IMAGES)[:BUFFER]


def gathered() -> int:
    return len(images()[0][scattered()])


STATES = [
    Bound("state over slices, size", 4096, "B", state_bytes(slices), judge=max),
    Bound("state over slices, time", 1, "ms", state_milliseconds(slices)),
    Bound("state over a stream, size", 4096, "B", state_bytes(stream), judge=max),
    Bound("state over a stream, time", 1, "ms", state_milliseconds(stream)),
    Case(
        "restore over slices",
        asked={"NumPy x[10,000 rows]": 1},
        rows=BUFFER,
        sides={"headrace": restored(slices), "NumPy x[10,000 rows]": gathered},
    ),
    Case(
        "restore over a stream",
        asked={},
        rows=BUFFER,
        sides={"headrace": restored(stream), "NumPy x[10,000 rows]": gathered},
    ),
]


@cache
def probed(name: str, rounds: int) -> list[dict[str, float]]:
    """What a process of its own found, once a round."""
    if not sys.platform.startswith("linux"):
        raise UnsupportedError("the peak of memory is read from Linux's /proc")
    probes = str(Path(__file__).with_name("probes.py"))
    return [json.loads(fresh(probes, name)) for _ in range(rounds)]


def probe(name: str, key: str) -> Callable[[int], Sequence[float]]:
    return lambda rounds: [found[key] for found in probed(name, rounds)]


MEMORY = [
    Bound("memory of a 100 MB shuffle, peak", MEGABYTE_LIMIT, "MB", probe("shuffle_memory", "peak"), judge=max),
    Bound("memory of a 100 MB shuffle, after close", 20, "MB", probe("shuffle_memory", "left"), judge=max),
    Bound("memory with prefetch, after close", 20, "MB", probe("threads", "left"), judge=max),
    Bound("threads while prefetch runs", None, "threads", probe("threads", "running"), judge=max),
    Bound("threads after close", 0, "threads", probe("threads", "alive"), judge=max),
]


@cache
def started(code: str, rounds: int) -> list[tuple[float, float]]:
    """CPU seconds and peak MB of new interpreters that run this."""
    measure = (
        "import sys, time; seconds = time.process_time(); "
        "peak = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0]; "
        "print(seconds, int(peak) / 1024)"
    )
    fresh("-c", code)  # writes the bytecode
    lines = [fresh("-c", f"{code}\n{measure}").split() for _ in range(max(5, rounds))]
    return [(float(seconds), float(megabytes)) for seconds, megabytes in lines]


def import_lines(name: str, code: str, *, judged: bool = True) -> list[Bound]:
    """Return the two lines of some code that a new interpreter runs."""
    return [
        Bound(f"{name}, CPU", 0.25 if judged else None, "s", lambda n: [t[0] for t in started(code, n)], judge=min),
        Bound(f"{name}, peak", 60 if judged else None, "MB", lambda n: [t[1] for t in started(code, n)], judge=min),
    ]


def heavy_imports(rounds: int) -> Sequence[float]:  # noqa: ARG001 - one look is enough
    code = f"import headrace, sys; headrace.Dataset; print(sum(m in sys.modules for m in {HEAVY}))"
    return [float(fresh("-c", code))]


IMPORT = [
    *import_lines("import headrace", "import headrace"),
    *import_lines("import headrace, with the first Dataset", "import headrace; headrace.Dataset.range(3)"),
    *import_lines("import numpy, pyarrow", "import numpy, pyarrow", judged=False),
    Bound("import headrace, heavy modules with it", 0, "modules", heavy_imports),
]


def one_row_blocks(dataset: hr.Dataset) -> float:
    """Seconds of a pass in blocks of one row, every operation as it was written."""
    with dataset._iterator(Settings(block_rows=1, optimise=False)) as iterator:
        started = perf_counter()
        for _ in iterator:
            pass
        return perf_counter() - started


def stage_microseconds(add: Callable[[hr.Dataset], hr.Dataset], stages: int, blocks: int = 20_000) -> Any:
    def measure(rounds: int) -> Sequence[float]:
        bare = staged = hr.Dataset.range(blocks)
        for _ in range(stages):
            staged = add(staged)
        values = []
        for _ in range(rounds):
            took = alternating(3, lambda: one_row_blocks(bare), lambda: one_row_blocks(staged))
            without, with_stages = (min(seconds) for seconds in zip(*took, strict=True))
            values.append(1e6 * (with_stages - without) / blocks / stages)
        return values

    return measure


OVERHEAD = [
    Bound("overhead a block and stage, take", 10, "µs", stage_microseconds(lambda ds: ds.take(-1), 10)),
    Bound("overhead a block and stage, skip", 10, "µs", stage_microseconds(lambda ds: ds.skip(0), 10)),
    Bound("overhead a block and stage, enumerate", 10, "µs", stage_microseconds(lambda ds: ds.enumerate(), 1)),
]

if __name__ == "__main__":
    sys.exit(main("headrace: the core", [*SPEED, *STATES, *MEMORY, *IMPORT, *OVERHEAD], description=__doc__))
