"""Elements that are dropped because they do not fill a group: a failure among them is raised at the end."""

import gc
import json
import threading
import weakref
from contextlib import suppress
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.distribute.even_shard import EvenShard
from headrace.testing import outcomes, reference_outcomes

D = hr.Dataset


def failing(*numbers):
    def fn(x):
        if int(x) in numbers:
            raise ValueError(f"bad {int(x)}")
        return x

    return fn


def records(path, count):
    with hr.io.TFRecordWriter(path) as writer:
        for i in range(count):
            writer.write(b"%d" % i)
    return path


def ten(*bad):
    return D.range(10).map(failing(*bad))


def told(ds):
    """What both executors give: of values their lists, of errors what was wrong."""
    got, want = outcomes(iter(ds)), reference_outcomes(ds)
    assert [kind for kind, _ in got] == [kind for kind, _ in want]
    return [
        np.asarray(value).tolist() if kind == "value" else value.partition("\n")[0].rpartition(": ")[2]
        for kind, value in got
    ]


def rows_of(kind):
    return {
        "batch": lambda d: d.batch(4, drop_remainder=True),
        "batch ahead": lambda d: d.batch(4, drop_remainder=True, num_parallel_calls=2),
        "padded_batch": lambda d: d.padded_batch(4, drop_remainder=True),
        "ragged_batch": lambda d: d.ragged_batch(4, drop_remainder=True),
        "rebatch": lambda d: d.batch(3).rebatch(4, drop_remainder=True),
        "rebatch in turn": lambda d: d.batch(1).rebatch([3, 5], drop_remainder=True),
        "window": lambda d: d.window(4, drop_remainder=True).flat_map(lambda w: w.batch(4)),
        "bucket": lambda d: d.bucket_by_sequence_length(lambda x: 1, [2], [4, 4], drop_remainder=True),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["batch", "batch ahead", "padded_batch", "ragged_batch", "rebatch", "rebatch in turn", "window", "bucket"]
)
@pytest.mark.parametrize("make", [ten, lambda bad: ten(bad).filter(lambda x: x >= 0)], ids=["by number", "in turn"])
def test_a_failure_in_the_remainder_is_raised_after_the_last_group(kind, make):
    *batches, error = told(rows_of(kind)(make(9)))
    assert (len(batches), error) == (2, "bad 9")


@settings(max_examples=30)
@given(
    n=st.integers(0, 13),
    size=st.integers(1, 5),
    bad=st.frozensets(st.integers(0, 12), max_size=4),
    kind=st.sampled_from(["batch", "batch ahead", "padded_batch", "ragged_batch"]),
    in_turn=st.booleans(),
)
def test_planted_failures_are_all_seen_in_their_places(n, size, bad, kind, in_turn):
    """What is expected is computed here: the reference is put to the same test."""
    rows = D.range(n).map(failing(*bad))
    rows = rows.filter(lambda x: x >= 0) if in_turn else rows
    groups = [range(start, start + size) for start in range(0, n - size + 1, size)]
    expected = [next((f"bad {i}" for i in group if i in bad), list(group)) for group in groups]
    dropped = [f"bad {i}" for i in range(len(groups) * size, n) if i in bad]
    batches = {
        "batch": rows.batch(size, drop_remainder=True),
        "batch ahead": rows.batch(size, drop_remainder=True, num_parallel_calls=2),
        "padded_batch": rows.padded_batch(size, drop_remainder=True),
        "ragged_batch": rows.ragged_batch(size, drop_remainder=True),
    }
    assert told(batches[kind]) == expected + dropped[:1]


def test_a_file_that_is_missing_is_not_lost(tmp_path):
    with pytest.raises(hr.ElementError, match="nope"):
        list(hr.TFRecordDataset(["/nope"]).batch(10, drop_remainder=True))
    good = records(tmp_path / "good", 3)
    for files in ([good, "/nope"], ["/nope", good]):
        it = iter(hr.TFRecordDataset(files).batch(3, drop_remainder=True))
        with pytest.raises(hr.ElementError, match="nope"):
            list(it)
            list(it)


