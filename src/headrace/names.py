"""Names that users look for: the equivalent here, or why there is none.

`hr.experimental.unbatch`, `hr.data.Dataset`, `hr.Dataset.from_list`: code that was written for tf.data, and first
guesses, get an answer. The tables of tf.data's names are checked against the installed TensorFlow.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from functools import reduce
from typing import TYPE_CHECKING, Any

from numpy.typing import DTypeLike

from headrace.core.types import AnyFunction, Attribute, Library, Nested, StrPath

if TYPE_CHECKING:
    from headrace.dataset import Dataset

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
"""The present names of tf.data's names."""

THE_SAME = {
    "strings": "text",
    "io.decode_and_crop_jpeg": "image.decode_and_crop_jpeg",
    "io.decode_bmp": "image.decode_bmp",
    "io.decode_gif": "image.decode_gif",
    "io.decode_image": "image.decode_image",
    "io.decode_jpeg": "image.decode_jpeg",
    "io.decode_png": "image.decode_png",
    "io.encode_jpeg": "image.encode_jpeg",
    "io.encode_png": "image.encode_png",
    "io.extract_jpeg_shape": "image.extract_jpeg_shape",
    "io.is_jpeg": "image.is_jpeg",
    "experimental.RandomDataset": "Dataset.random",
}
"""Aliases."""

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
"""Names of tf.data, and parameters, that are not implemented yet, by topic."""

UNTIL_THEN = {
    "experimental.make_batched_features_dataset": "use hr.TFRecordDataset(files).batch(n).map(parse)",
    "experimental.parse_example_dataset": "use map with hr.io.parse_example",
}

GRAPH = "it belongs to TensorFlow's graphs"
DEVICE = "use ds.to_torch(device=...) or ds.to_jax()"
SERVICE = "it belongs to TensorFlow's data service: use ds.distribute_over(hr.cluster.local(4)) or ds.distribute()"
TUNING = "use hr.Options(cpu_budget=..., ram_budget=...)"
OBSOLETE = "it is deprecated in tf.data: write the two operations"
NO_SPARSE = "sparse tensors are not supported: use ragged_batch or padded_batch"
NEXT = "use next(it, default)"
SEQUENCES = "sequence columns are not supported: use ragged features with the layers of hr.preprocessing"
TABLES = "use a dict, or hr.text.Vocabulary"

