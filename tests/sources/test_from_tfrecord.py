"""Examples whose features are inferred: what the first records do not have is never lost in silence."""

import numpy as np
import pytest
from tests.by_hand import sequence_example
from tests.framing import framed

import headrace as hr
from headrace.testing import check_transformation, outcomes

D = hr.Dataset
ROWS = 130


def example(i):
    return hr.io.encode_example({"x": i, "y": i / 2})


@pytest.fixture
def put(tmp_path):
    def write(records):
        path = tmp_path / "records.tfrecord"
        path.write_bytes(framed(records))
        return path

    return write


def with_late(record, at=110):
    return [record if i == at else example(i) for i in range(ROWS)]


def test_a_feature_that_comes_later_is_an_error_that_names_it(put):
    path = put(with_late(hr.io.encode_example({"x": 1, "late": 5, "y": 0.5})))
    got = outcomes(iter(D.from_tfrecord(path)))
    assert [i for i, (kind, _) in enumerate(got) if kind == "error"] == [110]
    for what in ("'late'", f"{path}, record 110, byte", "features="):
        assert what in got[110][1]


def test_so_is_a_feature_list(put):
    path = put(with_late(hr.io.encode_sequence_example({"x": 1, "y": 0.5}, {"words": [[1]]})))
    assert "feature list 'words'" in outcomes(iter(D.from_tfrecord(path)))[110][1]


def test_one_that_holds_nothing_is_no_feature(put):
    nothing = example(1) + bytes.fromhex("0a080a060a046c617465")  # a name, "late", and no more
    rows = with_late(nothing)
    rows[3] = nothing
    ds = D.from_tfrecord(put(rows))
    assert sorted(ds.element_spec) == ["x", "y"]
    assert len(list(ds)) == ROWS


def test_features_that_are_given_are_all_that_is_read(put):
    path = put(with_late(hr.io.encode_example({"x": 1, "late": 5})))
    features = {"x": hr.io.FixedLenFeature([], np.int64)}
    assert len(list(D.from_tfrecord(path, features))) == ROWS


def test_it_can_be_left_out(put):
    path = put(with_late(hr.io.encode_example({"x": 1, "late": 5, "y": 0.5})))
    assert len(list(D.from_tfrecord(path, on_error="skip"))) == ROWS - 1


@pytest.mark.parametrize(
    "record",
    [
        hr.io.encode_example({"x": 1, "late": 5, "y": 0.5}),
        hr.io.encode_example({"x": 1, "y": 0.5, "b": b"text"}),
        hr.io.encode_example({"x": 1}),
        hr.io.encode_example({"x": 1.5, "y": 0.5}),
        hr.io.encode_sequence_example({"x": 1, "y": 0.5}, {"words": [[1]]}),
        sequence_example([], []),
        example(1)[:-3],
        b"\xff\xff",
    ],
)
def test_every_promise_holds(put, record):
    ds = D.from_tfrecord(put(with_late(record)))
    check_transformation(ds, cuts=5, epochs=1)
    check_transformation(ds.shuffle(20, seed=1).batch(7), cuts=5, epochs=1)
