"""flat_map: the elements of datasets that a function makes."""

import gc
import weakref
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


def _lines(folder, files=3, lines=5):
    names = [str(folder / f"{i}.txt") for i in range(files)]
    for i, name in enumerate(names):
        Path(name).write_text("".join(f"{i}{j}\n" for j in range(lines)))
    return names


def _length(line):
    return hr.io.decode_raw(line, np.uint8)[0]


NESTING = {
    "flat_map": lambda d, fn: d.flat_map(fn),
    "interleave": lambda d, fn: d.interleave(fn, cycle_length=2),
    "parallel": lambda d, fn: d.interleave(fn, cycle_length=2, num_parallel_calls=2),
}


SEEN = []


def note(line):
    SEEN.append(line)
    return line


def test_flat_map_goes_through_one_dataset_after_the_other(run):
    assert numbers(run(D.range(4).flat_map(D.range))) == [0, 0, 1, 0, 1, 2]
    assert D.range(4).flat_map(D.range).cardinality() == hr.UNKNOWN_CARDINALITY


def test_a_function_that_returns_no_dataset_is_an_error_at_the_element():
    it = iter(D.range(3).flat_map(lambda n: 5 if n == 1 else D.range(n + 1)))
    assert next(it) == 0
    with pytest.raises(hr.ElementError, match="must return a Dataset, not 5"):
        next(it)
    assert numbers(it) == [0, 1, 2]


def test_each_parent_has_randomness_of_its_own():
    rows = numbers(D.range(3).flat_map(lambda _: D.range(30).shuffle(30, seed=1)))
    assert len({tuple(rows[i : i + 30]) for i in (0, 30, 60)}) == 3


def test_shuffles_made_elsewhere_are_found_again_by_a_resume():
    def pipeline():
        inner = D.range(6).shuffle(6)
        return D.range(3).flat_map(lambda i: inner)

    it = iter(pipeline())
    got = [int(next(it)) for _ in range(4)]
    state, rest = it.state(), numbers(it)
    assert numbers(pipeline().iterator(state)) == rest
    assert sorted(got + rest) == sorted([*range(6)] * 3)


@pytest.mark.parametrize("nested", NESTING.values(), ids=NESTING)
@pytest.mark.parametrize(
    "fn",
    [
        hr.TextLineDataset,
        lambda name: hr.TextLineDataset(name),
        lambda name: hr.TextLineDataset(name, encoding=None).map(_length),
        lambda name: hr.TextLineDataset(name).take(2).batch(2, drop_remainder=True),
    ],
)
def test_elements_of_files_are_known_and_read_in_blocks_behind_it(tmp_path, run, nested, fn):
    names = _lines(tmp_path)
    ds = nested(D.from_tensor_slices(names), fn)
    assert ds._node.pure
    assert ds._node.spec.complete
    assert ds.element_spec == fn(names[0]).element_spec
    seen = nested(D.from_tensor_slices(names), lambda name: fn(name) if name else None)
    assert not seen._node.pure
    assert [str(x) for x in run(ds)] == [str(x) for x in run(seen)]
    check_transformation(ds)


def test_elements_of_arrays_are_known_behind_a_flat_map():
    rows = D.from_tensor_slices(np.arange(12).reshape(2, 2, 3))
    assert rows.flat_map(D.from_tensor_slices)._node.spec == D.range(1).map(lambda x: np.zeros(3, np.int64))._node.spec
    some = D.from_tensor_slices(np.arange(12).reshape(4, 3)).batch(3).flat_map(D.from_tensor_slices)
    assert some._node.pure
    assert not some._node.spec.known
    assert [x.tolist() for x in some] == np.arange(12).reshape(4, 3).tolist()


@pytest.mark.parametrize(
    "fn",
    [lambda name: (SEEN.append(name), hr.TextLineDataset(name))[1], lambda name: hr.TextLineDataset(name).map(note)],
)
def test_a_function_with_effects_is_called_no_sooner_than_its_rows_are_asked_for(tmp_path, fn):
    SEEN.clear()
    it = iter(D.from_tensor_slices(_lines(tmp_path)).flat_map(fn))
    assert SEEN == []
    next(it)
    assert len(SEEN) == 1


def test_a_function_within_is_traced_for_what_it_holds():
    ds = D.range(6).flat_map(lambda n: D.range(4).map(lambda x: x * n))
    assert numbers(ds) == [x * n for n in range(6) for x in range(4)]
    ds = D.range(6).flat_map(lambda n: D.range(4).map(lambda x, k=n % 2 == 0: x if k else -x))
    assert numbers(ds) == [x if n % 2 == 0 else -x for n in range(6) for x in range(4)]
    for number in (2, 2.0, True, np.float32(2)):
        (one,) = D.range(1).map(lambda x: x * number)  # noqa: B023
        assert one.dtype == (np.int64(0) * number).dtype


