"""Every public name of tf.data is here and takes what it takes there, or a table, which cannot go stale, says why."""

import inspect

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

ANOTHER_NAME = {
    "NumpyIterator": "Iterator",
    "NumpyIterator.next": "Iterator.__next__",
    "NumpyIterator.restore": "Iterator.restore",
    "NumpyIterator.save": "Iterator.state",
    "Iterator.get_next": "Iterator.__next__",
    "Iterator.element_spec": "Dataset.element_spec",
    "experimental.AUTOTUNE": "AUTOTUNE",
    "experimental.INFINITE_CARDINALITY": "INFINITE_CARDINALITY",
    "experimental.UNKNOWN_CARDINALITY": "UNKNOWN_CARDINALITY",
    "experimental.Counter": "Dataset.counter",
    "experimental.CsvDataset": "CsvDataset",
    "experimental.RandomDataset": "Dataset.random",
    "experimental.SqlDataset": "SqlDataset",
    "experimental.TFRecordWriter": "io.TFRecordWriter",
    "experimental.at": "Dataset.__getitem__",
    "experimental.bucket_by_sequence_length": "Dataset.bucket_by_sequence_length",
    "experimental.cardinality": "Dataset.cardinality",
    "experimental.choose_from_datasets": "Dataset.choose_from_datasets",
    "experimental.dense_to_ragged_batch": "Dataset.ragged_batch",
    "experimental.enumerate_dataset": "Dataset.enumerate",
    "experimental.get_single_element": "Dataset.get_single_element",
    "experimental.get_structure": "Dataset.element_spec",
    "experimental.group_by_window": "Dataset.group_by_window",
    "experimental.ignore_errors": "Dataset.ignore_errors",
    "experimental.load": "Dataset.load",
    "experimental.make_csv_dataset": "make_csv_dataset",
    "experimental.parallel_interleave": "Dataset.interleave",
    "experimental.rejection_resample": "Dataset.rejection_resample",
    "experimental.sample_from_datasets": "Dataset.sample_from_datasets",
    "experimental.save": "Dataset.save",
    "experimental.scan": "Dataset.scan",
    "experimental.snapshot": "Dataset.snapshot",
    "experimental.take_while": "Dataset.take_while",
    "experimental.unbatch": "Dataset.unbatch",
    "experimental.unique": "Dataset.unique",
}

NOT_YET = {
    "files": [
        "SqlDataset",
        "experimental.make_batched_features_dataset",
        "experimental.parse_example_dataset",
    ],
}
"""Names, and parameters of names, that are still to come, by topic."""

GRAPH = "about TensorFlow's graphs and their variants"
DEVICE = "about TensorFlow's devices"
SERVICE = "about TensorFlow's data service and its distribution strategies"
TUNING = "one option, `cpu_budget` or `ram_budget`, says it"
OBSOLETE = "obsolete in tf.data: write the two operations"
NO_SPARSE = "there are no sparse tensors"
NEXT = "`next(it, default)` says it"

NOT_HERE = {
    "Dataset.fingerprint": GRAPH,
    "Dataset.sparse_batch": NO_SPARSE,
    "Iterator.get_next_as_optional": NEXT,
    "IteratorSpec": "an iterator is no component of an element",
    "Options.autotune": TUNING,
    "Options.dataset_name": "`name` at an operation says it",
    "Options.experimental_deterministic": "obsolete in tf.data: `deterministic`",
    "Options.experimental_distribute": SERVICE,
    "Options.experimental_external_state_policy": "functions that cannot be replayed run again from their marks",
    "Options.experimental_optimization": "the optimiser changes nothing that can be seen",
    "Options.experimental_service": SERVICE,
    "Options.experimental_slack": DEVICE,
    "Options.experimental_symbolic_checkpoint": "states are symbolic always",
    "Options.experimental_threading": TUNING,
    "Options.experimental_warm_start": "nothing runs before the first `next()`",
    "Options.framework_type": GRAPH,
    "Options.threading": TUNING,
    "ThreadingOptions": TUNING,
    "experimental": "its names stand among the others",
    "experimental.AutoShardPolicy": SERVICE,
    "experimental.AutotuneAlgorithm": TUNING,
    "experimental.AutotuneOptions": TUNING,
    "experimental.DatasetInitializer": GRAPH,
    "experimental.DistributeOptions": SERVICE,
    "experimental.ExternalStatePolicy": GRAPH,
    "experimental.OptimizationOptions": "the optimiser changes nothing that can be seen",
    "experimental.Optional": NEXT,
    "experimental.Reducer": "`group_by_window` or `scan` says it",
    "experimental.SHARD_HINT": SERVICE,
    "experimental.ServiceOptions": SERVICE,
    "experimental.ThreadingOptions": TUNING,
    "experimental.assert_cardinality": "a promise that nobody checks before the end",
    "experimental.copy_to_device": DEVICE,
    "experimental.dense_to_sparse_batch": NO_SPARSE,
    "experimental.distributed_save": SERVICE,
    "experimental.enable_debug_mode": "functions are called as they are written",
    "experimental.from_list": "`from_tensor_slices`, or `from_generator(lambda: elements, …)`",
    "experimental.from_variant": GRAPH,
    "experimental.get_model_proto": GRAPH,
    "experimental.get_next_as_optional": NEXT,
    "experimental.group_by_reducer": "`group_by_window` or `scan` says it",
    "experimental.index_table_from_dataset": "about TensorFlow's lookup tables",
    "experimental.make_saveable_from_iterator": "`it.state()` says it",
    "experimental.map_and_batch": OBSOLETE,
    "experimental.pad_to_cardinality": SERVICE,
    "experimental.prefetch_to_device": DEVICE,
    "experimental.service": SERVICE,
    "experimental.shuffle_and_repeat": OBSOLETE,
    "experimental.table_from_dataset": "about TensorFlow's lookup tables",
    "experimental.to_variant": GRAPH,
}

