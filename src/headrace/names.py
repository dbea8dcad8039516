"""Names that people look for: where the thing is, or why it is not here.

`hr.experimental.unbatch`, `hr.data.Dataset`, `hr.Dataset.from_list`: code that was written for tf.data, and first
guesses, get an answer. The tables of tf.data's names are checked against the installed TensorFlow.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import reduce
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
    "experimental.CsvDataset": "CsvDataset",
    "experimental.SqlDataset": "SqlDataset",
    "experimental.at": "Dataset.__getitem__",
    "experimental.from_list": "Dataset.from_tensor_slices",
    "experimental.make_csv_dataset": "make_csv_dataset",
    "experimental.parallel_interleave": "Dataset.interleave",
    "experimental.save": "Dataset.save",
    "experimental.snapshot": "Dataset.snapshot",
}
"""Where tf.data's names are now."""

THE_SAME = {
    "strings": "text",
    "io.decode_and_crop_jpeg": "image.decode_and_crop_jpeg",
    "io.decode_bmp": "image.decode_bmp",
    "io.decode_image": "image.decode_image",
    "io.decode_jpeg": "image.decode_jpeg",
    "io.decode_png": "image.decode_png",
    "io.encode_jpeg": "image.encode_jpeg",
    "io.encode_png": "image.encode_png",
    "io.extract_jpeg_shape": "image.extract_jpeg_shape",
    "io.is_jpeg": "image.is_jpeg",
    "experimental.RandomDataset": "Dataset.random",
}
"""Names that stand for the same thing under another one."""

