"""The libraries that headrace is compared with, imported where they are used and at their best."""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import Any


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