NOT_HERE = {
    "Dataset.fingerprint": GRAPH,
    "Dataset.sparse_batch": NO_SPARSE,
    "Iterator.get_next_as_optional": NEXT,
    "IteratorSpec": "an iterator cannot be a component of an element",
    "ThreadingOptions": TUNING,
    "experimental.AutoShardPolicy": SERVICE,
    "experimental.AutotuneAlgorithm": TUNING,
    "experimental.AutotuneOptions": TUNING,
    "experimental.DatasetInitializer": GRAPH,
    "experimental.DistributeOptions": SERVICE,
    "experimental.ExternalStatePolicy": GRAPH,
    "experimental.OptimizationOptions": "not needed: optimizations never change results",
    "experimental.Optional": NEXT,
    "experimental.Reducer": "use group_by_window or scan",
    "experimental.SHARD_HINT": SERVICE,
    "experimental.ServiceOptions": SERVICE,
    "experimental.ThreadingOptions": TUNING,
    "experimental.assert_cardinality": "not needed: cardinality is computed",
    "experimental.copy_to_device": DEVICE,
    "experimental.dense_to_sparse_batch": NO_SPARSE,
    "experimental.distributed_save": SERVICE,
    "experimental.enable_debug_mode": 'map(..., mode="eager") calls a function on each element',
    "experimental.from_variant": GRAPH,
    "experimental.get_model_proto": GRAPH,
    "experimental.get_next_as_optional": NEXT,
    "experimental.group_by_reducer": "use group_by_window or scan",
    "experimental.index_table_from_dataset": TABLES,
    "experimental.make_saveable_from_iterator": "use it.state()",
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
    "DataLoader": "a dataset is its own loader: ds.shuffle().batch(n).to_torch() is iterated in its place",
    "random_split": "it is train, test = ds.split(0.8, seed=0)",
    "train_test_split": "it is train, test = ds.split(0.8, seed=0)",
    "Dataset.random_split": "it is ds.split([0.8, 0.2], seed=0)",
    "Dataset.train_test_split": "it is train, test = ds.split(0.8, seed=0)",
    "Dataset.set_epoch": "nothing is needed: each iter(ds) is the next epoch, and states hold it",
    "Dataset.state": "a state is that of a pass: it = iter(ds), it.state(), and ds.iterator(state=state) goes on there",
    "Dataset.state_dict": "a state is that of a pass: it = iter(ds), it.state(); ds.to_torch() has state_dict()",
    "Dataset.load_state_dict": "ds.iterator(state=state) goes on from a state; ds.to_torch() has load_state_dict()",
    "Dataset.collate_fn": "it is ds.batch(n, collate_fn=...)",
    "Dataset.sampler": "it is ds.shuffle(), ds.weighted_sample(weights) or ds[[3, 1, 4]]",
    "WeightedRandomSampler": "it is ds.weighted_sample(weights)",
    "DistributedSampler": "it is ds.distribute(), which knows rank and world size",
    "Subset": "it is ds[[3, 1, 4]]",
    "IterableDataset": "hr.Dataset.from_generator takes what yields elements, from_torch a dataset of PyTorch",
    "TensorDataset": "it is hr.Dataset.from_tensor_slices((x, y))",
    "load_dataset": 'hr.load(name) loads a public dataset, as hr.load("hf:owner/name")',
    "Dataset.to_dataloader": "it is ds.batch(n).to_torch()",
    "Dataset.select": "it is ds[[3, 1, 4]], or ds[10:20]",
    "Dataset.sample": "it is ds.shuffle().take(n), or ds.weighted_sample(weights)",
    "Dataset.sort": "sort the table that it is made of, or write ds[numbers] with the numbers in the order wanted",
    "Dataset.iter_batches": "it is iter(ds.batch(n))",
    "Dataset.with_format": "it is ds.to_torch(), ds.to_jax() or ds.to_polars()",
    "Dataset.set_format": "it is ds.to_torch(), ds.to_jax() or ds.to_polars()",
    "Dataset.save_to_disk": "it is ds.save(path), and hr.Dataset.load(path)",
    "Dataset.load_from_disk": "it is hr.Dataset.load(path)",
    "ConcatDataset": "it is ds.concatenate(other), or ds + other",
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
    "Dataset.make_initializable_iterator": "use iter(ds)",
    "Dataset.make_one_shot_iterator": "use iter(ds)",
    "Dataset.numpy": "it is ds.as_numpy_iterator()",
    "Dataset.output_shapes": "it is ds.element_spec",
    "Dataset.output_types": "it is ds.element_spec",
    "Dataset.to_list": "use list(ds)",
    "Dataset.to_numpy": "ds.as_numpy_iterator() gives arrays, ds.batch(n).get_single_element() all at once",
    "io.TFRecordOptions": 'hr.io.TFRecordWriter(path, "GZIP") takes the compression itself',
    "io.match_filenames_once": "it is hr.io.matching_files, or hr.Dataset.list_files",
    "io.decode_proto": "protobuf's own classes parse messages, in map",
    "io.parse_example_v2": "it is hr.io.parse_example",
    "io.serialize_sparse": "it is hr.io.serialize_tensor, of an array or the parts of an hr.io.Sparse",
    "io.decode_base64": "use base64.urlsafe_b64decode, in map",
    "io.encode_base64": 'use base64.urlsafe_b64encode(x).rstrip(b"="), in map',
    "io.encode_proto": "protobuf's own classes serialize messages, in map",
    "io.deserialize_many_sparse": NO_SPARSE,
    "io.serialize_many_sparse": NO_SPARSE,
    "io.write_graph": GRAPH,
    "io.gfile.get_registered_schemes": "fsspec.available_protocols() says it",
    "io.decode_wav": "soundfile or scipy.io.wavfile reads sound, in map",
    "image.draw_bounding_boxes": "PIL.ImageDraw draws boxes",
    "image.sample_distorted_bounding_box": "it is hr.image.random_resized_crop",
    "image.stateless_sample_distorted_bounding_box": "it is hr.image.random_resized_crop",
    "image.adjust_jpeg_quality": "use hr.image.decode_jpeg(hr.image.encode_jpeg(image, quality))",
    "image.random_jpeg_quality": "use hr.image.decode_jpeg(hr.image.encode_jpeg(image, quality)), in random_map",
    "image.yuv_to_rgb": "use cv2.cvtColor, in map",
    "image.rgb_to_yuv": "use cv2.cvtColor, in map",
    "image.combined_non_max_suppression": "use torchvision.ops.batched_nms",
    "image.extract_patches": "use np.lib.stride_tricks.sliding_window_view",
    "image.extract_glimpse": "it is hr.image.crop_to_bounding_box",
    "image.image_gradients": "use np.diff",
    "image.sobel_edges": "use cv2.Sobel, in map",
    "image.total_variation": "use np.abs(np.diff(image, axis)).sum()",
    "image.ssim_multiscale": "skimage.metrics has measures of images",
    **{
        f"tfds.core.{what}": "hr.catalogue.DatasetBuilder, or hr.dataset, makes datasets"
        for what in ("GeneratorBasedBuilder", "BeamBasedBuilder", "BuilderConfig", "Metadata", "MetadataDict")
    },
    **{
        f"tfds.core.{what}": "hr.catalogue.DatasetBuilder, or hr.dataset, makes datasets"
        for what in ("SplitGenerator", "BeamMetadataDict", "ExampleSerializer", "ExampleWriter", "SequentialWriter")
    },
    **{
        f"tfds.core.{what}": "hr.catalogue.add(folder) has hr.load find the datasets in it"
        for what in ("add_data_dir", "add_dataset_builder_provider", "DatasetCollectionLoader")
    },
    "tfds.core.benchmark": "ds.statistics() and it.stats() tell what a pass took",
    "tfds.core.BenchmarkResult": "ds.statistics() and it.stats() tell what a pass took",
    "tfds.core.DatasetIdentity": "builder.info has name, config and version",
    "tfds.core.DatasetNotFoundError": "hr.load raises a FileNotFoundError",
    "tfds.core.Experiment": "versions have no experiments here",
    "tfds.core.FileFormat": 'write_tfds(file_format="tfrecord") takes a str',
    "tfds.core.Path": "pathlib.Path, or a str with a URL",
    "tfds.core.Permissions": "os.umask says it",
    "tfds.core.ShardedFileTemplate": "builder.info.splits[name].filenames lists files",
    "tfds.core.SplitDict": "builder.info.splits is a dict",
    "tfds.core.as_path": "pathlib.Path, or a str with a URL",
    "tfds.core.gcs_path": '"gs://tfds-data/" + path says it',
    "tfds.core.tfds_path": "datasets here need no files of TFDS's package",
    **{
        f"tfds.{family}": "hr.load(name) loads a dataset by its name, hr.catalogue.search finds one"
        for family in (
            "audio",
            "d4rl",
            "datasets",
            "graphs",
            "image_classification",
            "nearest_neighbors",
            "object_detection",
            "question_answering",
            "ranking",
            "recommendation",
            "rl_unplugged",
            "rlds",
            "robomimic",
            "robotics",
            "structured",
            "summarization",
            "text",
            "text_simplification",
            "time_series",
            "translate",
            "video",
            "vision_language",
        )
    },
    "tfds.GenerateMode": "it is hr.tfds.download.GenerateMode",
    "tfds.dataset_collection": "load the datasets of a collection one by one",
    "tfds.list_dataset_collections": "load the datasets of a collection one by one",
    "tfds.show_statistics": "it is ds.statistics()",
    "tfds.decode.Decoder": "it is hr.tfds.decode.make_decoder",
    "tfds.decode.DeserializeMethod": "records are read as they are by hr.TFRecordDataset",
    "tfds.download.ComputeStatsMode": "it is ds.statistics()",
    "tfds.download.DownloadError": "it is hr.StorageError",
    "tfds.download.ExtractMethod": "zipfile and tarfile extract archives in a builder",
    "tfds.download.DownloadManager": "hr.dataset(sources={...}) names the files of a builder",
    "tfds.download.Resource": "it is hr.catalogue.SourceFile",
    "tfds.download.add_checksums_dir": "hr.catalogue.SourceFile(url, sha256=...) has the checksum",
    "tfds.download.iter_archive": "zipfile and tarfile read archives in a builder",
    "tfds.download.validate_checksums_path": "hr.catalogue.SourceFile(url, sha256=...) has the checksum",
    "tfds.features.BBox": "boxes are arrays of four numbers: ymin, xmin, ymax, xmax",
    "tfds.features.Documentation": "descriptions of features are not kept",
    "tfds.features.DocArg": "descriptions of features are not kept",
    "tfds.features.Encoding": 'hr.tfds.features.Tensor(encoding="zlib") takes a str',
    "tfds.features.TensorInfo": "it is hr.TensorSpec",
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
    "Counter": "it is hr.experimental.Counter, or hr.Dataset.counter",
    "cast": "use x.astype(np.float32)",
    "constant": "use np.array, or the value itself",
    "convert_to_tensor": "use np.asarray, or the value itself",
    **{
        name: f"use np.{name}"
        for name in ("float16", "float32", "float64", "int32", "int64", "uint8", "reshape", "where", "stack", "concat")
    },
    "string": "use str for text, bytes for records",
    "io.tf_record_iterator": "it is hr.TFRecordDataset",
    "io.decode_json_example": "hr.io.decode_json parses JSON; hr.io.parse_example parses Examples",
    "image.rgb_to_yiq": "use cv2.cvtColor, in map",
    "image.yiq_to_rgb": "use cv2.cvtColor, in map",
    **{
        f"text.{what}": "hr.text.Tokenizer runs the tokenizers of Hugging Face, sentencepiece and tiktoken"
        for what in ("BertTokenizer", "SentencepieceTokenizer", "WordpieceTokenizer", "FastWordpieceTokenizer")
    },
    "text.WhitespaceTokenizer": "it is hr.text.split",
    "text.UnicodeScriptTokenizer": "it is hr.text.split, or hr.text.regex_replace",
    "text.normalize_utf8": "use unicodedata.normalize, in map",
    "text.case_fold_utf8": "it is hr.text.lower, or str.casefold in map",
    "text.sliding_window": "it is hr.text.ngrams, or ds.window",
    "train": "it is hr.io.Example",
    "text.as_string": 'use str(x); f"{x:f}" of floats, which TensorFlow gives six digits',
    "text.format": "use str.format or an f-string",
    "text.to_hash_bucket": "hr.text.to_hash_bucket_fast has another hash, the same on every machine",
    "text.to_hash_bucket_strong": "hr.text.to_hash_bucket_fast has another hash, the same on every machine",
    "text.unicode_decode_with_offsets": "it is hr.text.unicode_decode; np.cumsum of lengths gives the offsets",
    "text.unicode_split_with_offsets": "it is hr.text.unicode_split; np.cumsum of lengths gives the offsets",
    "text.unsorted_segment_join": "it is about batches: group_by_window, then hr.text.reduce_join",
    "text.unicode_encode": 'use "".join(map(chr, codes)).encode()',
    "text.unicode_transcode": "use data.decode(one).encode(other)",
    **{
        f"image.{what}": "use torchvision.ops.nms and torchvision.ops.box_iou"
        for what in (
            "non_max_suppression",
            "non_max_suppression_overlaps",
            "non_max_suppression_padded",
            "non_max_suppression_with_scores",
            "generate_bounding_box_proposals",
        )
    },
    "feature_column.input_layer": "it is hr.feature_column.DenseFeatures",
    "feature_column.linear_model": "hr.feature_column.DenseFeatures gives what a linear layer takes",
    "feature_column.shared_embedding_columns": "it is hr.feature_column.shared_embeddings",
    "feature_column.sequence_numeric_column": SEQUENCES,
    **{
        f"feature_column.sequence_categorical_column_with_{what}": SEQUENCES
        for what in ("hash_bucket", "identity", "vocabulary_file", "vocabulary_list")
    },
}
"""Other names that users may try."""


