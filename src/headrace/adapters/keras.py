"""Keras 3: what `fit`, `evaluate` and `predict` read, on every backend."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.adapters.feed import Feed
from headrace.adapters.numpy import NumpyFeed
from headrace.core.frameworks import framework
from headrace.core.types import Component, JsonObject, Library, LibraryObject, Nested
from headrace.errors import StateError
from headrace.execute.state import packed
from headrace.execute.stats import Stats
from headrace.iterator import Epochs, Settings
from headrace.iterator import Iterator as PassIterator
from headrace.ops.shared.keywords import explain_keywords
from headrace.plan.cardinality import INFINITE
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import Structure, flatten
from headrace.plan.widening import warn_of_float64

if TYPE_CHECKING:
    from headrace.dataset import Dataset


@explain_keywords
def to_keras(
    self: Dataset, *, class_weight: Mapping[int, float] | None = None, prefetch: int | None = None
) -> LibraryObject:
    """Return an object that `model.fit`, `evaluate` and `predict` of Keras accept.

    Elements are batches: `x`, `(x, y)` or `(x, y, sample_weight)`, and `x` may be a dict of named inputs. The progress
    bar knows the length of an epoch if `len(ds)` is known (if not, Keras warns at the end of the first epoch that the
    data ran out); an infinite dataset without `steps_per_epoch` is an error. With the torch backend on a GPU batches
    are copied `prefetch` (2) ahead; with JAX, Keras does this itself.

    Keras hands `fit(class_weight=…)` only to its own kinds of data: give it here instead. There, it is an error.

    `state_dict()` and `load_state_dict()` save and resume behind the last batch that the model was given. A
    preprocessing layer learns from it, too: `layer.adapt(ds.to_keras())` reads the inputs of one epoch (from Keras
    3.14 on).

    Args:
        class_weight: Weight of each class in the loss.
        prefetch: Number of elements to prepare ahead. Default: 2 on an accelerator, 0 on the CPU.

    >>> ds = hr.Dataset.from_tensor_slices((np.zeros((5, 2), np.float32), [0, 1, 0, 1, 0])).batch(2)
    >>> ds.to_keras(class_weight={0: 1.0, 1: 3.0}).num_batches
    3
    """
    import_keras()
    warn_of_float64(self._node, "to_keras")
    batches = self if class_weight is None else _with_weights(self, class_weight)
    return _adapter_class()(_check_elements(batches), prefetch)


BACKENDS = ("jax", "torch", "tensorflow")


def import_keras() -> Library:
    """Import Keras. Raise ImportError with the missing backend and the installed ones."""
    try:
        return framework("keras", "to_keras")
    except ValueError as error:
        if "backend" not in str(error):
            raise
        raise ValueError(
            f"to_keras: {error}: KERAS_BACKEND, or keras.json, names no backend of Keras: {', '.join(BACKENDS)}"
        ) from error
    except ModuleNotFoundError as error:
        if error.name not in BACKENDS:
            raise
        there = [name for name in BACKENDS if importlib.util.find_spec(name) is not None]
        remedy = f'os.environ["KERAS_BACKEND"] = "{there[0]}"' if there else "pip install jax, torch or tensorflow, and"
        raise ModuleNotFoundError(
            f"to_keras: Keras wants the backend {error.name}, which is not installed "
            f"(installed: {', '.join(there) or 'none'}): {remedy} before the first import of keras",
            name=error.name,
        ) from None


def _with_weights(batches: Dataset, class_weight: Mapping[int, float]) -> Dataset:
    """Add the weights of rows; known shapes stay known, because models are built from them."""
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

    def __call__(self, *batch: object) -> tuple[Any, ...]:
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
    if any(isinstance(leaf, TensorSpec) and leaf.shape == () for leaf in spec.leaves):
        raise ValueError(
            f"to_keras takes batches, and these elements have a component without a batch axis ({spec}): "
            "write ds.batch(32).to_keras()"
        )
    return batches


@cache
def _adapter_class() -> type[Any]:
    """Return the class, created once keras is imported. Keras takes any DataAdapter as it is."""
    keras = framework("keras", "to_keras")
    base: LibraryObject = framework("keras.src.trainers.data_adapters.data_adapter", "to_keras").DataAdapter
    if not _arguments_are_seen():
        warnings.warn(
            f"Keras {keras.__version__} keeps the arguments of fit elsewhere than headrace looks: class_weight, y and "
            "sample_weight given to fit beside to_keras() are silently ignored",
            stacklevel=3,
        )

    class KerasFeed(Passes, base):  # type: ignore[misc]
        """A dataset as Keras reads it: each epoch a pass, begun when its first batch is requested."""

        def __iter__(self) -> Iterator[Nested]:
            """Yield the inputs of the first epoch: what `layer.adapt` of Keras reads. Training is not affected."""
            for batch in PassIterator(self._dataset._node, Epochs(), Settings(frozen=True)):
                yield batch[0] if isinstance(batch, tuple) else batch

        def get_numpy_iterator(self) -> Iterator[Nested]:
            return self._batches()

        get_jax_iterator = get_torch_dataloader = get_numpy_iterator

        def get_tf_dataset(self) -> LibraryObject:
            tf = framework("tensorflow", "to_keras on the tensorflow backend")
            structure, specs = flatten(self._dataset.element_spec)
            signature = structure.around(tf.TensorSpec(s.shape, s.dtype) for s in specs)
            batches = tf.data.Dataset.from_generator(self._batches, output_signature=standard(signature))
            return _read_directly(tf, batches.with_options(without_read_ahead(tf)), self)

        def _ahead_of_model(self) -> str | None:
            if keras.backend.backend() == "jax":
                if _version(keras) < EXACT_ON_JAX:
                    return f"Keras {keras.__version__} on JAX"
                if framework("jax", "to_keras").default_backend() != "cpu":
                    return "Keras on JAX with an accelerator"
            return super()._ahead_of_model()

        def _make_feed(self) -> Feed:
            if keras.backend.backend() == "torch":
                return self._dataset.to_torch(keras.ops.zeros(()).device, prefetch=self._prefetch)
            return NumpyFeed(self._dataset, prefetch=self._prefetch or 0)

    return KerasFeed


EXACT_ON_JAX = (3, 15)
"""From this version on, Keras on JAX reads a batch ahead of the model on accelerators only."""


def _version(keras: Library) -> tuple[int, ...]:
    return tuple(map(int, keras.__version__.split(".")[:2]))


def without_read_ahead(tf: Library) -> LibraryObject:
    """Return options with which tf.data asks for a batch only when the model does: so the state counts what it got.

    tf.data would add a prefetch of its own at the end. headrace reads ahead instead, and knows what was delivered.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return options


