"""from_tensors, from_tensor_slices, from_generator, range."""

from collections import OrderedDict

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
INT = hr.TensorSpec((), "int32")


def test_from_tensors_is_one_element(run):
    (element,) = run(D.from_tensors({"b": [1, 2], "a": ("x", None)}))
    assert list(element) == ["b", "a"]
    assert element["b"].tolist() == [1, 2]
    assert element["a"] == ("x", None)


def test_slices_of_every_kind(run):
    times = np.array(["2024-01-01", "2024-01-02"], "datetime64[D]")
    rows = run(D.from_tensor_slices((np.eye(2), ["a", "b"], [b"x\0", b"y\0"], times, [True, False])))
    assert rows[1][0].tolist() == [0.0, 1.0]
    assert rows[1][1:3] == ("b", b"y\0")
    assert rows[0][3] == np.datetime64("2024-01-01")
    assert rows[0][4] is np.True_ or rows[0][4] == True  # noqa: E712


def test_an_ordered_dict_comes_back_as_one(run):
    (row,) = run(D.from_tensor_slices(OrderedDict(b=[1], a=[2])))
    assert row == OrderedDict(b=1, a=2)
    assert type(row) is OrderedDict


def test_arrays_that_are_not_contiguous(run):
    columns = np.arange(12).reshape(3, 4).T
    assert np.array_equal(run(D.from_tensor_slices(columns).shuffle(1)), columns)
    assert np.array_equal(
        run(D.from_tensor_slices(columns).map(lambda x: x).shuffle(2).batch(4))[0].sum(0), columns.sum(0)
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "scalar"),
        ((np.zeros(3), np.zeros(4)), r"component\[0\] has 3, component\[1\] has 4"),
        ([[1], [2, 3]], "not an array"),
        ([1, "a"], "mixes int and str"),
        ((), "at least one"),
        (None, "at least one"),
    ],
)
def test_what_cannot_be_sliced_is_refused(value, said):
    with pytest.raises(ValueError, match=said):
        D.from_tensor_slices(value)


def test_specs_are_known_without_running():
    ds = D.from_tensor_slices({"x": np.zeros((5, 2), np.float32), "s": ["a"] * 5})
    assert ds.element_spec == {"x": hr.TensorSpec([2], "float32"), "s": hr.TensorSpec([], str)}
    assert len(ds) == 5


@pytest.mark.parametrize("args", [(5,), (2, 5), (1, 10, 3), (10, 1, -3), (5, 5), (0,), (3, 1)])
def test_range_is_pythons(run, args):
    assert run(D.range(*args)) == list(range(*args))
    assert len(D.range(*args)) == len(range(*args))


def test_range_in_another_dtype(run):
    assert run(D.range(2, output_type=np.float32))[1].dtype == np.float32


@pytest.mark.parametrize(("args", "error"), [((1, 2, 0), ValueError), ((), TypeError), ((1.5,), TypeError)])
def test_a_bad_range_is_refused(args, error):
    with pytest.raises(error, match=r"range|step"):
        D.range(*args)


def test_a_generator_with_a_signature(run):
    def pairs(n):
        for i in range(n):
            yield {"i": i, "x": np.zeros(i)}

    signature = {"i": INT, "x": hr.TensorSpec([None], "float64")}
    ds = D.from_generator(pairs, args=(3,), output_signature=signature)
    rows = run(ds)
    assert [int(r["i"]) for r in rows] == [0, 1, 2]
    assert rows[2]["i"].dtype == np.int32
    assert rows[2]["x"].shape == (2,)
    assert ds.element_spec == signature


def test_a_generator_with_types_and_shapes(run):
    ds = D.from_generator(lambda: iter([(1, [1.0, 2.0])]), output_types=("int64", "float32"), output_shapes=((), (2,)))
    assert ds.element_spec == (hr.TensorSpec([], "int64"), hr.TensorSpec([2], "float32"))
    ((number, pair),) = run(ds)
    assert number == 1
    assert pair.dtype == np.float32


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1.5, "float64 where int32"),
        (2**40, "does not fit"),
        ([1, 2], r"int32\[2\] where int32"),
        ("a", "str where int32"),
        ({"a": 1}, "structure"),
        (None, "structure"),
    ],
)
def test_a_value_that_does_not_match_is_an_error_naming_both(value, said):
    it = iter(D.from_generator(lambda: iter([1, value, 3]), output_signature=INT))
    assert next(it) == 1
    with pytest.raises(hr.ElementError, match=said):
        next(it)
    assert next(it) == 3


def test_a_generator_that_raises_fails_once_and_then_ends():
    def broken():
        yield 1
        raise OSError("disk on fire")

    it = iter(D.from_generator(broken, output_signature=INT).batch(4))
    with pytest.raises(hr.ElementError, match="disk on fire"):
        next(it)
    assert list(it) == []