HOMES = ("hr.io", "hr.image", "hr.text", "hr.feature_column", "hr.preprocessing", "hr.tfds")
"""Modules whose missing names have hints."""


class MissingNameError(AttributeError):
    """No such name in `home`, with a suggestion that is computed lazily, because many callers only probe."""

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


def _package() -> Library:
    """Return `headrace` itself, which is imported before any of its names is looked up."""
    return sys.modules["headrace"]


def _names(home: str) -> list[str]:
    headrace = _package()

    if home == "hr.Dataset":
        return [name for name in dir(headrace.Dataset) if not name.startswith("_")]
    if home == "hr.experimental":
        return list(headrace.__all__)
    names: list[str] = reduce(getattr, home.split(".")[1:], headrace).__all__
    return names


def found(home: str, name: str) -> Attribute:
    """Return what stands in `home` for a name of TensorFlow's; raises a MissingNameError that says what to write
    instead.
    """
    path = f"{home}.{name}".removeprefix("hr.")
    headrace = _package()

    if path in THE_SAME:
        return reduce(getattr, THE_SAME[path].split("."), headrace)
    if path in APPLIED:
        return _for_apply(APPLIED[path])
    raise MissingNameError(home, name)


def _for_apply(operation: str) -> AnyFunction:
    """Return a function whose result `ds.apply` takes."""

    def make(*args: object, **kwargs: object) -> AnyFunction:
        return lambda ds: getattr(ds, operation)(*args, **kwargs)

    make.__name__ = operation
    return make


