"""Bytes compared with str: an error in traced functions, a warning in eager ones."""

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


NUMPY = {
    "np.equal": (WORDS, lambda x: np.equal(x, "cat"), r"b'cat'"),
    "np.not_equal": (WORDS, lambda x: np.not_equal("cat", x), r"b'cat'"),
    "np.isin": (WORDS, lambda x: np.isin(x, ["cat"]), r"b'cat'"),
    "np.isin of several": (WORDS, lambda x: np.isin(x, ["dog", "cat", "cow"]), r"b'dog'"),
    "np.isin of a batch": (WORDS.batch(2), lambda x: np.isin(x, ("cat",)), r"b'cat'"),
    "np.where": (WORDS, lambda x: np.where(x == "cat", 1, 0), r"b'cat'"),
    "a batch": (WORDS.batch(2), lambda x: x == "cat", r"b'cat'"),
}
WHEN_TRACED = {
    "<": (WORDS, lambda x: x < "cat", r"b'cat'"),
    ">=, the other way round": (LINES, lambda x: b"cat" >= x, r"'cat'"),  # noqa: SIM300
    "two components": (D.zip(LINES, WORDS), lambda a, b: a == b, "Decode one of them"),
    "np.isin by name": (WORDS, lambda x: np.isin(element=x, test_elements=["cat"]), r"b'cat'"),
    "a helper": (RECORDS, lambda r: is_cat(r["label"]), r"b'cat'"),
    "a path on data": (RECORDS, lambda r: r["label"] == "cat" if r["id"] > 0 else False, r"b'cat'"),
}
CALLED_ON_EACH = {"in a set"}
TRACED = {what: case for what, case in (MIXED | NUMPY | WHEN_TRACED).items() if what not in CALLED_ON_EACH}


@pytest.mark.parametrize("mode", ["auto", "vectorized"])
@pytest.mark.parametrize("what", TRACED)
def test_traced_functions_raise_when_they_are_given(what, mode):
    ds, fn, said = TRACED[what]
    for operation in (ds.map, ds.filter):
        with warnings.catch_warnings(), pytest.raises(TypeError, match=said) as caught:
            warnings.simplefilter("error")
            operation(fn, mode=mode)
        assert f"{__file__}:" in str(caught.value)


def test_the_error_names_the_line():
    with pytest.raises(TypeError, match=rf":{is_cat.__code__.co_firstlineno + 1}\b"):
        RECORDS.map(lambda r: is_cat(r["label"]))


@pytest.mark.parametrize("what", MIXED | NUMPY)
def test_eager_functions_warn_when_they_are_given(what):
    ds, fn, said = (MIXED | NUMPY)[what]
    for operation in (ds.map, ds.filter):
        with pytest.warns(BytesWarning, match=f"Write {said}") as caught:
            operation(fn, mode="eager")
        assert caught[0].filename == __file__


def test_what_cannot_be_traced_warns():
    with pytest.warns(BytesWarning, match="Write b'cat'"):
        WORDS.map(lambda x: len(x) == 3 and x == "cat")
    with pytest.warns(BytesWarning, match="Write b'cat'"):
        WORDS.map(MIXED["in a set"][1])
    with pytest.warns(BytesWarning, match="Write b'cat'"):
        ds = WORDS.map(lambda x: x == "cat" if isinstance(x, str) else x == b"cat")
    assert list(ds) == [True, False]


NAMES = np.array(["cat", "dog"])
OBJECTS = np.array(["cat", "dog"], object)
BYTES = np.array([b"cat", b"dog"])
OF_PATHS = D.from_tensor_slices([b"a/cat/1", b"a/dog/2"])
SPLIT = OF_PATHS.map(lambda p: hr.text.split(p, "/"))


def label_of(path):
    parts = hr.text.split(path, "/")
    return np.argmax(parts[-2] == NAMES)


def enclosed(names):
    return lambda x: np.argmax(names == x)


WARNED_OF = {
    "an array of names": (WORDS, lambda x: x == NAMES),
    "the other way round": (WORDS, lambda x: x == NAMES),
    "an array of objects": (WORDS, lambda x: x == OBJECTS),
    "an array in a closure": (WORDS, enclosed(NAMES)),
    "an array of bytes": (LINES, lambda x: x == BYTES),
    "an array of constants": (WORDS, lambda x: np.argmax(np.array(["cat", "dog"]) == x)),
    "np.isin of an array": (WORDS, lambda x: np.isin(x, NAMES)),
    "a part of a batch": (WORDS.batch(2), lambda w: w[0] == "cat"),
    "a word of a row": (SPLIT, lambda w: w[-2] == "cat"),
    "a word of a split": (OF_PATHS, lambda p: hr.text.split(p, "/")[-2] == "cat"),
    "a part of a text": (WORDS, lambda w: w[:1] == "c"),
    "a label of a path": (OF_PATHS, label_of),
}


LABELS = {"cat": 0, "dog": 1}


def label_by(labels):
    return lambda record: labels.get(record["label"], -1)


