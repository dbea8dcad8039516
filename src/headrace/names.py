"""Names that people look for: where the thing is, or why it is not here.

`hr.experimental.unbatch`, `hr.data.Dataset`, `hr.Dataset.from_list`: code that was written for tf.data, and first
guesses, get an answer. The tables of tf.data's names are checked against the installed TensorFlow.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

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
    "experimental.TFRecordWriter": "Dataset.write_tfrecord",
    "experimental.at": "Dataset.__getitem__",
    "experimental.bucket_by_sequence_length": "Dataset.bucket_by_sequence_length",
    "experimental.cardinality": "Dataset.cardinality",
    "experimental.choose_from_datasets": "Dataset.choose_from_datasets",
    "experimental.dense_to_ragged_batch": "Dataset.ragged_batch",
    "experimental.enumerate_dataset": "Dataset.enumerate",
    "experimental.from_list": "Dataset.from_tensor_slices",
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
"""Where tf.data's names are now."""

NOT_YET = {
    "files": [
        "experimental.make_batched_features_dataset",
        "experimental.parse_example_dataset",
    ],
}
"""Names of tf.data, and parameters of names, that are still to come, by topic."""

UNTIL_THEN = {
    "experimental.make_batched_features_dataset": "hr.TFRecordDataset(files).batch(n).map(parse) says it",
    "experimental.parse_example_dataset": "map with hr.io.parse_example says it",
}

GRAPH = "it is about TensorFlow's graphs and their variants"
DEVICE = "it is about TensorFlow's devices: ds.to_torch(device=...), ds.to_jax()"
SERVICE = "it is about TensorFlow's data service and its strategies: here ds.distribute_over(hr.cluster.local(4))"
TUNING = "one option, cpu_budget or ram_budget, says it"
OBSOLETE = "it is obsolete in tf.data: write the two operations"
NO_SPARSE = "there are no sparse tensors"
NEXT = "next(it, default) says it"
TABLES = "it is about TensorFlow's lookup tables: a dict does it"

NOT_HERE = {
    "Dataset.fingerprint": GRAPH,
    "Dataset.sparse_batch": NO_SPARSE,
    "Iterator.get_next_as_optional": NEXT,
    "IteratorSpec": "an iterator is no component of an element",
    "ThreadingOptions": TUNING,
    "experimental.AutoShardPolicy": SERVICE,
    "experimental.AutotuneAlgorithm": TUNING,
    "experimental.AutotuneOptions": TUNING,
    "experimental.DatasetInitializer": GRAPH,
    "experimental.DistributeOptions": SERVICE,
    "experimental.ExternalStatePolicy": GRAPH,
    "experimental.OptimizationOptions": "the optimiser changes nothing that can be seen",
    "experimental.Optional": NEXT,
    "experimental.Reducer": "group_by_window or scan says it",
    "experimental.SHARD_HINT": SERVICE,
    "experimental.ServiceOptions": SERVICE,
    "experimental.ThreadingOptions": TUNING,
    "experimental.assert_cardinality": "it is a promise that nobody checks before the end",
    "experimental.copy_to_device": DEVICE,
    "experimental.dense_to_sparse_batch": NO_SPARSE,
    "experimental.distributed_save": SERVICE,
    "experimental.enable_debug_mode": 'map(..., mode="eager") calls a function on each element',
    "experimental.from_variant": GRAPH,
    "experimental.get_model_proto": GRAPH,
    "experimental.get_next_as_optional": NEXT,
    "experimental.group_by_reducer": "group_by_window or scan says it",
    "experimental.index_table_from_dataset": TABLES,
    "experimental.make_saveable_from_iterator": "it.state() says it",
    "experimental.map_and_batch": OBSOLETE,
    "experimental.pad_to_cardinality": SERVICE,
    "experimental.prefetch_to_device": DEVICE,
    "experimental.service": SERVICE,
    "experimental.shuffle_and_repeat": OBSOLETE,
    "experimental.table_from_dataset": TABLES,
    "experimental.to_variant": GRAPH,
}
"""Names of tf.data that are not here, and why."""