class Experimental:
    """`hr.experimental`: tf.data's names that work here; for the others, their equivalents."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Attribute:
            path = f"experimental.{name}"
            if path in THE_SAME or path in APPLIED:
                return found("hr.experimental", name)
            if name.startswith("__") or ANOTHER_NAME.get(path, name) != name or name not in _names("hr"):
                raise MissingNameError("hr.experimental", name)
            headrace = _package()

            return getattr(headrace, name)

    def __dir__(self) -> list[str]:
        same = [name for name in _names("hr") if ANOTHER_NAME.get(f"experimental.{name}") == name]
        more = [path.removeprefix("experimental.") for path in (*THE_SAME, *APPLIED) if path.startswith("exp")]
        return sorted({*same, *more, *(name for name in vars(Experimental) if not name.startswith("_"))})

    @staticmethod
    def cardinality(dataset: Dataset) -> int:
        """Return how many elements there are, INFINITE_CARDINALITY or UNKNOWN_CARDINALITY."""
        return int(dataset.cardinality())

    @staticmethod
    def get_single_element(dataset: Dataset) -> Nested:
        """Return the one element of a dataset."""
        return dataset.get_single_element()

    @staticmethod
    def get_structure(dataset_or_iterator: Dataset) -> Nested:
        """Return what the elements look like."""
        return dataset_or_iterator.element_spec

    @staticmethod
    def Counter(start: int = 0, step: int = 1, dtype: DTypeLike = "int64") -> Any:  # noqa: N802 - as in tf.data
        """Return a dataset that counts without end."""
        headrace = _package()

        return headrace.Dataset.counter(start, step, dtype)

    @staticmethod
    def load(
        path: StrPath, element_spec: Nested = None, compression: str | None = None, reader_func: object = None
    ) -> Any:
        """Return the dataset that was saved there."""
        headrace = _package()

        return headrace.Dataset.load(path, element_spec, compression, reader_func)

    @staticmethod
    def choose_from_datasets(datasets: object, choice_dataset: Dataset, stop_on_empty_dataset: bool = False) -> Any:
        """Return a dataset that takes its elements from those given, as `choice_dataset` says."""
        headrace = _package()

        return headrace.Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)

    @staticmethod
    def sample_from_datasets(
        datasets: object, weights: object = None, seed: int | None = None, stop_on_empty_dataset: bool = False
    ) -> Any:
        """Return a dataset that takes its elements from those given at random, until all have ended."""
        headrace = _package()

        return headrace.Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)

    class TFRecordWriter:
        """Write a dataset of records to one file: `TFRecordWriter(path, compression_type).write(dataset)`."""

        def __init__(self, filename: StrPath, compression_type: str | None = None) -> None:
            self._filename = filename
            self._compression = compression_type

        def write(self, dataset: Dataset) -> None:
            """Write the records, which are bytes."""
            with _package().io.TFRecordWriter(self._filename, self._compression) as writer:
                for record in dataset:
                    writer.write(record)


class KnownNames(type):
    """A metaclass that suggests equivalents for missing names."""

    if not TYPE_CHECKING:  # a type checker should still know which names there are

        def __getattr__(cls, name: str) -> Attribute:
            raise MissingNameError("hr.Dataset", name)
