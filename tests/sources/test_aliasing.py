"""Arrays are not copied: a change is visible, and warned about once."""

import pickle
import warnings

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


@pytest.mark.parametrize("make", [D.from_tensor_slices, D.from_tensors])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_changed_array_is_told_at_the_next_pass(make, order):
    x = np.asarray(np.arange(2000.0).reshape(20, 100), order=order)
    ds = make({"x": x, "y": np.arange(20)})
    list(ds)
    x /= 255
    with pytest.warns(hr.PipelineWarning, match=r"the array of component\['x'\] was changed.*array\.copy\(\)"):
        list(ds.shuffle(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(ds)


def test_copies_lists_and_other_processes_are_not_watched():
    x = np.arange(9)
    ds = pickle.loads(pickle.dumps(D.from_tensor_slices(x)._node))
    lists = D.from_tensor_slices([[1, 2], [3, 4]])
    texts = np.array(["a", "b"], object)
    text = D.from_tensor_slices(texts)
    x += 1
    texts[0] = "c"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (len(list(lists)), list(text), ds.rows) == (2, ["a", "b"], 9)