APPLIED = {
    "experimental.bucket_by_sequence_length": "bucket_by_sequence_length",
    "experimental.dense_to_ragged_batch": "ragged_batch",
    "experimental.enumerate_dataset": "enumerate",
    "experimental.group_by_window": "group_by_window",
    "experimental.ignore_errors": "ignore_errors",
    "experimental.rejection_resample": "rejection_resample",
    "experimental.scan": "scan",
    "experimental.take_while": "take_while",
    "experimental.unbatch": "unbatch",
    "experimental.unique": "unique",
}
"""tf.data's functions for `ds.apply`, each with the operation that it stands for."""

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
SEQUENCES = "there are no sequence columns: ragged features, and hr.preprocessing's layers for them, say it"
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
    "io.match_filenames_once": "it is hr.io.matching_files, or hr.Dataset.list_files",
    "io.decode_gif": "hr.image.decode_image gives the first frame of a GIF",
    "io.decode_proto": "protobuf's own classes parse messages, in map",
    "io.parse_example_v2": "it is hr.io.parse_example",
    "io.serialize_sparse": "it is hr.io.serialize_tensor, of an array or the parts of an hr.io.Sparse",
    "io.decode_base64": "base64.urlsafe_b64decode says it, in map",
    "io.encode_base64": "base64.urlsafe_b64encode says it, in map",
    "io.encode_proto": "protobuf's own classes serialize messages, in map",
    "io.decode_wav": "soundfile or scipy.io.wavfile reads sound, in map",
    "image.decode_gif": "hr.image.decode_image gives the first frame of a GIF",
    "image.draw_bounding_boxes": "PIL.ImageDraw draws boxes",
    "image.sample_distorted_bounding_box": "it is hr.image.random_resized_crop",
    "image.stateless_sample_distorted_bounding_box": "it is hr.image.random_resized_crop",
    "image.adjust_jpeg_quality": "hr.image.decode_jpeg(hr.image.encode_jpeg(image, quality)) says it",
    "image.random_jpeg_quality": "hr.image.decode_jpeg(hr.image.encode_jpeg(image, quality)) says it, in random_map",
    "image.yuv_to_rgb": "cv2.cvtColor says it, in map",
    "image.rgb_to_yuv": "cv2.cvtColor says it, in map",
    "image.combined_non_max_suppression": "torchvision.ops.batched_nms says it",
    "image.extract_patches": "np.lib.stride_tricks.sliding_window_view says it",
    "image.extract_glimpse": "it is hr.image.crop_to_bounding_box",
    "image.image_gradients": "np.diff says it",
    "image.sobel_edges": "cv2.Sobel says it, in map",
    "image.total_variation": "np.abs(np.diff(image, axis)).sum() says it",
    "image.ssim_multiscale": "skimage.metrics has measures of images",
    **{
        f"tfds.core.{what}": "hr.catalogue.DatasetBuilder, or hr.dataset, makes datasets"
        for what in ("GeneratorBasedBuilder", "BeamBasedBuilder", "BuilderConfig", "Metadata", "MetadataDict")
    },
    "tfds.core.SplitGenerator": "hr.catalogue.DatasetBuilder, or hr.dataset, makes datasets",
    "tfds.core.lazy_imports": "import the package itself",
    "tfds.core.Split": "it is hr.tfds.Split",
    "tfds.show_examples": "matplotlib shows images: plt.imshow(ds[0]['image'])",
    "tfds.visualization": "matplotlib shows images: plt.imshow(ds[0]['image'])",
    "tfds.benchmark": "ds.statistics() and it.stats() tell what a pass took",
    "tfds.beam": "hr.catalogue makes datasets on a cluster: cluster=",
    "tfds.dataset_builders": "hr.catalogue.DatasetBuilder makes datasets",
    "tfds.folder_dataset": "it is hr.Dataset.from_image_folder",
    "tfds.ImageFolder": "it is hr.Dataset.from_image_folder",
    "tfds.TranslateFolder": "it is hr.Dataset.from_text_folder",
    "tfds.testing": "hr.Dataset.from_tensor_slices makes datasets for tests",
    "tfds.transform": "it is ds.map",
    "tfds.typing": "types of elements are hr.TensorSpec",
    "tfds.is_dataset_on_gcs": 'hr.tfds.load(name, try_gcs=True) looks there: "gs://tfds-data/datasets"',
    "preprocessing.image_dataset_from_directory": "it is hr.image_dataset_from_directory",
    "preprocessing.text_dataset_from_directory": "it is hr.text_dataset_from_directory",
    "preprocessing.timeseries_dataset_from_array": "it is hr.timeseries_dataset_from_array",
    "keras": "hr.image_dataset_from_directory and the like are in hr itself, layers in hr.preprocessing",
    "utils": "hr.image_dataset_from_directory and the like are in hr itself",
    "py_function": "functions of map are plain Python already: remove it",
    "numpy_function": "functions of map are plain Python already: remove it",
    "function": "functions of map need no decorator: remove it",
    "train": "it is hr.io.Example",
    "text.as_string": "str(x) or an f-string says it",
    "text.format": "str.format or an f-string says it",
    "text.to_hash_bucket": "hr.text.to_hash_bucket_fast has another hash, the same on every machine",
    "text.to_hash_bucket_strong": "hr.text.to_hash_bucket_fast has another hash, the same on every machine",
    "text.unicode_encode": '"".join(map(chr, codes)).encode() says it',
    "text.unicode_transcode": "data.decode(one).encode(other) says it",
    "image.non_max_suppression": "torchvision.ops.nms says it",
    "feature_column.input_layer": "it is hr.feature_column.DenseFeatures",
    "feature_column.linear_model": "hr.feature_column.DenseFeatures gives what a linear layer takes",
    "feature_column.shared_embedding_columns": "it is hr.feature_column.shared_embeddings",
    "feature_column.sequence_numeric_column": SEQUENCES,
    **{
        f"feature_column.sequence_categorical_column_with_{what}": SEQUENCES
        for what in ("hash_bucket", "identity", "vocabulary_file", "vocabulary_list")
    },
}
"""What else people look for."""


HOMES = ("hr.io", "hr.image", "hr.text", "hr.feature_column", "hr.preprocessing", "hr.tfds")
"""Modules whose missing names have hints."""


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
    for other in ("hr", "hr.Dataset", *HOMES):
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
    if home == "hr.experimental":
        return list(headrace.__all__)
    names: list[str] = reduce(getattr, home.split(".")[1:], headrace).__all__
    return names