def test_an_iterator_that_raised_it_is_collected_once_dropped(tmp_path):
    good = records(tmp_path / "good", 3)
    it = iter(hr.TFRecordDataset([good, "/nope"]).batch(3, drop_remainder=True))
    dropped = weakref.ref(it)
    with suppress(hr.ElementError):
        list(it)
    del it
    gc.collect()
    assert dropped() is None


def test_a_record_that_is_corrupt_is_not_lost(tmp_path):
    path = records(tmp_path / "x", 5)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ds = hr.TFRecordDataset(path).map(lambda r: r, num_parallel_calls=2).batch(4, drop_remainder=True)
    it = iter(ds)
    assert list(next(it)) == [b"0", b"1", b"2", b"3"]
    with pytest.raises(hr.ElementError, match="record 4"):
        next(it)
    assert list(it) == []


def test_it_is_no_element():
    ds = ten(9).batch(4, drop_remainder=True)
    assert (len(ds), ds.count(), len(list(ds.ignore_errors()))) == (2, 2, 2)
    assert ds[1].tolist() == [4, 5, 6, 7]
    with pytest.raises(IndexError):
        ds[2]
    assert told(ds[:]) == told(ds.take(2)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_the_first_of_several_is_raised_once():
    assert told(ten(8, 9).batch(4, drop_remainder=True))[2:] == ["bad 8"]
    assert told(D.zip(ten(8).batch(4, True), ten(9).batch(4, True)))[2:] == ["bad 8"]


def test_groups_after_it_do_not_hold_it():
    assert told(ten(9).batch(3, drop_remainder=True).batch(2)) == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8]], "bad 9"]
    assert told(ten(9).batch(3, drop_remainder=True).batch(2, drop_remainder=True))[1:] == ["bad 9"]


@pytest.mark.parametrize("buffer_size", [2, None])
def test_a_shuffle_leaves_it_at_the_end(buffer_size):
    assert told(ten(9).batch(4, drop_remainder=True).shuffle(buffer_size, seed=1))[2:] == ["bad 9"]


def test_each_epoch_of_a_repeat_raises_it():
    epoch = [[0, 1, 2, 3], [4, 5, 6, 7], "bad 9"]
    assert told(ten(9).batch(4, drop_remainder=True).repeat(2)) == epoch * 2
    it = iter(hr.TFRecordDataset(["/nope"]).batch(10, drop_remainder=True).repeat())
    for _ in range(3):
        with pytest.raises(hr.ElementError, match="nope"):
            next(it)


def test_so_does_each_dataset_that_is_followed_by_another():
    epoch = [[0, 1, 2, 3], [4, 5, 6, 7], "bad 9"]
    ds = ten(9).batch(4, drop_remainder=True)
    assert told(ds.concatenate(ds)) == epoch * 2
    assert told(D.range(2).flat_map(lambda _: ten(9).batch(4, drop_remainder=True))) == epoch * 2
    both = [row for row in epoch for _ in range(2)]
    assert told(D.range(2).interleave(lambda _: ten(9).batch(4, drop_remainder=True), cycle_length=2)) == both
    by_number = D.range(2).flat_map(lambda _: ten(9).batch(4, drop_remainder=True)).shuffle(seed=1)
    assert told(by_number)[4:] == ["bad 9"]


@pytest.mark.parametrize("path", [False, True])
def test_a_cache_keeps_it(tmp_path, path):
    ds = ten(9).batch(4, drop_remainder=True).cache(str(tmp_path / "kept") if path else "")
    assert [kind for kind, _ in outcomes(iter(ds))] == ["value", "value", "error"]
    assert [kind for kind, _ in outcomes(iter(ds))] == ["value", "value", "error"]


def test_a_window_tells_of_rows_that_no_whole_window_holds():
    def windows(bad, *how):
        return told(ten(bad).window(*how, drop_remainder=True).flat_map(lambda w: w.batch(9)))

    assert windows(9, 4, 2)[-1] == "bad 9"  # in the last whole window, and so no second time
    assert windows(9, 4, 2).count("bad 9") == 1
    assert windows(9, 3, 2) == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8], "bad 9"]
    assert windows(9, 3, 4) == [[0, 1, 2], [4, 5, 6], "bad 9"]
    assert windows(7, 3, 4) == [[0, 1, 2], [4, 5, 6]]  # between windows: left out by number
    assert windows(9, 2, 4, 2) == [[0, 2], [4, 6]]  # passed over by the stride
    assert windows(7, 2, 1, 5) == [[0, 5], [1, 6], "bad 7", [3, 8], [4, 9]]


