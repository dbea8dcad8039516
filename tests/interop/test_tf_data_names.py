"""Every public name of tf.data is here and takes what it takes there, or a table, which cannot go stale, says why."""

import inspect

import numpy as np
import pytest

import headrace as hr
from headrace.names import ANOTHER_NAME, APPLIED, GUESSES, NOT_HERE, NOT_YET, UNTIL_THEN
from headrace.options import ELSEWHERE, GROUPS, SAME

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

OPTIONS = {f"Options.{name}" for name in {**ELSEWHERE, **GROUPS, **SAME} if "." not in name}
"""Reached, or explained, through an hr.Options: tests/test_options.py."""

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
WORKING = [*APPLIED, "experimental.TFRecordWriter", "experimental.RandomDataset"]
"""Functions that only hand on what they are given."""
HERE = [name for name in NAMES if name not in {*NOT_HERE, *ANOTHER_NAME, *PENDING, *OPTIONS, *WORKING}]


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


def answer(path):
    """The answer for a name that does not exist."""
    home, _, name = path.rpartition(".")
    with pytest.raises(AttributeError) as caught:
        getattr(at(hr, home) if home else hr, name)
    return str(caught.value)


@pytest.mark.parametrize("name", ANOTHER_NAME)
def test_another_name_is_here(name):
    target = ANOTHER_NAME[name]
    assert name in NAMES
    if name == f"experimental.{target}" and target not in PENDING:
        assert at(hr, name) is at(hr, target)
        return
    assert at(hr, name) is NOTHING, "here under its own name as well"
    assert at(hr, target) is not NOTHING or target in PENDING
    if target not in PENDING and not name.startswith(("NumpyIterator.", "Iterator.")):
        assert f"hr.{target}" in answer(name)


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_is_not_here_is_not_and_says_why(name):
    assert name in NAMES
    assert at(hr, name) is NOTHING
    if not name.startswith("Iterator."):
        assert NOT_HERE[name] in answer(name)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_names_of_options(name):
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
    assert UNTIL_THEN[name] in answer(name)


def test_every_name_of_tf_io_is_here_or_answered():
    for name in public("", tf.io):
        if at(hr.io, name) is NOTHING:
            assert "hr.io" in answer(f"io.{name}")
    stale = [path for path in GUESSES if path.startswith("io.") and at(hr, path) is not NOTHING]
    assert stale == []


@pytest.mark.parametrize("name", WORKING)
def test_names_of_experimental_work(name):
    assert name in NAMES
    assert callable(at(hr, name))


def test_functions_for_apply_do_what_tf_datas_do():
    def made(D, experimental):
        ds = D.range(10).batch(3).apply(experimental.unbatch()).apply(experimental.enumerate_dataset(start=2))
        short = D.range(3).apply(experimental.take_while(lambda x: x < 2))
        buckets = D.range(1, 6).map(lambda n: tf.ones(n) if D is tf.data.Dataset else np.ones(n, np.float32))
        buckets = buckets.apply(
            experimental.bucket_by_sequence_length(lambda x: len(x) if D is hr.Dataset else tf.shape(x)[0], [3], [2, 2])
        )
        counted = [int(x) for x in experimental.Counter(3, 2).take(2)]
        one = experimental.sample_from_datasets([D.range(4)], [1.0])
        return (
            [(int(i), int(x)) for i, x in ds],
            [int(x) for x in short],
            sorted(np.asarray(x).shape for x in buckets),
            counted,
            [int(x) for x in one],
            int(experimental.cardinality(short)),
            int(experimental.get_single_element(D.range(1))),
        )

    assert made(hr.Dataset, hr.experimental) == made(tf.data.Dataset, tf.data.experimental)


def test_a_writer_of_experimental_writes_a_file_of_records(tmp_path):
    records = [b"a", b"bc", b""]
    hr.experimental.TFRecordWriter(str(tmp_path / "a"), "GZIP").write(hr.Dataset.from_tensor_slices(records))
    assert [r.numpy() for r in tf.data.TFRecordDataset(str(tmp_path / "a"), "GZIP")] == records
