"""class Dataset: the table of contents, and iteration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic

from headrace.adapters.numpy import as_numpy_iterator
from headrace.core.deferred import Deferred, resolves_deferred
from headrace.core.types import Attribute, JsonObject, Nested
from headrace.distribute.distribute import distribute
from headrace.errors import ElementError
from headrace.formats.shared.list_files import list_files
from headrace.indexed.counter import counter, random
from headrace.indexed.memory import from_tensor_slices, from_tensors
from headrace.indexed.range import range
from headrace.iterator import Epochs, Iterator, Settings
from headrace.names import KnownNames, MissingNameError
from headrace.ops.batch import batch
from headrace.ops.batch_by_tokens import batch_by_tokens
from headrace.ops.bucket_by_sequence_length import bucket_by_sequence_length
from headrace.ops.cache import cache
from headrace.ops.choose import choose_from_datasets, sample_from_datasets
from headrace.ops.chunk import chunk
from headrace.ops.concatenate import concatenate
from headrace.ops.enumerate import enumerate
from headrace.ops.filter import filter
from headrace.ops.flat_map import flat_map
from headrace.ops.group_by_window import group_by_window
from headrace.ops.ignore_errors import ignore_errors
from headrace.ops.interleave import interleave
from headrace.ops.map import Map, map
from headrace.ops.map_batches import map_batches
from headrace.ops.pack import pack
from headrace.ops.padded_batch import padded_batch
from headrace.ops.prefetch import prefetch
from headrace.ops.progress import progress
from headrace.ops.ragged_batch import ragged_batch
from headrace.ops.random_map import random_map
from headrace.ops.rebatch import rebatch
from headrace.ops.rejection_resample import rejection_resample
from headrace.ops.repeat import repeat
from headrace.ops.scan import scan
from headrace.ops.shard import shard
from headrace.ops.shared.by_number import counted_plan
from headrace.ops.shared.select import select_rows
from headrace.ops.shuffle.shuffle import shuffle
from headrace.ops.skip import skip
from headrace.ops.skip_steps import skip_steps
from headrace.ops.snapshot import snapshot
from headrace.ops.split import split
from headrace.ops.take import take
from headrace.ops.take_while import take_while
from headrace.ops.throttle import throttle
from headrace.ops.unbatch import unbatch
from headrace.ops.unique import unique
from headrace.ops.weighted_sample import weighted_sample
from headrace.ops.window import window
from headrace.ops.with_options import options, with_options
from headrace.ops.zip import zip
from headrace.physical.explain import explanation
from headrace.plan.capabilities import check_follows_device
from headrace.plan.cardinality import INFINITE, UNKNOWN
from headrace.plan.datasets import holds_plans
from headrace.plan.element import Element
from headrace.plan.explain import Explanation, plan_lines, plan_table, summary
from headrace.plan.node import Node, rebuild, user_site, walk
from headrace.plan.spec import Spec
from headrace.sinks.values import apply, get_single_element, reduce
from headrace.sources.generator import from_generator
from headrace.trace.function import Function
from headrace.trace.watching import WatchedFunction

if TYPE_CHECKING:
    from headrace.adapters.jax import to_jax
    from headrace.adapters.keras import to_keras
    from headrace.adapters.torch import to_torch
    from headrace.cluster.distribute_over import distribute_over
    from headrace.formats.csv.from_csv import from_csv
    from headrace.indexed.stored import load
    from headrace.io.from_tfrecord import from_tfrecord
    from headrace.observe.debug import debug
    from headrace.observe.rows import rows_of
    from headrace.observe.why import headroom_of, why_slow
    from headrace.sinks.count import count
    from headrace.sinks.save import save
    from headrace.sinks.statistics import statistics
    from headrace.sinks.to_arrow import arrow_c_stream, to_arrow, to_pandas, to_polars
    from headrace.sinks.to_dask import to_dask
    from headrace.sinks.to_ray import to_ray
    from headrace.sinks.write_parquet import write_parquet
    from headrace.sinks.write_sql import write_sql
    from headrace.sinks.write_tfrecord import write_tfrecord
    from headrace.sinks.write_webdataset import write_webdataset
    from headrace.sources.arrow import from_arrow
    from headrace.sources.batches import from_batches
    from headrace.sources.engines import from_dask, from_ray
    from headrace.sources.huggingface import from_huggingface
    from headrace.sources.image_folder import from_image_folder
    from headrace.sources.pandas import from_pandas
    from headrace.sources.polars import from_polars
    from headrace.sources.spark import from_spark
    from headrace.sources.sql.from_sql import from_sql
    from headrace.sources.text_folder import from_text_folder
    from headrace.sources.torch import from_torch
    from headrace.tfds.write_tfds import write_tfds
else:  # imported when they are first used
    to_jax = Deferred("headrace.adapters.jax")
    to_keras = Deferred("headrace.adapters.keras")
    to_torch = Deferred("headrace.adapters.torch")
    distribute_over = Deferred("headrace.cluster.distribute_over")
    debug = Deferred("headrace.observe.debug")
    rows_of = Deferred("headrace.observe.rows")
    headroom_of = Deferred("headrace.observe.why", "headroom_of")
    why_slow = Deferred("headrace.observe.why")
    count = Deferred("headrace.sinks.count")
    save = Deferred("headrace.sinks.save")
    statistics = Deferred("headrace.sinks.statistics")
    arrow_c_stream = Deferred("headrace.sinks.to_arrow", "arrow_c_stream")
    to_arrow = Deferred("headrace.sinks.to_arrow")
    to_pandas = Deferred("headrace.sinks.to_arrow")
    to_polars = Deferred("headrace.sinks.to_arrow")
    to_dask = Deferred("headrace.sinks.to_dask")
    to_ray = Deferred("headrace.sinks.to_ray")
    write_parquet = Deferred("headrace.sinks.write_parquet")
    write_sql = Deferred("headrace.sinks.write_sql")
    write_tfds = Deferred("headrace.tfds.write_tfds")
    write_tfrecord = Deferred("headrace.sinks.write_tfrecord")
    write_webdataset = Deferred("headrace.sinks.write_webdataset")
    from_arrow = Deferred("headrace.sources.arrow")
    from_batches = Deferred("headrace.sources.batches")
    from_dask = Deferred("headrace.sources.engines")
    from_ray = Deferred("headrace.sources.engines")
    from_csv = Deferred("headrace.formats.csv.from_csv")
    from_tfrecord = Deferred("headrace.io.from_tfrecord")
    from_huggingface = Deferred("headrace.sources.huggingface")
    from_image_folder = Deferred("headrace.sources.image_folder")
    from_pandas = Deferred("headrace.sources.pandas")
    from_polars = Deferred("headrace.sources.polars")
    from_spark = Deferred("headrace.sources.spark")
    from_sql = Deferred("headrace.sources.sql.from_sql")
    load = Deferred("headrace.indexed.stored")
    from_text_folder = Deferred("headrace.sources.text_folder")
    from_torch = Deferred("headrace.sources.torch")


def _first_spec(node: Node) -> Spec | None:
    """Infer the spec from the first element, None if there is none or it fails. Starts no processes."""
    eager: JsonObject = {"mode": "eager"}
    here = rebuild(node, lambda n: replace(n, **eager) if getattr(n, "mode", None) == "process" else n)
    watcher = None
    if isinstance(here, Map):
        watcher = WatchedFunction(here.fn, here.input.spec)
        here = replace(here, fn=watcher, function=Function(watcher, "eager"), mode="eager")
    with Iterator(here, Epochs()) as it:
        try:
            first = Spec.of(next(it)).without_sizes()
        except (StopIteration, ElementError):
            return None
    seen = None if watcher is None else watcher.spec
    return first if seen is None or first.mismatch(seen) else seen


@holds_plans
@resolves_deferred
class Dataset(Generic[Element], metaclass=KnownNames):
    """A sequence of elements: nested tuples and dicts of arrays. Made by a source, changed by operations, iterated.

    Whatever made it, it is one: `isinstance(ds, hr.Dataset)`. Readers such as `hr.TFRecordDataset` are functions.

    >>> ds = hr.Dataset.range(6).map(lambda x: x * 10).batch(4)
    >>> for batch in ds:
    ...     print(batch)
    [ 0 10 20 30]
    [40 50]
    """

    from_tensors: Final = staticmethod(from_tensors)
    from_tensor_slices: Final = staticmethod(from_tensor_slices)
    from_arrow: Final = staticmethod(from_arrow)
    from_batches: Final = staticmethod(from_batches)
    from_csv: Final = staticmethod(from_csv)
    from_dask: Final = staticmethod(from_dask)
    from_generator: Final = staticmethod(from_generator)
    load: Final = staticmethod(load)
    from_huggingface: Final = staticmethod(from_huggingface)
    from_image_folder: Final = staticmethod(from_image_folder)
    from_pandas: Final = staticmethod(from_pandas)
    from_polars: Final = staticmethod(from_polars)
    from_ray: Final = staticmethod(from_ray)
    from_spark: Final = staticmethod(from_spark)
    from_sql: Final = staticmethod(from_sql)
    from_text_folder: Final = staticmethod(from_text_folder)
    from_tfrecord: Final = staticmethod(from_tfrecord)
    from_torch: Final = staticmethod(from_torch)
    range: Final = staticmethod(range)
    counter: Final = staticmethod(counter)
    list_files: Final = staticmethod(list_files)
    random: Final = staticmethod(random)
    zip: Final = staticmethod(zip)
    choose_from_datasets: Final = staticmethod(choose_from_datasets)
    sample_from_datasets: Final = staticmethod(sample_from_datasets)

    apply = apply
    as_numpy_iterator = as_numpy_iterator
    batch = batch
    batch_by_tokens = batch_by_tokens
    bucket_by_sequence_length = bucket_by_sequence_length
    cache = cache
    chunk = chunk
    concatenate = concatenate
    count = count
    debug = debug
    statistics = statistics
    distribute = distribute
    distribute_over = distribute_over
    enumerate = enumerate
    filter = filter
    flat_map = flat_map
    get_single_element = get_single_element
    group_by_window = group_by_window
    headroom = headroom_of
    ignore_errors = ignore_errors
    interleave = interleave
    map = map
    map_batches = map_batches
    options = options
    pack = pack
    padded_batch = padded_batch
    prefetch = prefetch
    progress = progress
    ragged_batch = ragged_batch
    random_map = random_map
    rebatch = rebatch
    reduce = reduce
    rejection_resample = rejection_resample
    repeat = repeat
    rows_of = rows_of
    save = save
    scan = scan
    shard = shard
    shuffle = shuffle
    skip = skip
    skip_steps = skip_steps
    snapshot = snapshot
    split = split
    take = take
    take_while = take_while
    throttle = throttle
    to_arrow = to_arrow
    to_dask = to_dask
    to_jax = to_jax
    to_keras = to_keras
    to_pandas = to_pandas
    to_polars = to_polars
    to_ray = to_ray
    to_torch = to_torch
    unbatch = unbatch
    unique = unique
    weighted_sample = weighted_sample
    why_slow = why_slow
    window = window
    with_options = with_options
    write_parquet = write_parquet
    write_sql = write_sql
    write_tfds = write_tfds
    write_tfrecord = write_tfrecord
    write_webdataset = write_webdataset

    __add__ = concatenate
    __arrow_c_stream__ = arrow_c_stream
    __getitem__ = select_rows

    _headrace_component = True

    def __init__(self, node: Node) -> None:
        if not isinstance(node, Node):
            raise TypeError(
                f"make a Dataset with from_tensor_slices, from_generator or another source, not of {node!r}"
            )
        check_follows_device(node)
        self._node = node
        self._epochs = Epochs()

    def _then(self, operation: Callable[..., Node], *args: object, name: str | None = None) -> Dataset:
        """Return the dataset after one more operation, which remembers the user's line."""
        return Dataset(operation(self._node, *args, site=user_site(), name=name))

    if not TYPE_CHECKING:  # a type checker should still know which names there are

        def __getattr__(self, name: str) -> Attribute:
            raise MissingNameError("hr.Dataset", name)

    def __iter__(self) -> Iterator[Element]:
        return self.iterator()

    def iterator(self, state: JsonObject | None = None) -> Iterator[Element]:
        """Return a new pass, from the start or from a state that an iterator's `state()` gave.

        Args:
            state: State returned by an iterator's `state()`.

        >>> ds = hr.Dataset.range(10).shuffle(4, seed=1).batch(3)
        >>> with ds.iterator() as it:
        ...     first = next(it)
        ...     state = it.state()
        ...     rest = list(it)
        >>> again = list(ds.iterator(state=state))
        >>> [a.tolist() for a in again] == [a.tolist() for a in rest]
        True
        """
        return Iterator(self._node, self._epochs, state=state)

    @cached_property
    def _counted(self) -> Node:
        """Return the plan with elements read by number, counted if necessary."""
        return counted_plan(self._node)

    def _iterator(self, settings: Settings, state: JsonObject | None = None) -> Iterator:
        return Iterator(self._node, self._epochs, settings, state)

    @property
    def element_spec(self) -> Nested:
        """What the elements look like: TensorSpecs in the structure of an element.

        If a function's result is unknown, the first element is made once, and its sizes count as unknown.

        >>> hr.Dataset.range(5).batch(2).element_spec
        TensorSpec(shape=(None,), dtype=int64)
        """
        for node in walk(self._node):
            probe = getattr(node, "probe", None)
            if probe is None or probe.spec is not None or node.spec.complete:
                continue
            given = [below.spec for below in node.inputs]
            if all(spec.complete for spec in given):  # else the first element does not determine the others
                first = _first_spec(node)
                ranked = all(leaf.shape is not None for spec in given for leaf in spec.leaves)
                probe.spec = first if ranked or first is None else first.without_ranks()
        return self._node.spec.public()

    @property
    def class_names(self) -> list[str]:
        """The classes that labels are numbers of, for a dataset that was made of folders.

        >>> for name in ("rain", "fog"):
        ...     (folder / name).mkdir()
        ...     _ = (folder / name / "1.txt").write_text(name)
        >>> hr.Dataset.from_text_folder(folder).shuffle(2).class_names
        ['fog', 'rain']
        """
        names = next((found for node in walk(self._node) if (found := getattr(node, "class_names", ()))), ())
        if not names:
            raise AttributeError("this dataset has no class_names: only sources such as from_image_folder have them")
        return list(names)

    @property
    def file_paths(self) -> list[str]:
        """The files that a dataset made of folders reads, in the order in which it lists them.

        >>> (folder / "fog").mkdir()
        >>> _ = (folder / "fog" / "1.txt").write_text("thick")
        >>> hr.text_dataset_from_directory(folder).file_paths == [str(folder / "fog" / "1.txt")]
        True
        """
        paths = next((found for node in walk(self._node) if (found := getattr(node, "file_paths", ()))), ())
        if not paths:
            raise AttributeError("this dataset has no file_paths: only sources such as from_image_folder have them")
        return list(paths)

    def cardinality(self) -> int:
        """Return the number of elements, or INFINITE_CARDINALITY, or UNKNOWN_CARDINALITY.

        >>> hr.Dataset.range(5).repeat().cardinality() == hr.INFINITE_CARDINALITY
        True
        """
        return int(self._node.cardinality)

    def __len__(self) -> int:
        count = self._node.cardinality
        if "torch.utils.data" in sys.modules:
            from headrace.adapters.plain_loader import warn_of_sampler

            warn_of_sampler(self._node)
        if count.known:
            return count
        if count == INFINITE:
            raise TypeError("the length of this dataset is infinite; take(n) of it has one")
        unknown = next(node for node in walk(self._node) if node.cardinality == UNKNOWN)
        raise TypeError(
            "the length of this dataset is not known before the end, "
            f"since {unknown.operation} ({unknown.site}) does not tell it; ds.count() reads it through, and len(ds[:]) "
            "counts what can be indexed"
        )

    def __bool__(self) -> bool:
        return True

    def explain(self, *, physical: bool = True) -> Explanation:
        """Show the plan as written and the plan that runs, with the reason for each choice.

        A function that could not be traced is marked "row by row", with the reason.

        Args:
            physical: Whether to show the plan that runs. False shows the plan as written alone.

        Returns:
            Text for `print`, and a table in notebooks.

        >>> print(hr.Dataset.range(3).batch(2).explain())  # doctest: +ELLIPSIS
        plan:
          batch(batch_size=2)  → int64[?] × 2   ...
            range(start=0, stop=3)  → int64 × 3   ...
        runs as:
          prefetch(buffer_size=AUTOTUNE)  → int64[?] × 2   [if it helps]
            batch(batch_size=2)  → int64[?] × 2   ...
              range(start=0, stop=3)  → int64 × 3   ...
        because:
          ...
        """
        return explanation(self._node, physical=physical)

    def __repr__(self) -> str:
        return summary("Dataset", self._node)

    def __format__(self, form: str) -> str:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        keras = caller.startswith("keras.")  # which says only that it does not recognise this
        return format(f"{self!r}: give it ds.to_keras()" if keras else repr(self), form)

    def _repr_html_(self) -> str:
        return plan_table(plan_lines(self._node), repr(self))