def test_an_iterator_that_raises_goes_on():
    class Iterator:
        def __init__(self):
            self.i = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.i += 1
            if self.i == 2:
                raise OSError("hiccup")
            if self.i > 3:
                raise StopIteration
            return self.i

    it = iter(D.from_generator(Iterator, output_signature=INT))
    assert next(it) == 1
    with pytest.raises(hr.ElementError, match="hiccup"):
        next(it)
    assert [int(x) for x in it] == [3]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: D.from_generator([1, 2], output_signature=INT), "lambda"),
        (lambda: D.from_generator(lambda: [1]), "output_signature"),
        (lambda: D.from_generator(lambda: [1], output_signature=3), "TensorSpec"),
        (lambda: D.from_generator(lambda: [1], "int32", output_signature=INT), "not both"),
        (lambda: D.from_generator(lambda: [1], ("int32", "int32"), ((),)), "output_shapes"),
    ],
)
def test_a_generator_without_a_proper_signature_is_refused(make, said):
    with pytest.raises(TypeError, match=said):
        make()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64", "complex64"])
def test_numbers_of_every_dtype(run, dtype):
    got = run(D.from_generator(lambda: iter([np.ones((), dtype)] * 3), output_signature=hr.TensorSpec((), dtype)))
    assert [g.dtype for g in got] == [np.dtype(dtype)] * 3


def test_integers_are_wide_enough_or_an_error(run):
    top = 2**63 - 1
    ds = D.from_generator(lambda: iter([top, -top - 1]), output_signature=hr.TensorSpec((), "int64"))
    assert run(ds) == [top, -top - 1]


def test_an_iterator_whose_iter_rewinds_is_read_once(run):
    class Loader:
        def __iter__(self):
            self.i = 0
            return self

        def __next__(self):
            self.i += 1
            if self.i > 3:
                raise StopIteration
            return self.i

    assert run(D.from_generator(Loader, output_signature=INT)) == [1, 2, 3]


def test_lists_of_bytes_keep_their_zeros_and_empty_lists_their_dtype(run):
    signature = hr.TensorSpec([None], bytes)
    rows = run(D.from_generator(lambda: iter([[b"a\0", b"b"], (), []]), output_signature=signature))
    assert [r.tolist() for r in rows] == [[b"a\0", b"b"], [], []]


def test_lone_surrogates_are_text_too(run):
    assert run(D.from_tensor_slices(["\ud800", "a"])) == ["\ud800", "a"]


def test_integers_at_the_edge(run):
    top = 2**63
    assert run(D.range(-top + 1, top - 1, 2**62))[-1] == -top + 1 + 3 * 2**62
    assert run(D.range(top, top + 3, output_type=np.uint64)) == [top, top + 1, top + 2]


def test_a_list_of_datasets_is_an_array_of_them(run):
    both = [D.range(3), D.range(5, 7)]
    assert run(D.from_tensor_slices(both).flat_map(lambda d: d)) == [0, 1, 2, 5, 6]
    assert D.from_tensor_slices(both).element_spec == hr.DatasetSpec(hr.TensorSpec([], np.int64))
    assert D.from_tensors(both).element_spec == hr.DatasetSpec(hr.TensorSpec([], np.int64), [2])
    rows = run(D.from_tensor_slices({"d": both, "n": [1, 10]}).flat_map(lambda e: e["d"].map(lambda x: x * e["n"])))
    assert rows == [0, 1, 2, 50, 60]
    (made,) = D.range(1).map(lambda _: (both,)).map(lambda pair: pair[1].batch(2))
    assert [list(batch) for batch in made] == [[5, 6]]


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ([D.range(3), 1], "mixes Datasets and other values"),
        ([[D.range(3)], [D.range(3)]], "list of lists of Datasets"),
        ([D.range(3), D.from_tensors("x")], "number 1 has .*int64 against str"),
    ],
)
def test_lists_of_datasets_that_make_no_array(lists, said):
    with pytest.raises((TypeError, ValueError), match=said):
        D.from_tensor_slices(lists)


def test_datasets_are_components_of_elements(run):
    ((a, b),) = run(D.from_tensors((D.range(3), D.range(2))))
    assert (list(a), list(b)) == ([0, 1, 2], [0, 1])


def lists(rows):
    return [r.tolist() for r in rows]


def test_random_is_the_same_in_each_epoch_unless_asked_otherwise():
    fixed, fresh = D.random(seed=1).take(5), D.random(seed=1, rerandomize_each_iteration=True).take(5)
    assert lists(fixed) == lists(fixed)
    assert lists(fresh) != lists(fresh)


class TestExhaustedGenerators:
    SPEC = hr.TensorSpec((), "int64")

    def test_a_second_pass_without_elements_warns_once(self, run):
        spent = iter(range(3))
        ds = hr.Dataset.from_generator(lambda: spent, output_signature=self.SPEC)
        assert len(run(ds)) == 3
        with pytest.warns(hr.PipelineWarning, match="exhausted") as caught:
            assert run(ds) == []
            assert run(ds) == []
        assert len(caught) == 1 and __file__ in str(caught[0].message)

    def test_so_does_a_second_epoch(self, run):
        spent = iter(range(3))
        with pytest.warns(hr.PipelineWarning, match="exhausted"):
            assert len(run(hr.Dataset.from_generator(lambda: spent, output_signature=self.SPEC).repeat(2))) == 3

    def test_one_that_is_always_empty_and_one_that_begins_anew_say_nothing(self, run):
        for made in (list, lambda: [1, 2]):
            ds = hr.Dataset.from_generator(made, output_signature=self.SPEC)
            assert run(ds) == run(ds)