GUESSES = {
    "data": "tf.data's names stand in hr itself: hr.Dataset, not hr.data.Dataset",
    "strings": "tf.strings' functions are in hr.text",
    "lookup": "it is hr.text.Vocabulary, or hr.preprocessing.StringLookup",
    "Dataset.describe": "it is ds.statistics()",
    "Dataset.from_dict": "hr.Dataset.from_tensor_slices takes a dict of arrays",
    "Dataset.from_json": "it is hr.JsonLinesDataset",
    "Dataset.from_list": "hr.Dataset.from_tensor_slices takes lists, from_generator anything else",
    "Dataset.from_numpy": "it is hr.Dataset.from_tensor_slices",
    "Dataset.from_parquet": "it is hr.ParquetDataset",
    "Dataset.from_text": "it is hr.TextLineDataset",
    "Dataset.from_tensor": "hr.Dataset.from_tensors is of one element, from_tensor_slices of the rows of arrays",
    "Dataset.head": "it is ds.take(n)",
    "Dataset.as_numpy": "it is ds.as_numpy_iterator()",
    "Dataset.make_initializable_iterator": "iter(ds) says it",
    "Dataset.make_one_shot_iterator": "iter(ds) says it",
    "Dataset.numpy": "it is ds.as_numpy_iterator()",
    "Dataset.output_shapes": "it is ds.element_spec",
    "Dataset.output_types": "it is ds.element_spec",
    "Dataset.to_list": "list(ds) says it",
    "Dataset.to_numpy": "ds.as_numpy_iterator() gives arrays, ds.batch(n).get_single_element() all at once",
    "io.TFRecordOptions": "hr.io.TFRecordWriter(path, compression_type) takes it",
    "io.gfile": "fsspec opens files by URL",
    "io.match_filenames_once": "it is hr.Dataset.list_files",
    "io.matching_files": "it is hr.Dataset.list_files",
    "io.read_file": "pathlib.Path(path).read_bytes() says it",
    "io.write_file": "pathlib.Path(path).write_bytes(data) says it",
}
"""What else people look for."""


class MissingNameError(AttributeError):
    """No such name in `home`, and what to write instead: found out when somebody reads it, since many only ask."""

    def __init__(self, home: str, name: str) -> None:
        super().__init__(home, name)
        self._home, self._wanted = home, name

    def __str__(self) -> str:
        path = f"{self._home}.{self._wanted}".removeprefix("hr.")
        return f"{self._home} has no {self._wanted}: {_hint(path, self._home, self._wanted)}"


def _hint(path: str, home: str, name: str) -> str:
    for table in (GUESSES, NOT_HERE, UNTIL_THEN):
        if path in table:
            return table[path]
    if path in ANOTHER_NAME:
        there = ANOTHER_NAME[path]
        return UNTIL_THEN.get(there, f"it is hr.{there} here")
    for other in ("hr", "hr.Dataset", "hr.io", "hr.image"):
        if name in _names(other):
            return f"it is {other}.{name}"
    near = get_close_matches(name, _names(home), 1, 0.7)
    if near:
        return f"did you mean {home.removesuffix('experimental').rstrip('.')}.{near[0]}?"
    return f"dir({home}) shows what there is"


def _names(home: str) -> list[str]:
    import headrace

    if home == "hr.Dataset":
        return [name for name in dir(headrace.Dataset) if not name.startswith("_")]
    homes = {"hr.io": headrace.io.__all__, "hr.image": headrace.image.__all__}
    return homes.get(home, headrace.__all__)


class Experimental:
    """`hr.experimental`: tf.data's names that are the same here; of the others, where they are."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            another = ANOTHER_NAME.get(f"experimental.{name}", name) != name
            if name.startswith("__") or another or name not in _names("hr"):
                raise MissingNameError("hr.experimental", name)
            import headrace

            return getattr(headrace, name)

    def __dir__(self) -> list[str]:
        return [name for name in _names("hr") if ANOTHER_NAME.get(f"experimental.{name}") == name]


class KnownNames(type):
    """The class of a class that knows what people look for in it."""

    if not TYPE_CHECKING:  # a type checker should still know which names there are

        def __getattr__(cls, name: str) -> Any:
            raise MissingNameError("hr.Dataset", name)
