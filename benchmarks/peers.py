"""The libraries that headrace is compared with, imported where they are used and at their best."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from harness import Job, batches


@cache
def tensorflow() -> ModuleType:
    """TensorFlow without its log, and on the CPU: its elements must not travel to a GPU and back."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    return tf


def untuned(dataset: Any) -> Any:
    """A tf.data dataset without the autotuner, which costs cheap elements more than it brings them."""
    options = tensorflow().data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def numpy_batches(build: Callable[[], Any]) -> Job:
    """Batches of tf.data as NumPy arrays, which is what headrace gives."""
    return batches(lambda: _AsNumpy(build()))


class _AsNumpy:
    def __init__(self, ds: Any) -> None:
        self._ds = ds

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ds.as_numpy_iterator())


def forms(builds: dict[str, Callable[[], Any]], job: Callable[..., Job] = numpy_batches) -> dict[str, Job]:
    """Every way to build it, with and without tf.data's tuning, and with a prefetch."""
    made = {}
    for name, build in builds.items():
        made[name] = job(build)
        made[f"{name}, autotune off"] = job(lambda build=build: untuned(build()))
        made[f"{name}, prefetch"] = job(lambda build=build: untuned(build().prefetch(2)))
    return made


def ours(build: Callable[[], Any]) -> dict[str, Job]:
    """A dataset of headrace, as written and with a prefetch."""
    return {"as written": batches(build), "with prefetch": batches(lambda: build().prefetch(2))}