def _read_directly(tf: Library, batches: Nested, passes: Passes) -> LibraryObject:
    """Return the same tf.data.Dataset, which notes in `passes` that the model itself reads it.

    A `tf.distribute` strategy builds a pipeline of its own over it instead, with buffers for each device.
    """

    class Direct(tf.data.Dataset):  # type: ignore[misc]
        """A dataset that knows when it is iterated over as it is."""

        def __init__(self) -> None:
            super().__init__(tf.data.experimental.to_variant(batches))

        def _inputs(self) -> list[Component]:
            return [batches]

        @property
        def element_spec(self) -> Nested:
            return batches.element_spec

        def __iter__(self) -> LibraryObject:
            passes._through_strategy = False
            return iter(batches)

    passes._through_strategy = True  # until the model reads it directly
    return Direct()


def _arguments_are_seen() -> bool:
    """Return whether this version of Keras begins a fit as `refuse_what_keras_ignores` expects."""
    try:
        begin = importlib.import_module("keras.src.trainers.epoch_iterator").EpochIterator.__init__
    except (ImportError, AttributeError):
        return False
    return {"class_weight", "y", "sample_weight", "steps_per_epoch"} <= set(inspect.signature(begin).parameters)


MAX_PEEKED_BATCHES = 2
"""Keras takes a batch or two to learn their shapes, and then begins again."""


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
        self._through_strategy = False

    def _make_feed(self) -> Feed:
        raise NotImplementedError

    @cached_property
    def _feed(self) -> Feed:
        return self._make_feed()

    @property
    def num_batches(self) -> int | None:
        """Return the batches of an epoch, None if unknown. Keras reads it at the beginning of every fit."""
        refuse_what_keras_ignores(sys._getframe(1), infinite=self._feed._node.cardinality == INFINITE)
        return self._count

    @property
    def _count(self) -> int | None:
        count = self._feed._node.cardinality
        return int(count) if count.known else None

    def _batches(self) -> Iterator[Nested]:
        begun, self._begun = self._begun, None
        first, self._first = self._first, False
        fed: Iterator[Nested]
        if begun is not None and begun.looked_at:
            fed = begun.fed
            yield from begun.given
        else:
            fed = self._next_pass()
        given: list[Component] = []
        for batch in fed:
            first = first and len(given) < MAX_PEEKED_BATCHES
            if first:
                given.append(standard(batch))
            self._begun = FirstPass(fed, given) if first else None
            yield standard(batch)
        self._begun = None

    def _next_pass(self) -> Iterator[Nested]:
        """Begin a pass; after a state at the last batch of an epoch, the one of the next epoch.

        Such a state leaves nothing of its epoch, and Keras fails on an epoch without batches.
        """
        resumed = self._feed._resume is not None
        fed = iter(self._feed)
        if not resumed:
            return fed
        first = list(islice(fed, 1))
        return chain(first, fed) if first else iter(self._feed)

    def on_epoch_begin(self) -> None:
        """Do nothing: a pass begins with its first batch."""

    def on_epoch_end(self) -> None:
        """Treat a pass that gave only a batch or two of many as a peek: it continues as the first epoch."""
        if self._begun is not None:
            self._begun.looked_at = len(self._begun.given) != self._count

    def stats(self) -> Stats:
        """Return what each stage has done in the newest pass, and under "starvation" how long Keras waited and
        computed.
        """
        return self._feed.stats()

    def state_dict(self) -> JsonObject:
        """Return the position after the last batch that the model was given.

        Raises:
            StateError: if Keras reads batches ahead of the model: under a `tf.distribute` strategy, and within an
                epoch with JAX on an accelerator (before Keras 3.15, with JAX on any device).
        """
        state = self._feed._state()
        ahead = self._ahead_of_model()
        if ahead is not None and self._feed._newest is not None and not state["over"]:
            raise StateError(
                f"{ahead} reads batches ahead of the model, so the number that the model was given is not known: save "
                "at the end of an epoch, train on the torch backend (or on tensorflow without a strategy), or iterate "
                "over ds.to_jax() in your own loop; there a state is exact at every step"
            )
        return packed(state)

    def _ahead_of_model(self) -> str | None:
        """Return what reads batches ahead of the model, None if nothing does."""
        return "the tf.distribute strategy" if self._through_strategy else None

    def load_state_dict(self, state_dict: JsonObject) -> None:
        """Let the next pass continue where `state_dict()` was taken."""
        self._feed.load_state_dict(state_dict)
        self._begun = None


def refuse_what_keras_ignores(frame: FrameType | None, *, infinite: bool) -> None:
    """Raise if `fit`, `evaluate` or `predict` got arguments that it does not pass on to a DataAdapter.

    Keras tells an adapter nothing about its arguments, and would train without the weights, or forever. They are read
    from the calling frame.
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
            raise ValueError(f"Keras does not hand {name} on to batches: make the dataset's elements {form}")
    if infinite and asked and asked.get("steps_per_epoch") is None:
        raise ValueError(
            "an epoch of this infinite dataset would never end: give steps_per_epoch to fit, steps to evaluate and "
            "predict, validation_steps for validation_data, or take(n) of it"
        )


@dataclass
class FirstPass:
    """A first pass that has given very little yet."""

    fed: Iterator[Nested]
    given: list[Component]
    looked_at: bool = False


def standard(batch: object) -> Nested:
    """Return what Keras takes apart into inputs, targets and weights: a tuple, or a dict of inputs."""
    return batch if isinstance(batch, tuple | Mapping) else (batch,)
