"""Large rows: each is copied as seldom as possible, and no other memory is overwritten."""

import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.columns.block import Rooms
from headrace.columns.dense import MIN_THREADED_COPY_BYTES, copy_in_order, neighbours
from headrace.ops.shuffle.shuffle_buffer import RowSlots

D = hr.Dataset
WIDE = MIN_THREADED_COPY_BYTES // 8
"""Bytes of a row of which a few are much."""


@pytest.fixture(autouse=True)
def several_threads():
    _native.set_team(3)


def rows_of(numbers, width=WIDE):
    return np.repeat(np.asarray(numbers, np.int64)[:, None], width // 8, axis=1)


WIDTHS = [8, 16, 24, 32, WIDE]
"""Sizes of rows that are moved one after another, most of them in a way of their own, and at once."""


@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 40), st.randoms(use_true_random=False))
def test_rows_that_are_exchanged_are_those_of_one_after_another(width, capacity, count, random):
    slots, incoming = rows_of(range(capacity), width), rows_of(range(100, 100 + count), width)
    draws = np.array([random.randrange(capacity) for _ in range(count)])
    hole = random.randrange(capacity)
    plain, given_out, last = slots[:, 0].tolist(), [], hole
    for row, draw in zip(incoming[:, 0].tolist(), draws.tolist(), strict=True):
        plain[last] = row
        last = draw
        given_out.append(plain[last])
    out = np.empty_like(incoming)
    assert _native.shuffle_exchange(slots.view(np.uint8), hole, [incoming], draws, [out]) == last
    assert (out == rows_of(given_out, width)).all()
    del plain[last]
    assert (np.delete(slots, last, 0) == rows_of(plain, width)).all()


@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.data())
def test_rows_that_are_drained_are_those_of_one_after_another(width, used, data):
    count = data.draw(st.integers(1, used))
    draws = np.array([data.draw(st.integers(0, used - 1 - i)) for i in range(count)])
    slots, plain, given_out = rows_of(range(used), width), list(range(used)), []
    for draw in draws.tolist():
        given_out.append(plain[draw])
        plain[draw] = plain[-1]
        plain.pop()
    out = np.empty((count, slots.shape[1]), np.int64)
    _native.shuffle_drain(slots.view(np.uint8), used, draws, [out])
    assert (out == rows_of(given_out, width)).all()
    assert (slots[: used - count] == rows_of(plain, width)).all()


VIEWS = {
    "mirrored": lambda x: x[:, :, ::-1],
    "upside down": lambda x: x[:, ::-1],
    "both": lambda x: x[:, ::-1, ::-1],
    "every other": lambda x: x[:, ::2, 1::3],
    "channels first": lambda x: x.transpose(0, 3, 1, 2),
    "turned": lambda x: x.swapaxes(1, 2),
    "channels backwards": lambda x: x[..., ::-1],
    "one channel": lambda x: x[..., :1],
    "a row for all": lambda x: np.broadcast_to(x[:1], x.shape),
    "a pixel for all": lambda x: np.broadcast_to(x[:, :1, :1], x.shape),
    "backwards": lambda x: x[::-1],
    "as it is": lambda x: x,
    "nothing": lambda x: x[:, :0],
}
DTYPES = ["u1", "i2", "f4", "f8", "c16", ">i4", "M8[s]", [("a", "u1"), ("b", "f4")]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8])
def test_rows_of_any_layout_are_copied_as_numpy_does(view, dtype, channels):
    kind = np.dtype(dtype)
    numbers = np.arange(5 * 7 * 9 * channels * kind.itemsize) * 97 % 251
    whole = numbers.astype(np.uint8).view(kind).reshape(5, 7, 9, channels)
    rows = VIEWS[view](whole)
    out = np.zeros(rows.shape, kind)
    _native.copy_rows(rows, out)
    assert out.tobytes() == rows.tobytes()
    picked = np.array([4, 0, 0, 2])
    places = np.array([3, 0, 2, 1])
    some = np.zeros((4, *rows.shape[1:]), kind)
    _native.copy_rows(rows, some, picked, places)
    assert some[places].tobytes() == rows[picked].tobytes()
    assert copy_in_order(rows).tobytes() == rows.tobytes()
    assert copy_in_order(rows).flags.c_contiguous


