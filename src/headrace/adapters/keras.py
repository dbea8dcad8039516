"""Keras 3: what `fit`, `evaluate` and `predict` read, on every backend."""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.adapters.feed import Feed, FeedIterator, framework
from headrace.adapters.numpy import NumpyFeed
from headrace.execute.stats import Stats
from headrace.plan.cardinality import INFINITE
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import Structure, flatten
from headrace.plan.widening import warn_of_float64

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def to_keras(self: Dataset, *, class_weight: Mapping[int, float] | None = None, prefetch: int | None = None) -> Any:
    """What `model.fit(ds.to_keras(), validation_data=val.to_keras(), epochs=3)` takes; `evaluate` and `predict` too.

    Elements are batches: `x`, `(x, y)` or `(x, y, sample_weight)`, where `x` may be a dict of named inputs. The
    progress bar knows the length of an epoch where `len(ds)` is known (where it is not, Keras says at the end of the
    first epoch that the data ran out); an infinite dataset needs `steps_per_epoch`, or is refused. With the torch
    backend on a GPU batches are there `prefetch` (2) ahead; with JAX, Keras itself sees to it.

    Keras hands `fit(class_weight=…)` only to its own kinds of data: give it here instead. There, it is an error.

    >>> ds = hr.Dataset.from_tensor_slices((np.zeros((5, 2), np.float32), [0, 1, 0, 1, 0])).batch(2)
    >>> ds.to_keras(class_weight={0: 1.0, 1: 3.0}).num_batches
    3
    """
    framework("keras", "to_keras")
    warn_of_float64(self._node, "to_keras")
    batches = self if class_weight is None else _with_weights(self, class_weight)
    return _adapter_class()(_check_elements(batches), prefetch)


def _with_weights(batches: Dataset, class_weight: Mapping[int, float]) -> Dataset:
    """With the weights of their rows; where shapes are known they stay so, since models are built by them."""
    spec = batches._node.spec
    pair = batches.element_spec if spec.known and not batches._node.tentative else None
    signature = None
    if isinstance(pair, tuple) and len(pair) == 2:
        rows = batches._node.leading
        signature = (*pair, TensorSpec((rows,), np.float32))
    return batches.map(Weighted(class_weight), output_signature=signature)


class Weighted:
    """Adds the weight of each row's class to `(x, y)`."""

    def __init__(self, weights: Mapping[int, float]) -> None:
        self._weights = np.ones(max(weights) + 1, np.float32)
        self._weights[list(weights)] = list(weights.values())

    def __call__(self, *batch: Any) -> tuple[Any, ...]:
        if len(batch) != 2:
            raise ValueError("to_keras: class_weight is for batches (x, y), without weights of their own")
        x, y = batch
        labels = np.asarray(y)
        one_hot = labels.ndim > 1 and labels.shape[-1] > 1
        classes = labels.argmax(-1) if one_hot else labels.reshape(len(labels), -1)[:, 0].astype(np.int64)
        return x, y, np.where(classes < len(self._weights), self._weights.take(classes, mode="clip"), np.float32(1))


def _check_elements(batches: Dataset) -> Dataset:
    """Refuse elements that Keras would take apart wrongly."""
    spec = batches._node.spec
    structure: Structure | None = spec.structure if spec.known else None
    if structure is not None and structure.kind is tuple and not 1 <= len(structure.children) <= 3:
        raise ValueError(
            f"to_keras takes batches x, (x, y) or (x, y, sample_weight), not tuples of {len(structure.children)}: "
            "several inputs go into a dict or a tuple of their own, as ((a, b), y)"
        )
    return batches


@cache
def _adapter_class() -> type[Any]:
    """The class, made where keras is imported. Keras takes any DataAdapter as it is."""
    keras = framework("keras", "to_keras")
    base: Any = framework("keras.src.trainers.data_adapters.data_adapter", "to_keras").DataAdapter
    if not _arguments_are_seen():
        warnings.warn(
            f"Keras {keras.__version__} keeps the arguments of fit elsewhere than headrace looks: class_weight, y and "
            "sample_weight given to fit beside to_keras() are ignored without a word",
            stacklevel=3,
        )

    class KerasFeed(Passes, base):  # type: ignore[misc]
        """A dataset as Keras reads it: each epoch a pass, begun when its first batch is asked for."""

        def get_numpy_iterator(self) -> Iterator[Any]:
            return self._batches()

        get_jax_iterator = get_torch_dataloader = get_numpy_iterator

        def get_tf_dataset(self) -> Any:
            tf = framework("tensorflow", "to_keras on the tensorflow backend")
            structure, specs = flatten(self._dataset.element_spec)
            signature = structure.around(tf.TensorSpec(s.shape, s.dtype) for s in specs)
            return tf.data.Dataset.from_generator(self._batches, output_signature=standard(signature))

        def _make_feed(self) -> Feed:
            if keras.backend.backend() == "torch":
                return self._dataset.to_torch(keras.ops.zeros(()).device, prefetch=self._prefetch)
            return NumpyFeed(self._dataset, prefetch=self._prefetch or 0)

    return KerasFeed


