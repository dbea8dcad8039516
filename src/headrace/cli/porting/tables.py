"""What names of TensorFlow become, by their full names."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import headrace as hr
from headrace.names import ANOTHER_NAME, THE_SAME, MissingNameError

GUIDE = "https://headrace.github.io/headrace/coming-from/tf-data-names.html"

HOMES = {
    "tensorflow.data": "hr",
    "tensorflow.io": "hr.io",
    "tensorflow.image": "hr.image",
    "tensorflow.strings": "hr.strings",
    "tensorflow.feature_column": "hr.feature_column",
    "tensorflow_datasets": "hr.tfds",
}
"""Modules of TensorFlow, and where their names are here."""

SINGLE_NAMES = {
    "tensorflow.TensorSpec": "hr.TensorSpec",
    "tensorflow.keras.utils.image_dataset_from_directory": "hr.image_dataset_from_directory",
    "tensorflow.keras.utils.text_dataset_from_directory": "hr.text_dataset_from_directory",
    "tensorflow.keras.utils.timeseries_dataset_from_array": "hr.timeseries_dataset_from_array",
    "tensorflow.keras.preprocessing.image_dataset_from_directory": "hr.image_dataset_from_directory",
    "tensorflow.keras.preprocessing.text_dataset_from_directory": "hr.text_dataset_from_directory",
    "tensorflow.keras.preprocessing.timeseries_dataset_from_array": "hr.timeseries_dataset_from_array",
    "tensorflow_datasets.load": "hr.load",
}

DTYPES = {
    f"tensorflow.{name}": f"np.{name}"
    for name in (
        "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "complex64", "complex128",
    )
}  # fmt: skip
DTYPES |= {"tensorflow.bool": "np.bool_", "tensorflow.string": "bytes"}

_SAME_IN_NUMPY = """
    abs add argmax argmin argsort ceil concatenate cos cumsum equal exp expand_dims eye floor greater greater_equal
    less less_equal linspace log logical_and logical_not logical_or maximum minimum multiply not_equal ones ones_like
    reshape shape sign sin size sort sqrt square squeeze stack subtract tan tanh tile unique where zeros zeros_like
    """
FUNCTIONS = {f"tensorflow.{home}{name}": f"np.{name}" for name in _SAME_IN_NUMPY.split() for home in ("", "math.")}
FUNCTIONS |= {
    "tensorflow.concat": "np.concatenate",
    "tensorflow.constant": "np.array",
    "tensorflow.convert_to_tensor": "np.asarray",
    "tensorflow.clip_by_value": "np.clip",
    "tensorflow.range": "np.arange",
    "tensorflow.reverse": "np.flip",
    "tensorflow.divide": "np.true_divide",
    "tensorflow.math.divide": "np.true_divide",
    "tensorflow.pow": "np.power",
    "tensorflow.math.pow": "np.power",
    "tensorflow.transpose": "np.transpose",
}
for _reduction, _function in {"sum": "sum", "mean": "mean", "max": "max", "min": "min", "prod": "prod"}.items():
    FUNCTIONS[f"tensorflow.reduce_{_reduction}"] = f"np.{_function}"
    FUNCTIONS[f"tensorflow.math.reduce_{_reduction}"] = f"np.{_function}"
FUNCTIONS |= {"tensorflow.reduce_all": "np.all", "tensorflow.reduce_any": "np.any"}
"""Functions that NumPy has with the same arguments. They are replaced inside functions of a pipeline only."""

RENAMED_KEYWORDS = {"tensorflow.transpose": {"perm": "axes"}, "tensorflow.constant": {"value": "object"}}

_WITH_FUNCTIONS = """
    map flat_map filter interleave scan reduce take_while group_by_window bucket_by_sequence_length
    rejection_resample apply padded_batch from_generator from_tensor_slices from_tensors map_batches
    """
PIPELINE_METHODS = frozenset(_WITH_FUNCTIONS.split())
"""Methods whose arguments are functions or values of a pipeline."""

_OTHERS = """
    batch cache concatenate enumerate prefetch ragged_batch rebatch repeat shard shuffle skip snapshot take unbatch
    unique window with_options zip ignore_errors as_dataset
    """
DATASET_METHODS = PIPELINE_METHODS | frozenset(_OTHERS.split())
"""Methods of a dataset that give a dataset."""


class Verdict(NamedTuple):
    """What becomes of a name: what to write, or why it stays."""

    code: str | None
    reason: str = ""


def verdict(full_name: str) -> Verdict | None:
    """Return what becomes of a name of TensorFlow, given as `tensorflow.data.Dataset.map`; None if it is not ours."""
    if full_name in SINGLE_NAMES:
        return Verdict(SINGLE_NAMES[full_name])
    for module, home in HOMES.items():
        if full_name == module or full_name.startswith(module + "."):
            return _in_home(full_name.removeprefix(module).lstrip("."), home)
    return None


def _in_home(rest: str, home: str) -> Verdict:
    path = f"{home}.{rest}".removeprefix("hr.") if rest else home.removeprefix("hr")
    if path in ANOTHER_NAME:
        there = ANOTHER_NAME[path]
        if there.rpartition(".")[2].startswith("__"):
            return Verdict(None, f"it is `{there}` in headrace")
        return Verdict(f"hr.{there}")
    if path in THE_SAME and path.startswith("experimental."):
        return Verdict(f"hr.{THE_SAME[path]}")
    try:
        reduce(getattr, path.split(".") if path else [], hr)
    except MissingNameError as error:
        return Verdict(None, str(error))
    except AttributeError:
        return Verdict(None, f"headrace has no {home}.{rest}")
    return Verdict(f"{home}.{rest}" if rest else home)
