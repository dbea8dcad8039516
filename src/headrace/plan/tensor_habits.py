"""What tensors have and arrays have not: hints for errors of functions that were written for TensorFlow."""

from __future__ import annotations

import numpy as np

from headrace.core.ragged import Ragged
from headrace.plan.frameworks import framework_called

GIVEN = (np.ndarray, np.generic, np.dtype, Ragged, tuple, str, bytes)
"""Types of what functions are given in the place of tensors, their shapes and their dtypes."""
ATTRIBUTES = {
    "as_list": "a shape is a tuple: remove .as_list()",
    "base_dtype": "functions of TensorFlow that look at a tensor's dtype need tf.convert_to_tensor(x)",
    "decode": "tf.numpy_function gives arrays when it is called eagerly: call the function itself",
    "eval": "elements are NumPy arrays: remove .eval()",
    "get_shape": "elements are NumPy arrays: x.shape is a tuple",
    "is_compatible_with": "a shape is a tuple: compare it with a tuple",
    "ndims": "a shape is a tuple: len(shape)",
    "num_elements": "a shape is a tuple: math.prod(shape), or x.size",
    "numpy": "elements are NumPy arrays: remove .numpy()",
    "rank": "a shape is a tuple: len(shape)",
    "row_lengths": "tf.RaggedTensor.from_row_splits(x.values, x.row_splits) makes a RaggedTensor of an hr.Ragged",
    "set_shape": "elements are NumPy arrays, whose shapes are known: remove .set_shape()",
    "to_tensor": "elements are NumPy arrays: remove .to_tensor()",
}
"""What to write instead of attributes of TensorFlow's tensors and shapes."""
SPARSE = "features that are VarLenFeature come as arrays, or as hr.Ragged of a batch: remove tf.sparse.to_dense"
TENSOR = "functions that call TensorFlow are given NumPy arrays, bytes and str: tf.convert_to_tensor(x) makes a tensor"


def tensor_hint(node: object, error: BaseException | str) -> str | None:
    """Return what to write instead, if a user's function took its argument for a tensor."""
    if isinstance(error, AttributeError) and isinstance(error.obj, GIVEN):
        if error.name == "decode" and isinstance(error.obj, str):
            return "it is a str already: remove .decode()"
        return ATTRIBUTES.get(error.name or "") or (TENSOR if _calls_tensorflow(node) else None)
    if isinstance(error, TypeError) and "SparseTensor" in str(error) and _calls_tensorflow(node):
        return SPARSE
    return None


def _calls_tensorflow(node: object) -> bool:
    fn = getattr(node, "fn", None)
    return fn is not None and framework_called(fn) == "TensorFlow"