def test_what_cannot_be_copied_is_refused():
    rows = np.zeros((3, 4))
    for out, how in [
        (np.zeros((3, 5)), {}),
        (np.zeros((2, 4)), {}),
        (np.zeros((3, 4), np.float32), {}),
        (np.zeros((4, 3)).T, {}),
        (np.zeros((3, 4)), {"indices": np.array([3])}),
        (np.zeros((3, 4)), {"places": np.array([0, -1, 2])}),
        (np.zeros((3, 4)), {"indices": np.array([0]), "places": np.array([0, 1])}),
    ]:
        with pytest.raises(ValueError, match=r"."):
            _native.copy_rows(rows, out, **how)
    with pytest.raises(ValueError, match="objects"):
        _native.copy_rows(np.zeros((1, 2), object), np.zeros((1, 2), object))
    locked = np.zeros((3, 4))
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="written"):
        _native.copy_rows(rows, locked)


def test_rows_that_lie_one_after_another_are_one_column_without_a_copy():
    whole = np.arange(24).reshape(8, 3).copy()
    made = neighbours([whole[1:3], whole[3:4], whole[4:7]])
    assert np.shares_memory(made, whole)
    assert made.tolist() == whole[1:7].tolist()
    locked = whole[3:5]
    locked.flags.writeable = False
    others = [[whole[1:3], whole[4:5]], [whole[3:4], whole[2:3]], [whole[1:3], locked], [whole[:2], whole[2:4].copy()]]
    others += [[whole[:2, :2], whole[2:4, :2]], [whole[::2][:1], whole[::2][1:]]]
    assert [neighbours(columns) for columns in others] == [None] * len(others)


def test_memory_that_is_kept_is_not_joined(run):
    rows = np.zeros((4, WIDE), np.uint8)
    ds = D.from_tensor_slices(rows).batch(2).unbatch().batch(4)
    for batch in ds.map(lambda x: x, mode="eager"):
        batch[:] = 1
    assert not rows.any()
    assert [batch.sum() for batch in run(ds)] == [0]


def test_what_a_shuffle_gives_out_is_contiguous_and_never_overwritten():
    images = rows_of(range(60))
    ds = D.from_tensor_slices(images).map(lambda x: x + 0).filter(lambda x: x[0] >= 0).shuffle(20, seed=3).batch(8)
    kept = list(ds)
    first = [batch.copy() for batch in kept]
    assert sorted(np.concatenate([b[:, 0] for b in kept]).tolist()) == list(range(60))
    for batch, again in zip(kept, ds, strict=True):
        again[:] = -1
        batch[:, 0] += 0
    assert all((a == b).all() for a, b in zip(kept, first, strict=True))