@pytest.mark.parametrize(("parents", "rows"), [(20, 1), (12, 2), (2, 40)])
def test_small_children_are_put_together_and_every_promise_kept(parents, rows):
    check_transformation(D.range(parents).flat_map(lambda n: D.range(rows).batch(3)))
    check_transformation(D.range(parents).flat_map(lambda n: D.range(rows).map(lambda x: (x, n))))


def test_parts_of_batches_are_put_together_and_shuffled():
    check_transformation(D.range(30).batch(7).flat_map(D.from_tensor_slices).shuffle(5, seed=1))


ROWS = np.arange(30).reshape(6, 5)
TABLE = D.from_tensor_slices({"x": np.arange(24.0).reshape(6, 4), "y": np.arange(24).reshape(6, 4), "n": np.arange(6)})

SLICED = {
    "a row": D.from_tensor_slices(ROWS).flat_map(D.from_tensor_slices),
    "by a function": D.from_tensor_slices(ROWS).flat_map(lambda row: D.from_tensor_slices(row)),
    "arrays": D.from_tensor_slices(np.zeros((3, 2, 4))).flat_map(D.from_tensor_slices),
    "nothing": D.range(3)
    .map(lambda x: np.zeros((x * 0, 2)), output_signature=hr.TensorSpec((None, 2), np.float64))
    .flat_map(D.from_tensor_slices),
    "batches": D.range(20).batch(6).flat_map(D.from_tensor_slices),
    "some components": TABLE.flat_map(lambda row: D.from_tensor_slices((row["y"], row["x"]))),
    "one twice": TABLE.flat_map(lambda row: D.from_tensor_slices({"a": row["x"], "b": row["x"]})),
    "failures among them": D.from_tensor_slices(ROWS).map(lambda r: r // (r[0] - 10)).flat_map(D.from_tensor_slices),
}


@pytest.mark.parametrize("name", SLICED)
def test_rows_that_are_only_sliced_are_taken_apart_many_at_a_time(name):
    ds = SLICED[name]
    assert "windows_at_once" in ds.explain()
    check_transformation(ds)


@pytest.mark.parametrize(
    "fn",
    [
        lambda row: D.from_tensor_slices(row["x"]).skip(row["n"]),
        lambda row: D.from_tensor_slices((row["x"], row["y"][0])) if row["n"] % 2 else D.from_tensor_slices(row["y"]),
        lambda row: D.from_tensor_slices(row["x"] + row["y"]),
        lambda row: D.from_tensors(row["x"]),
    ],
)
def test_a_function_that_does_more_than_slice_sees_every_row(fn):
    assert "windows_at_once" not in TABLE.flat_map(fn).explain()
    check_transformation(TABLE.flat_map(fn))


def test_components_of_unequal_length_are_an_error_of_each_row():
    ds = D.from_tensor_slices((np.zeros((3, 2)), np.zeros((3, 4))))
    ds = ds.flat_map(lambda a, b: D.from_tensor_slices((a, b)))
    with pytest.raises(hr.ElementError, match="arrays of one length"):
        next(iter(ds))
    check_transformation(ds)


def test_an_iterator_that_holds_the_error_of_a_child_is_collected():
    it = iter(D.from_tensor_slices([1, 2]).flat_map(lambda x: D.from_tensor_slices((x,) * int("two"))))
    dropped = weakref.ref(it)
    with suppress(hr.ElementError):
        next(it)
    del it
    gc.collect()
    assert dropped() is None


def test_slices_of_rows_that_show_are_made_of_no_more_rows_than_were_asked_for():
    SEEN.clear()
    it = iter(D.from_tensor_slices(ROWS).map(note).flat_map(D.from_tensor_slices))
    assert numbers(next(it) for _ in range(6)) == list(range(6))
    assert len(SEEN) == 2


@pytest.mark.parametrize("nesting", NESTING)
def test_errors_of_datasets_that_no_code_of_the_user_builds_name_the_line_of_the_nesting(nesting, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\n\xff\n")
    names = D.range(1).map(lambda _: str(tmp_path / "a.txt"), mode="eager")
    ds = NESTING[nesting](names, hr.TextLineDataset)
    with pytest.raises(hr.ElementError) as raised:
        list(ds)
    assert raised.value.site == ds._node.site
    assert f"added at {__file__}:" in str(raised.value)
    check_transformation(ds)
