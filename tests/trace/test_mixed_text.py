"""Bytes compared with str, which are never equal in Python and always in TensorFlow."""

import warnings
from functools import partial

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
CAT = "cat"
WORDS = D.from_tensor_slices(np.array([b"cat", b"dog"], object))
LINES = D.from_tensor_slices(["cat", "dog"])
RECORDS = D.zip(D.range(2), WORDS).map(lambda i, w: {"id": i, "label": w, "more": (w, i)})


def is_cat(word):
    return word == "cat"


def aliased(record):
    label = record["label"]
    return label == "cat"


def closure(word="cat"):
    return lambda x: x == word


MIXED = {
    "==": (WORDS, lambda x: x == "cat", r"b'cat'"),
    "!=": (WORDS, lambda x: x != "cat", r"b'cat'"),
    "the other way round": (WORDS, lambda x: "cat" == x, r"b'cat'"),  # noqa: SIM300
    "bytes for str": (LINES, lambda x: x == b"cat", r"'cat'"),
    "in a tuple": (WORDS, lambda x: x in ("dog", "cat"), r"b'dog'"),
    "in a set": (WORDS, lambda x: x in {"cat"}, r"b'cat'"),
    "not in": (WORDS, lambda x: x not in ["cat", "dog"], r"b'cat'"),
    "a global": (WORDS, lambda x: x == CAT, r"b'cat'"),
    "a closure": (WORDS, closure(), r"b'cat'"),
    "a component by name": (RECORDS, lambda r: r["label"] == "cat", r"b'cat'"),
    "a component within one": (RECORDS, lambda r: r["more"][0] == "cat", r"b'cat'"),
    "a local variable": (RECORDS, aliased, r"b'cat'"),
    "one of two arguments": (D.zip(D.range(2), WORDS), lambda _, w: w == "cat", r"b'cat'"),
    "a partial": (WORDS, partial(is_cat), r"b'cat'"),
    "not ASCII": (WORDS, lambda x: x == "é", r"b'\\xc3\\xa9'"),
}


@pytest.mark.parametrize("what", MIXED)
@pytest.mark.parametrize("mode", ["auto", "eager"])
def test_the_comparison_is_named_when_the_function_is_given(what, mode):
    ds, fn, said = MIXED[what]
    with pytest.warns(BytesWarning, match=f"Write {said}") as caught:
        ds.map(fn, mode=mode)
    assert caught[0].filename == __file__
    with pytest.warns(BytesWarning, match=f"Write {said}"):
        ds.filter(fn, mode=mode)


def test_a_comparison_in_a_helper_is_named_once_it_is_traced():
    ds = RECORDS.map(lambda r: is_cat(r["label"]))
    with pytest.warns(BytesWarning, match="Write b'cat'") as caught:
        assert list(ds) == [False, False]
    assert caught[0].lineno == is_cat.__code__.co_firstlineno + 1


def other_variable(x):
    x = x.decode()
    return x == "cat"


FINE = {
    "of one kind": (WORDS, lambda x: x == b"cat"),
    "str": (LINES, lambda x: x == "cat"),
    "numbers": (D.range(2), lambda x: x == "cat"),
    "another component": (RECORDS, lambda r: r["id"] == "cat"),
    "decoded": (WORDS, lambda x: x.decode() == "cat"),
    "a variable that is assigned anew": (WORDS, other_variable),
    "no such component": (RECORDS, lambda r: r["nothing"] == "cat"),
}


@pytest.mark.parametrize("what", FINE)
def test_nothing_is_said_of_other_comparisons(what):
    ds, fn = FINE[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.map(fn)
        ds.filter(fn, mode="eager")