WARNED_OF |= {
    "a dict of labels": (WORDS, lambda w: LABELS.get(w)),
    "a dict of constants": (WORDS, lambda w: {"cat": 1}.get(w)),
    "a dict of several constants": (WORDS, lambda w: {"cat": 1, "dog": 2}.get(w, 0)),
    "a dict in a closure": (RECORDS, label_by(LABELS)),
    "a key of a dict": (WORDS, lambda w: w in LABELS),
    "a method of text": (WORDS, lambda w: w.lower() == "cat"),
    "a part of a path": (OF_PATHS, lambda p: p.split(b"/")[-2] == NAMES),
    "a part of a path by a method": (OF_PATHS, lambda p: p.rsplit(b"/", 1)[0].upper() in ("A/CAT",)),
}


@pytest.mark.parametrize("mode", ["auto", "eager"])
@pytest.mark.parametrize("what", WARNED_OF)
def test_arrays_of_names_and_parts_of_text_warn(what, mode):
    ds, fn = WARNED_OF[what]
    with pytest.warns(BytesWarning, match="is compared with"):
        ds.map(fn, mode=mode)


OTHER_OPERATIONS = {
    "random_map": lambda ds: ds.random_map(lambda x, _: x == "cat", seed=1),
    "take_while": lambda ds: ds.take_while(lambda x: x == "cat"),
    "group_by_window": lambda ds: ds.group_by_window(lambda x: x == "cat", lambda _, w: w.batch(2), 2),
    "rejection_resample": lambda ds: ds.rejection_resample(lambda x: x == "cat", [0.5, 0.5], seed=1),
}


@pytest.mark.parametrize("operation", OTHER_OPERATIONS)
def test_so_do_other_operations_that_trace(operation):
    with pytest.raises(TypeError, match="Write b'cat'"):
        OTHER_OPERATIONS[operation](WORDS)


COUNTS = {
    "scan": {
        "an element": (WORDS, lambda n, x: (n + (x == "cat"), n)),
        "a component": (RECORDS, lambda n, r: (n + (r["label"] == "cat"), n)),
        "one of a tuple": (D.zip(D.range(2), WORDS), lambda n, x: (n + (x[1] == "cat"), n)),
    },
    "reduce": {
        "an element": (WORDS, lambda n, x: n + (x == "cat")),
        "a component": (RECORDS, lambda n, r: n + (r["label"] == "cat")),
        "one of a tuple": (D.zip(D.range(2), WORDS), lambda n, x: n + (x[1] == "cat")),
    },
}


@pytest.mark.parametrize("operation", COUNTS)
@pytest.mark.parametrize("what", COUNTS["scan"])
def test_functions_that_carry_a_state_warn(operation, what):
    ds, fn = COUNTS[operation][what]
    with pytest.warns(BytesWarning, match="Write b'cat'") as caught:
        getattr(ds, operation)(0, fn)
    assert caught[0].filename == __file__


def test_nothing_is_said_of_a_state():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert WORDS.reduce("", lambda last, x: x.decode() if last == "" else last) == "cat"
        assert list(WORDS.scan("", lambda last, x: (x.decode(), last == "cat"))) == [False, True]
        assert WORDS.reduce(0, lambda n, x: n + (x == b"cat")) == 1


OF_UNKNOWN_ROWS = {
    "map": lambda ds: ds.map(lambda x: x == "cat"),
    "filter": lambda ds: ds.filter(lambda x: x == "cat"),
    "random_map": OTHER_OPERATIONS["random_map"],
    "take_while": OTHER_OPERATIONS["take_while"],
}


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("operation", OF_UNKNOWN_ROWS)
def test_rows_of_unknown_spec_raise_once_they_are_there(run, operation, rows):
    unknown = WORDS.repeat(3).take(rows).map(lambda x: (object(), x)[1], mode="eager")
    ds = OF_UNKNOWN_ROWS[operation](unknown)
    for _ in range(2):
        with pytest.raises(TypeError, match="Write b'cat'"):
            run(ds)


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
    "an array of bytes": (WORDS, lambda x: x == BYTES),
    "an array of numbers": (WORDS, lambda x: np.arange(2) == x),
    "an empty array": (WORDS, lambda x: OBJECTS[:0] == x),
    "the length of a split": (OF_PATHS, lambda p: len(hr.text.split(p, "/")) == "cat"),
    "numbers of text": (OF_PATHS, lambda p: hr.text.length(p) == "cat"),
    "a dict of labels of both kinds": (WORDS, lambda w: {"cat": 1, b"cat": 1}.get(w, 0) == 1),
    "a dict of numbers": (WORDS, lambda w: {1: "cat"}.get(w) is None),
    "another dict": (RECORDS, lambda r: r.get("label") == b"cat"),
    "decoded parts": (OF_PATHS, lambda p: p.decode().split("/")[-2] == "cat"),
    "parts of one kind": (OF_PATHS, lambda p: p.split(b"/")[-2] == b"cat"),
    "a method that finds": (WORDS, lambda w: w.find(b"a") == "cat"),
    "no such component": (RECORDS, lambda r: r["nothing"] == "cat"),
}


@pytest.mark.parametrize("what", FINE)
def test_nothing_is_said_of_other_comparisons(what):
    ds, fn = FINE[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.map(fn)
        ds.filter(fn, mode="eager")