def found(home: str, name: str) -> Any:
    """What stands in `home` for a name of TensorFlow's; raises a MissingNameError that says what to write instead."""
    path = f"{home}.{name}".removeprefix("hr.")
    import headrace

    if path in THE_SAME:
        return reduce(getattr, THE_SAME[path].split("."), headrace)
    if path in APPLIED:
        return _for_apply(APPLIED[path])
    raise MissingNameError(home, name)


def _for_apply(operation: str) -> Any:
    """A function whose result `ds.apply` takes."""

    def make(*args: Any, **kwargs: Any) -> Any:
        return lambda ds: getattr(ds, operation)(*args, **kwargs)

    make.__name__ = operation
    return make


class Experimental:
    """`hr.experimental`: tf.data's names that work here; of the others, where the things are."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            path = f"experimental.{name}"
            if path in THE_SAME or path in APPLIED:
                return found("hr.experimental", name)
            if name.startswith("__") or ANOTHER_NAME.get(path, name) != name or name not in _names("hr"):
                raise MissingNameError("hr.experimental", name)
            import headrace

            return getattr(headrace, name)

    def __dir__(self) -> list[str]:
        same = [name for name in _names("hr") if ANOTHER_NAME.get(f"experimental.{name}") == name]
        more = [path.removeprefix("experimental.") for path in (*THE_SAME, *APPLIED) if path.startswith("exp")]
        return sorted({*same, *more, *(name for name in vars(Experimental) if not name.startswith("_"))})

    @staticmethod
    def cardinality(dataset: Any) -> int:
        """Return how many elements there are, INFINITE_CARDINALITY or UNKNOWN_CARDINALITY."""
        return int(dataset.cardinality())

    @staticmethod
    def get_single_element(dataset: Any) -> Any:
        """Return the one element of a dataset."""
        return dataset.get_single_element()

    @staticmethod
    def get_structure(dataset_or_iterator: Any) -> Any:
        """Return what the elements look like."""
        return dataset_or_iterator.element_spec

    @staticmethod
    def Counter(start: int = 0, step: int = 1, dtype: Any = "int64") -> Any:  # noqa: N802 - as in tf.data
        """Return a dataset that counts without end."""
        import headrace

        return headrace.Dataset.counter(start, step, dtype)

    @staticmethod
    def load(path: Any, element_spec: Any = None, compression: str | None = None, reader_func: Any = None) -> Any:
        """Return the dataset that was saved there."""
        import headrace

        return headrace.Dataset.load(path, element_spec, compression, reader_func)

    @staticmethod
    def choose_from_datasets(datasets: Any, choice_dataset: Any, stop_on_empty_dataset: bool = False) -> Any:
        """Return a dataset that takes its elements from those given, as `choice_dataset` says."""
        import headrace

        return headrace.Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)

    @staticmethod
    def sample_from_datasets(
        datasets: Any, weights: Any = None, seed: int | None = None, stop_on_empty_dataset: bool = False
    ) -> Any:
        """Return a dataset that takes its elements from those given at random, until all have ended."""
        import headrace

        return headrace.Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)

    class TFRecordWriter:
        """Write a dataset of records to one file: `TFRecordWriter(path, compression_type).write(dataset)`."""

        def __init__(self, filename: Any, compression_type: str | None = None) -> None:
            self._filename = filename
            self._compression = compression_type

        def write(self, dataset: Any) -> None:
            """Write the records, which are bytes."""
            from headrace.io import TFRecordWriter

            with TFRecordWriter(self._filename, self._compression) as writer:
                for record in dataset:
                    writer.write(record)


class KnownNames(type):
    """The class of a class that knows what people look for in it."""

    if not TYPE_CHECKING:  # a type checker should still know which names there are

        def __getattr__(cls, name: str) -> Any:
            raise MissingNameError("hr.Dataset", name)
