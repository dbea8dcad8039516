"""Functions that only build on their windows are asked once; all others see every window."""

import functools

import numpy as np
import pytest

import headrace as hr
from headrace.iterator import Epochs, Iterator, Settings
from headrace.ops.shared.template import only_builds
from headrace.optimize.rules import apply_rules
from headrace.testing import check_transformation, outcomes

D = hr.Dataset
SIZE = 3
SHAPES = [(5, 1), (3, 2, 2), (2, 5), (4, None), (3, 1, 3, True), (30,)]


def at_once(ds):
    return apply_rules(ds._node).pure


def test_batches_of_windows_are_made_many_at_a_time():
    ds = D.range(10).window(3, shift=2).flat_map(lambda w: w.batch(SIZE))
    assert at_once(ds)
    assert [b.tolist() for b in ds] == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8], [8, 9]]
    assert "windows_at_once" in ds.explain()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 7, 20])
def test_every_promise_is_kept(shape, rows):
    numbers = D.range(rows).window(*shape)
    pairs = D.from_tensor_slices((np.arange(2.0 * rows).reshape(rows, 2), np.arange(rows))).window(*shape)
    named = D.from_tensor_slices({"a": np.arange(rows), "b": np.arange(rows) > 3}).window(*shape)
    for ds in (
        numbers.flat_map(lambda w: w),
        numbers.flat_map(lambda w: w.batch(2)),
        numbers.flat_map(lambda w: w.batch(8)),
        numbers.flat_map(lambda w: w.batch(3, drop_remainder=True)),
        pairs.flat_map(lambda x, y: D.zip((x.batch(3), y.batch(3)))).repeat(2),
        pairs.flat_map(lambda x, y: D.zip((x.batch(1), y.batch(3)))),
        named.flat_map(lambda w: hr.Dataset.zip({"x": w["a"].batch(4).batch(2), "y": w["b"].batch(8)})).shuffle(3),
    ):
        check_transformation(ds, cuts=5)


def test_rows_that_fail_spoil_their_windows_only():
    ds = D.range(12).map(lambda x: 1 // (x - 5) if x == 5 else x).window(3, shift=1).flat_map(lambda w: w.batch(3))
    got = outcomes(Iterator(ds._node, Epochs(), Settings(block_rows=4)))
    assert [kind for kind, _ in got] == ["value"] * 3 + ["error"] * 3 + ["value"] * 6
    check_transformation(ds)


def test_a_function_with_effects_is_called_for_every_window():
    seen = []

    def note(w):
        seen.append(w)
        return w.batch(5)

    ds = D.range(20).window(5).flat_map(note)
    assert not at_once(ds)
    assert len(list(ds)) == len(seen) == 4


def test_a_generator_is_read_as_far_as_one_window_needs():
    pulled = []

    def numbers():
        for i in range(100):
            pulled.append(i)
            yield i

    ds = D.from_generator(numbers, output_signature=hr.TensorSpec((), "int64"))
    it = iter(ds.window(4, shift=2).flat_map(lambda w: w.batch(4)))
    next(it)
    assert len(pulled) == 4
    next(it)
    assert len(pulled) == 6


def test_batches_of_windows_that_overlap_share_no_memory():
    first, second = list(D.from_tensor_slices(np.arange(4)).window(3, 1, 1, True).flat_map(lambda w: w.batch(3)))
    assert not np.shares_memory(first, second) or not first.flags.writeable


def test_a_mistake_in_the_function_is_an_error_of_each_window():
    ds = D.range(4).window(2).flat_map(lambda w: w.batch(0))
    assert [kind for kind, _ in outcomes(iter(ds))] == ["error", "error"]


def _helper(w):
    print(w)
    return w


def _default(w, n=[2]):  # noqa: B006
    return w.batch(n)


@pytest.mark.parametrize(
    "fn",
    [
        print,
        _default,
        lambda w: print(w),
        lambda w: w.batch(2) if w else w,
        lambda w: w.map(np.sin),
        lambda w: np.random.default_rng(),
        lambda w: hr.set_random_seed(3),
        lambda w: [x for x in w],  # noqa: C416
        lambda w: (yield w),
        lambda w: w.batch(SHAPES),
        lambda w: not_there(w),  # noqa: F821
        lambda w: w.batch(len(w)),
        lambda w: _helper(w),
        lambda w: (lambda v: v.batch(2))(w),  # noqa: PLC3002
        lambda w, f=_helper: f(w),
        lambda w: w.apply(_helper),
        functools.partial(_helper),
        functools.partial(hr.TFRecordDataset, on_error=print),
    ],
)
def test_what_is_not_known_to_only_build(fn):
    assert not only_builds(fn)


def test_what_only_builds():
    size = 4
    assert only_builds(lambda w: w.batch(size))
    assert only_builds(lambda w: w.batch(batch_size=SIZE, drop_remainder=True))
    assert only_builds(lambda w, n=3: w.batch(n))
    assert only_builds(lambda a, b: D.zip(a, b))
    assert only_builds(lambda *w: hr.Dataset.zip(w))
    assert only_builds(hr.TFRecordDataset)
    assert only_builds(functools.partial(hr.TFRecordDataset, compression_type="GZIP"))
    assert only_builds(lambda name: hr.TextLineDataset("folder/" + name).map(_helper).filter(lambda line: line != ""))
    assert only_builds(lambda name: hr.CsvDataset(f"{name}.csv", [0, 0.0], header=True).take(size))
    assert only_builds(lambda w: hr.Dataset.zip({"x": w["x"].batch(2), "y": w["y"].batch(2)}))