def test_rows_of_slots_that_were_expected_lie_together():
    slots = RowSlots([rows_of(range(1))])
    slots.grow(6)
    slots.place(slice(0, 6), [rows_of(range(6))])
    slots.expect(8)
    (first,) = slots.exchange(0, [rows_of([6, 7, 8])], np.array([1, 2, 3]))
    (second,) = slots.exchange(3, [rows_of([9, 10])], np.array([4, 5]))
    whole = neighbours([first, second])
    assert whole is not None
    assert whole[:, 0].tolist() == [1, 2, 3, 4, 5]
    (more,) = slots.drain(5, np.array([0, 0, 0, 0]))  # more than is left of what was expected
    assert more.shape == (4, WIDE // 8)


def flip(image, rng):
    return image[:, ::-1] if rng.random() < 0.5 else image


IMAGES = np.arange(24 * 40 * 40 * 3, dtype=np.uint32).astype(np.uint8).reshape(24, 40, 40, 3)


@pytest.mark.parametrize("calls", [None, 1, 2, hr.AUTOTUNE])
@pytest.mark.parametrize(
    "fn",
    [flip, lambda x, rng: np.where(rng.random() < 0.5, x[:, ::-1], x), hr.image.random_flip_left_right],
    ids=["if", "where", "hr.image"],
)
def test_images_are_mirrored_alike_in_every_way(run, calls, fn):
    ds = D.from_tensor_slices(IMAGES).shuffle(24, seed=1).random_map(fn, 2, num_parallel_calls=calls).batch(7)
    rows = np.concatenate(list(run(ds)))
    plain = D.from_tensor_slices(IMAGES).shuffle(24, seed=1).random_map(flip, 2, mode="eager")
    assert rows.tobytes() == np.stack(list(plain)).tobytes()


BUFFERS = threading.local()  # one for all threads would change under the function's own feet


def reuses_its_array(x):
    if not hasattr(BUFFERS, "array"):
        BUFFERS.array = np.zeros((64, 64), np.float64)
    BUFFERS.array[:] = x
    return BUFFERS.array


def changes_shape(x):
    return np.full((60 + int(x) % 3, 64), float(x))


def fails_at_times(x):
    if x % 5 == 3:
        raise ValueError(f"no {x}")
    return np.full((64, 64), float(x)), x


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("fn", [reuses_its_array, changes_shape, fails_at_times])
def test_large_rows_of_a_function_are_its_results_whatever_it_does(run, fn, calls):
    ds = D.range(40).map(fn, num_parallel_calls=calls, mode="eager").ignore_errors()
    rows = [x[0] if isinstance(x, tuple) else x for x in run(ds)]
    wanted = [float(i) for i in range(40) if fn is not fails_at_times or i % 5 != 3]
    assert [float(row[0, 0]) for row in rows] == wanted
    assert all((row == row[0, 0]).all() for row in rows)
    batched = D.range(40).map(fn, num_parallel_calls=calls, mode="eager").ignore_errors().ragged_batch(8)
    assert sum(len(b[0] if isinstance(b, tuple) else b) for b in batched) == len(wanted)


def test_rooms_take_rows_of_one_shape_and_leave_others_alone():
    rooms = Rooms(3)
    large, other = np.ones((32, 32)), np.ones((32, 33))
    made = [rooms.keep([x])[0] for x in (large, 2 * large, other)]
    large[:] = 0
    assert np.shares_memory(rooms.column(0, made[:2]), made[0])
    assert [m[0, 0] for m in made] == [1, 2, 1]
    assert not isinstance(rooms.column(0, made), np.ndarray) or len(rooms.column(0, made)) == 3
    assert rooms.keep([np.ones((32, 32))])[0].base is None  # more rows than there is room for


FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


@pytest.fixture
def records(tmp_path):
    name = str(tmp_path / "a.tfrecord")
    with hr.io.TFRecordWriter(name) as writer:
        for i in range(30):
            writer.write({"image": bytes([i]) * 12_288, "label": i})
    return name


def raw(record):
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8), row["label"]


def raw_twice(record):
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8), hr.io.decode_raw(row["image"], np.uint8)


def raw_and_text(record):
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8), row["image"]


def raw_reshaped(record):
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8).reshape(64, 64, 3)[:, ::-1], row["label"]


@pytest.mark.parametrize("fn", [raw, raw_twice, raw_and_text, raw_reshaped])
@pytest.mark.parametrize("calls", [None, 2])
def test_raw_numbers_are_writable_and_share_no_memory(run, records, fn, calls):
    ds = hr.TFRecordDataset(records).map(fn, num_parallel_calls=calls)
    for epoch, rows in itertools.product(range(2), [list(ds), list(ds.batch(30))[:1]]):
        del epoch
        for first, second in rows:
            before = np.array(second, copy=True)
            first[...] = 255
            assert np.array_equal(np.asarray(second), before)
    rows = list(run(ds))
    assert [int(np.ravel(a)[0]) for a, _ in rows] == list(range(30))
    assert [set(np.ravel(a).tolist()) for a, _ in rows] == [{i} for i in range(30)]


def test_records_shuffled_by_threads_are_those_of_the_naive_executor(run, records):
    ds = hr.TFRecordDataset([records] * 3, num_parallel_reads=3).map(raw, num_parallel_calls=2).shuffle(40, seed=2)
    assert [label.tolist() for _, label in run(ds.batch(16))]
    images = [image for image, _ in ds.batch(16)]
    labels = [label for _, label in ds.batch(16)]
    assert all((i[:, 0] == n).all() for i, n in zip(images, labels, strict=True))


FORKED = """
import faulthandler, os
import numpy as np
import headrace as hr
from headrace import _native
_native.set_team(3)
rows = np.arange(1 << 22).reshape(64, -1)
def copied():
    out = np.empty_like(rows)
    _native.copy_rows(rows, out)
    return (out == rows).all()
assert copied()
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        os._exit(0 if copied() and copied() else 3)
    assert os.waitpid(pid, 0)[1] == 0
    assert copied()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_process_that_was_forked_has_helpers_of_its_own():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=300)