OTHER_PARAMETERS = {
    "Dataset": "made by a source",
    "Dataset.shuffle": "`buffer_size` may be left out",
    "Dataset.with_options": "`options` may be left out, for `frozen=`",
    "Iterator": "made by `iter(ds)`",
}


def public(path, home):
    return [f"{path}{name}" for name in dir(home) if not name.startswith("_")]


NAMES = [
    *public("", tf.data),
    *public("experimental.", tf.data.experimental),
    *public("Dataset.", tf.data.Dataset),
    *public("Options.", tf.data.Options),
    *public("Iterator.", tf.data.Iterator),
    *public("NumpyIterator.", tf.data.NumpyIterator),
]
PENDING = [name for names in NOT_YET.values() for name in names]
HERE = [name for name in NAMES if name not in {*NOT_HERE, *ANOTHER_NAME, *PENDING}]


NOTHING = object()


def at(library, path):
    """What stands at a path, or NOTHING."""
    for name in path.split("."):
        library = getattr(library, name, NOTHING)
    return library


def difference(theirs, ours):
    """What a call to tf.data's function could not do here, or None."""
    places = list(parameters(ours).values())
    for place, theirs_one in enumerate(parameters(theirs).values()):
        by_name = theirs_one.kind is inspect.Parameter.KEYWORD_ONLY
        ours_one = parameters(ours).get(theirs_one.name) if by_name else next(iter(places[place : place + 1]), None)
        if ours_one is None or ours_one.name != theirs_one.name:
            return f"no `{theirs_one.name}`, or not in its place"
        if not by_name and ours_one.kind is not theirs_one.kind:
            return f"`{theirs_one.name}` cannot be given by position"
        if plain(ours_one.default) != plain(theirs_one.default):
            return f"`{theirs_one.name}` is {ours_one.default!r} by default, and not {theirs_one.default!r}"
    known = {*parameters(theirs)}
    more = [p.name for p in places if p.name not in known and p.kind is not inspect.Parameter.KEYWORD_ONLY]
    return f"{more} could be given by position" if more else None


def parameters(function):
    found = inspect.signature(function).parameters
    return {name: p for name, p in found.items() if p.kind is not inspect.Parameter.VAR_KEYWORD}


def plain(default):
    return np.dtype(getattr(default, "as_numpy_dtype", default)) if is_dtype(default) else default


def is_dtype(default):
    return isinstance(default, tf.DType) or (isinstance(default, type) and issubclass(default, np.generic))


@pytest.mark.parametrize("name", HERE)
def test_a_name_of_tf_data_is_here(name):
    theirs, ours = at(tf.data, name), at(hr, name)
    assert ours is not NOTHING, "neither here nor in a table"
    if isinstance(theirs, int):
        assert ours == theirs
    if callable(theirs) and name not in OTHER_PARAMETERS and not any(p.startswith(f"{name}(") for p in PENDING):
        assert difference(theirs, ours) is None


@pytest.mark.parametrize("name", OTHER_PARAMETERS)
def test_parameters_that_differ_still_do(name):
    assert difference(at(tf.data, name), at(hr, name)) is not None


@pytest.mark.parametrize("name", ANOTHER_NAME)
def test_another_name_is_here(name):
    target = ANOTHER_NAME[name]
    assert name in NAMES
    assert at(hr, name) is NOTHING, "here under its own name as well"
    assert at(hr, target) is not NOTHING or target in PENDING


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_is_not_here_is_not(name):
    assert name in NAMES
    assert at(hr, name) is NOTHING


@pytest.mark.parametrize("name", PENDING)
def test_what_is_not_yet_here_is_not(name):
    name, _, parameter = name.rstrip(")").partition("(")
    if parameter:
        assert parameter not in parameters(at(hr, name))
        return
    homes = [name, name.replace("experimental.", ""), name.replace("experimental.", "Dataset.")]
    assert all(at(hr, home) is NOTHING for home in homes), "it is here now: take it out of NOT_YET"
