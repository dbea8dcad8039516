"""Functions of rows whose length only the rows determine: raw bytes as numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace.checks import rows

import headrace as hr
from headrace.testing import difference, outcomes, reference_outcomes
from headrace.trace import function
from headrace.trace.graph import Graph

D = hr.Dataset
IMAGES = [image.tobytes() for image in rows("u1", 4, 6)]
MEAN = np.arange(24.0).reshape(4, 6)
FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


def raw(x):
    return np.frombuffer(x, np.uint8)


def parsed(record):
    example = hr.io.parse_single_example(record, FEATURES)
    image = hr.io.decode_raw(example["image"], np.uint8).reshape(4, 6)
    return image.astype(np.float32) / 255, example["label"]


def label_and_image(x):
    record = raw(x)
    return record[0].astype(np.int32), record[4:].reshape(2, 5, 2)


def of_its_length(x):
    numbers = raw(x)
    return numbers[: len(numbers) // 2]


def in_a_loop(x):
    numbers = raw(x).reshape(4, 6)
    return sum(numbers[i].astype(np.int64) for i in range(3))


def by_its_length(x):
    numbers = raw(x)
    return numbers if len(numbers) > 30 else numbers[:1]


def by_its_shape(x):
    numbers = raw(x)
    return max([i for i in range(np.shape(numbers)[0]) if i < 3], default=0) + numbers


def writes(x):
    numbers = raw(x)
    numbers[0] = 1
    return numbers


FUNCTIONS = {
    "an image": (lambda x: raw(x).reshape(4, 6).astype(np.float32) / 255, (4, 6)),
    "by np.reshape": (lambda x: np.reshape(raw(x)[4:], (-1, 2, 5)).astype(np.int16), (None, None, None)),
    "by decode_raw": (lambda x: hr.io.decode_raw(x, np.uint8).reshape(4, 6) - MEAN, (4, 6)),
    "wider numbers": (lambda x: np.frombuffer(x, dtype=np.int16).reshape((3, 4)), (3, 4)),
    "after a header": (lambda x: np.frombuffer(x, np.float32, offset=8).reshape(2, 2), (2, 2)),
    "big-endian": (lambda x: hr.io.decode_raw(x, np.int32, little_endian=False).reshape(2, 3), (2, 3)),
    "as it is": (raw, (None,)),
    "an open shape": (lambda x: raw(x).reshape(-1, 3), (None, None)),
    "two lengths": (lambda x: raw(x).reshape(4, 6) * np.frombuffer(x, np.float32).reshape(6).sum(), (4, 6)),
    "rows of floats": (lambda x: raw(x).view(np.float32) * 2, (None,)),
    "a sum": (lambda x: raw(x).sum(), ()),
    "a part": (lambda x: raw(x)[2000:2004], (None,)),
    "of its length": (of_its_length, (None,)),
    "in a loop": (in_a_loop, (6,)),
    "an element": (lambda x: raw(x)[5], ()),
    "every other one": (lambda x: raw(x)[::2].reshape(4, 3), (None, None)),
}
EAGER = {
    "by its length": (by_its_length, "decide by a length"),
    "by its shape": (by_its_shape, "decide by a length"),
    "writes": (writes, "does not own"),
    "so many": (lambda x: np.frombuffer(x, np.uint8, 3), "frombuffer raises"),
    "foreign order": (lambda x: np.frombuffer(x, ">i2"), "frombuffer raises"),
    "truths": (lambda x: np.frombuffer(x, bool), "frombuffer raises"),
}


def same(ds):
    with np.errstate(all="ignore"):
        reason = difference(outcomes(iter(ds)), reference_outcomes(ds))
    assert reason is None, f"{reason}\n{ds.explain()}"


LENGTHS = {
    "one length": IMAGES,
    "one row is cut": [*IMAGES[:20], IMAGES[0][:-4], *IMAGES[20:]],
    "another length from the middle on": [*IMAGES[:20], *[x * 2 for x in IMAGES]],
    "another length from the start": [x[:12] for x in IMAGES],
    "no whole number": [*IMAGES[:5], b"abc", *IMAGES],
    "empty": [b""] * 9,
    "all lengths": [bytes(range(i)) for i in range(40)],
}


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_of_any_length_are_what_they_are_alone(name, lengths):
    fn, shape = FUNCTIONS[name]
    ds = D.from_tensor_slices(LENGTHS[lengths]).map(fn)
    assert isinstance(ds._node.graph, Graph), ds._node.graph
    assert ds._node.spec.leaves[0].shape == shape
    assert ds._node.pure
    same(ds)


@pytest.mark.parametrize("name", EAGER)
def test_what_cannot_tell_its_way_without_a_length_is_called_on_each(name):
    fn, reason = EAGER[name]
    ds = D.from_tensor_slices(IMAGES).map(fn)
    assert reason in ds._node.graph
    same(ds)


def test_records_with_raw_images():
    records = [hr.io.encode_example({"image": x, "label": i}) for i, x in enumerate(IMAGES)]
    ds = D.from_tensor_slices(records).map(parsed)
    assert ds.element_spec == (hr.TensorSpec((4, 6), "f4"), hr.TensorSpec((), "i8"))
    same(ds)
    same(ds.map(lambda x, y: (x.mean(axis=0), y)).batch(8))


def test_a_record_and_its_label():
    ds = D.from_tensor_slices(IMAGES).map(label_and_image)
    assert ds.element_spec == (hr.TensorSpec((), "i4"), hr.TensorSpec((2, 5, 2), "u1"))
    same(ds)


def test_a_captured_number_that_changes_is_noticed_for_every_length():
    state = {"scale": 2}

    def fn(x):
        return raw(x) * state["scale"]

    ds = D.from_tensor_slices(LENGTHS["another length from the middle on"]).map(fn)
    before = [x.tolist() for x in ds]
    state["scale"] = 3
    assert [x.tolist() for x in ds] != before
    same(ds)


@given(
    lengths=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    dtype=st.sampled_from(["u1", "i2", "f4", "f8", "c8"]),
    offset=st.sampled_from([0, 8]),
    runs=st.integers(1, 12),
)
def test_any_lengths(lengths, dtype, offset, runs):
    data = [bytes(range(8 * n)) for n in lengths for _ in range(runs)]
    same(D.from_tensor_slices(data).map(lambda x: np.frombuffer(x, dtype, offset=offset)))
    same(D.from_tensor_slices(data).map(lambda x: hr.io.decode_raw(x, dtype).reshape(2, -1)))


def test_a_function_is_traced_once_per_length_whichever_map_or_thread_uses_it(monkeypatch):
    calls = []

    def traced(fn, *args, sizes=None, **kwargs):
        calls.append(sizes)
        return trace(fn, *args, sizes=sizes, **kwargs)

    def decoded(x):
        return raw(x) + np.uint8(1)

    trace = function.trace
    monkeypatch.setattr(function, "trace", traced)
    rows = D.from_tensor_slices([bytes([i % 256]) * 30 for i in range(400)])
    want = [np.full(30, (i + 1) % 256, np.uint8) for i in range(400)]
    for _ in range(2):
        ds = rows.map(decoded, num_parallel_calls=4).batch(7).unbatch()
        assert all(map(np.array_equal, ds, want))
    assert len([sizes for sizes in calls if sizes]) == 1
    longer = D.from_tensor_slices([b"1" * 31] * 9).map(decoded)
    assert {row.shape for row in longer} == {(31,)}
    assert {row.shape for row in rows.map(decoded)} == {(30,)}