def test_what_is_skipped_by_number_is_left_out_and_files_are_not_opened():
    assert told(ten(0).skip(1).batch(4, drop_remainder=True)) == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert told(ten(9).take(9).batch(4, drop_remainder=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert told(ten(9).shard(2, 0).batch(2, drop_remainder=True)) == [[0, 2], [4, 6]]
    read = []

    def numbers():
        for i in range(10):
            read.append(i)
            yield i

    ds = D.from_generator(numbers, output_signature=hr.TensorSpec((), np.int64)).batch(4, drop_remainder=True)
    assert [batch.tolist() for batch in ds.take(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert read == list(range(8))


@pytest.mark.parametrize("make", [ten, lambda bad: ten(bad).filter(lambda x: x >= 0)], ids=["by number", "in turn"])
@pytest.mark.parametrize("bad", [8, 9])
def test_all_processes_raise_it_at_the_same_step(make, bad):
    for rank in range(2):
        assert told(make(bad).distribute(rank, 2, batch_size=2))[2:] == [f"bad {bad}"]
        assert told(make(bad).batch(3, drop_remainder=True).distribute(rank, 2))[1:] == [f"bad {bad}"]
    for index in range(4):
        assert told(D(EvenShard(make(bad)._node, 4, index)))[2:] == [f"bad {bad}"]


def test_processes_that_fill_up_the_last_step_drop_nothing():
    for uneven in ("pad", "wrap"):
        kinds = [[kind for kind, _ in outcomes(iter(ten(9).distribute(r, 2, 2, uneven)))] for r in range(2)]
        assert kinds == [["value", "value", "error"], ["value"] * 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.batch(4, drop_remainder=True),
        lambda d: d.batch(4, drop_remainder=True).map(lambda x: x + 1).prefetch(2),
        lambda d: d.batch(4, drop_remainder=True).shuffle(2, seed=1),
        lambda d: d.batch(4, drop_remainder=True).repeat(2),
        lambda d: d.window(4, drop_remainder=True).flat_map(lambda w: w.batch(4)),
        lambda d: d.batch(1).rebatch([4], drop_remainder=True),
        lambda d: d.distribute(1, 2, batch_size=2),
        lambda d: d.batch(4, drop_remainder=True).prefetch(1, mode="process"),
    ],
    ids=["batch", "map", "shuffle", "repeat", "window", "rebatch", "distribute", "process"],
)
def test_a_state_before_it_restores_to_it_and_one_after_it_to_the_end(make):
    ds = make(D.range(10).map(Bad()))
    want = outcomes(iter(ds))
    assert [kind for kind, _ in want[:3]] == ["value", "value", "error"]
    for cut in (2, 3):
        it = ds.iterator()
        assert len(outcomes(it, cut)) == cut
        again = ds.iterator(json.loads(json.dumps(it.state())))
        assert [kind for kind, _ in outcomes(again)] == [kind for kind, _ in want[cut:]]
        it.close()


class Bad:
    """A function that another process can run; fails on the last number."""

    def __call__(self, x):
        if x == 9:
            raise ValueError("bad 9")
        return x


def test_threads_that_read_ahead_do_not_raise_it_early():
    ended = threading.Event()

    def numbers():
        yield from range(9)
        ended.set()
        raise ValueError("broke off")

    ds = D.from_generator(numbers, output_signature=hr.TensorSpec((), np.int64)).batch(4, drop_remainder=True)
    it = iter(ds.prefetch(5).take(2))
    first = next(it)
    assert ended.wait(300)
    assert [batch.tolist() for batch in [first, *islice(it, 2)]] == [[0, 1, 2, 3], [4, 5, 6, 7]]