def _arguments_are_seen() -> bool:
    """Whether this version of Keras begins a fit as `refuse_what_keras_ignores` expects."""
    try:
        begin = importlib.import_module("keras.src.trainers.epoch_iterator").EpochIterator.__init__
    except (ImportError, AttributeError):
        return False
    return {"class_weight", "y", "sample_weight", "steps_per_epoch"} <= set(inspect.signature(begin).parameters)


LOOKED_AT = 2
"""Keras takes a batch or two to learn their shapes, and then begins anew."""


class Passes:
    """The passes of a feed, as Keras begins and ends them."""

    batch_size = None
    has_partial_batch = None
    partial_batch_size = None

    def __init__(self, dataset: Dataset, prefetch: int | None) -> None:
        self._dataset = dataset
        self._prefetch = prefetch
        self._first = True
        self._begun: FirstPass | None = None

    def _make_feed(self) -> Feed:
        raise NotImplementedError

    @cached_property
    def _feed(self) -> Feed:
        return self._make_feed()

    @property
    def num_batches(self) -> int | None:
        """The batches of an epoch, None where that is not known. Keras asks for it at the beginning of every fit."""
        refuse_what_keras_ignores(sys._getframe(1), infinite=self._feed._node.cardinality == INFINITE)
        return self._count

    @property
    def _count(self) -> int | None:
        count = self._feed._node.cardinality
        return int(count) if count.known else None

    def _batches(self) -> Iterator[Any]:
        begun, self._begun = self._begun, None
        first, self._first = self._first, False
        if begun is not None and begun.looked_at:
            fed = begun.fed
            yield from begun.given
        else:
            fed = iter(self._feed)
        given: list[Any] = []
        for batch in fed:
            first = first and len(given) < LOOKED_AT
            if first:
                given.append(standard(batch))
            self._begun = FirstPass(fed, given) if first else None
            yield standard(batch)
        self._begun = None

    def on_epoch_begin(self) -> None:
        """A pass begins with its first batch."""

    def on_epoch_end(self) -> None:
        """What has given a batch or two of many was looked at, and goes on as the first epoch."""
        if self._begun is not None:
            self._begun.looked_at = len(self._begun.given) != self._count

    def stats(self) -> Stats:
        """What each stage has done in the newest pass, and under "starvation" how long Keras waited and computed."""
        return self._feed.stats()

    def state_dict(self) -> dict[str, Any]:
        """Where the newest pass stands."""
        return self._feed.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Have the next pass go on where `state_dict()` was taken."""
        self._feed.load_state_dict(state_dict)
        self._begun = None


def refuse_what_keras_ignores(frame: FrameType | None, *, infinite: bool) -> None:
    """Raise where `fit`, `evaluate` or `predict` was given what it does not hand on to a DataAdapter.

    Keras tells an adapter nothing of its arguments, and would train without the weights, or for ever. They stand in the
    frame that asks.
    """
    while frame is not None and not (frame.f_code.co_name == "__init__" and "class_weight" in frame.f_locals):
        if not str(frame.f_globals.get("__name__")).startswith("keras."):
            return
        frame = frame.f_back
    asked = {} if frame is None else frame.f_locals
    if asked.get("class_weight") is not None:
        raise ValueError("Keras does not hand class_weight on to batches: give it to ds.to_keras(class_weight=...)")
    for name, form in (("y", "(x, y)"), ("sample_weight", "(x, y, sample_weight)")):
        if asked.get(name) is not None:
            raise ValueError(f"Keras does not hand {name} on to batches: have the dataset's elements be {form}")
    if infinite and asked and asked.get("steps_per_epoch") is None:
        raise ValueError(
            "an epoch of this infinite dataset would never end: give steps_per_epoch to fit, steps to evaluate and "
            "predict, validation_steps for validation_data, or take(n) of it"
        )


@dataclass
class FirstPass:
    """A first pass that has given very little yet."""

    fed: FeedIterator
    given: list[Any]
    looked_at: bool = False


def standard(batch: Any) -> Any:
    """What Keras takes apart into inputs, targets and weights: a tuple, or a dict of inputs."""
    return batch if isinstance(batch, tuple | Mapping) else (batch,)
