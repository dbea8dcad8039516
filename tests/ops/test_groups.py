"""Batches of unequal rows, windows, groups, and what takes batches apart."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import difference, outcomes

D = hr.Dataset


def ragged(*lengths):
    return D.from_tensor_slices(hr.Ragged.from_rows([np.full(n, n) for n in lengths]))


def lists(rows):
    return [r.tolist() for r in rows]


def read(windows):
    return [[int(x) for x in w] for w in windows]


def test_padded_batch_fills_up_to_the_longest_of_each_batch(run):
    assert lists(run(ragged(1, 2, 0, 3).padded_batch(2))) == [[[1, 0], [2, 2]], [[0, 0, 0], [3, 3, 3]]]


def test_padded_batch_fills_up_to_a_shape_with_a_value(run):
    assert lists(run(ragged(1, 2).padded_batch(2, [3], -1))) == [[[1, -1, -1], [2, 2, -1]]]


def test_a_padding_value_is_for_components_of_its_kind(run):
    ds = D.range(2).map(lambda n: {"i": np.arange(n), "f": np.ones(n), "s": np.array(["a"] * int(n), object)})
    (batch,) = run(ds.padded_batch(2, padding_values=7))
    assert batch["i"].tolist() == [[7], [0]]
    assert batch["f"].tolist() == [[7.0], [1.0]]
    assert batch["s"].tolist() == [[""], ["a"]]
    (batch,) = run(ds.padded_batch(2, padding_values={"i": None, "f": 2.5, "s": "-"}))
    assert [batch["i"].tolist(), batch["f"].tolist(), batch["s"].tolist()] == [
        [[0], [0]],
        [[2.5], [1.0]],
        [["-"], ["a"]],
    ]


def test_an_element_longer_than_the_shape_is_an_error_at_its_batch():
    it = iter(ragged(1, 1, 5, 1, 1, 1).padded_batch(2, [2]))
    assert next(it).shape == (2, 2)
    with pytest.raises(hr.ElementError, match="length 5 does not fit into 2"):
        next(it)
    assert next(it).shape == (2, 2)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: D.from_tensor_slices(np.zeros((2, 3))).padded_batch(2, [2]), ValueError, "does not fit"),
        (lambda: D.from_tensor_slices(np.zeros((2, 3))).padded_batch(2, [3, 3]), ValueError, "1 axes, not 2"),
        (lambda: D.zip(D.range(2), D.range(2)).padded_batch(2, [2]), hr.SpecError, "structure"),
        (lambda: D.range(2).padded_batch(0), ValueError, "batch_size"),
        (lambda: D.range(2).padded_batch(2, padding_values="a"), hr.SpecError, "no component"),
        (lambda: D.range(2).padded_batch(2, padding_values=[1, 2]), hr.SpecError, "single values"),
        (lambda: D.range(2).padded_batch(2, padding_values=(1, 2)), hr.SpecError, "structure"),
        (lambda: D.zip(D.range(2), D.range(2)).padded_batch(2, padding_values=("x", 0)), hr.SpecError, "cannot fill"),
    ],
)
def test_a_contradiction_is_found_at_construction(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_ragged_batches_keep_lengths(run):
    batches = run(ragged(1, 0, 2).ragged_batch(2))
    assert [b.to_list() for b in batches] == [[[1], []], [[2, 2]]]
    assert run(D.range(3).ragged_batch(2))[0].tolist() == [0, 1]


def test_ragged_converts():
    r = hr.Ragged.from_rows([[1, 2], [], [3]])
    assert r.to_arrow().to_pylist() == [[1, 2], [], [3]]
    assert r.take(np.array([2, 0])).to_list() == [[3], [1, 2]]
    assert r[1:].to_padded(9, 2).tolist() == [[9, 9], [3, 9]]
    with pytest.raises(ValueError, match="more than the 1"):
        r.to_padded(length=1)
    with pytest.raises(ValueError, match="offsets"):
        hr.Ragged([1, 2], [0, 3])
    torch = pytest.importorskip("torch")
    assert torch.equal(r.to_torch().unbind()[0], torch.tensor([1, 2]))


def test_windows_are_datasets_that_can_be_read_again(run):
    windows = run(D.range(7).window(3, shift=2, stride=2))
    assert read(windows) == read(windows) == [[0, 2, 4], [2, 4, 6], [4, 6], [6]]
    assert read(run(D.range(7).window(3, shift=2, stride=2, drop_remainder=True))) == [[0, 2, 4], [2, 4, 6]]
    assert read(run(D.range(8).window(2, shift=5))) == [[0, 1], [5, 6]]


def test_a_window_of_structures_is_a_structure_of_datasets(run):
    (first, _) = run(D.from_tensor_slices({"a": [1, 2, 3], "b": ["x", "y", "z"]}).window(2))
    assert [[int(x) for x in first["a"]], list(first["b"])] == [[1, 2], ["x", "y"]]


def test_a_window_ignores_failures_that_its_stride_steps_over():
    ds = D.range(4).map(lambda x: 1 // (x - 1) if int(x) != 1 else int("one")).window(2, shift=4, stride=2)
    assert read(ds) == [[-1, 1]]


def test_group_by_window(run):
    ds = D.from_tensor_slices([5, 1, 3, 5, 2, 1, 5]).group_by_window(lambda x: x, lambda k, w: w.batch(10), 2)
    assert lists(run(ds)) == [[5, 5], [1, 1], [2], [3], [5]]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.group_by_window(f, f), ValueError, "window_size"),
        (lambda d, f: d.group_by_window(f, f, 2, window_size_func=f), ValueError, "window_size"),
        (lambda d, f: d.group_by_window(f, f, 0), ValueError, "window_size"),
        (lambda d, f: d.group_by_window(3, f, 1), TypeError, "function"),
        (lambda d, f: d.window(0), ValueError, "size"),
        (lambda d, f: d.window(2, shift=0), ValueError, "shift"),
        (lambda d, f: d.unbatch(), ValueError, "scalar"),
        (lambda d, f: d.batch(2).rebatch(0), ValueError, "batch_size"),
        (lambda d, f: d.batch(2).rebatch([]), ValueError, "batch_size"),
        (lambda d, f: d.bucket_by_sequence_length(f, [3, 2], [1, 1, 1]), ValueError, "rise"),
        (lambda d, f: d.bucket_by_sequence_length(f, [3], [1]), ValueError, "2 buckets"),
        (lambda d, f: d.with_options({}), TypeError, "Options"),
        (lambda d, f: hr.Options(on_error="maybe"), ValueError, "raise"),
        (lambda d, f: d.throttle(), TypeError, "rows_per_second"),
        (lambda d, f: d.throttle(rows_per_second=0), ValueError, "above 0"),
        (lambda d, f: D.choose_from_datasets([], d), ValueError, "at least one"),
        (lambda d, f: D.sample_from_datasets([d, d], [1.0]), ValueError, "2 datasets"),
        (lambda d, f: D.sample_from_datasets([d, d], [-1, 0]), ValueError, "at least 0"),
        (lambda d, f: D.sample_from_datasets([d, d.enumerate()], [0, 0]), hr.SpecError, "differ"),
        (lambda d, f: d.rejection_resample(f, [0.5, 0.5], [1.0]), ValueError, "classes"),
        (lambda d, f: d.apply(lambda ds: 3), TypeError, "Dataset"),
        (lambda d, f: d.get_single_element(), ValueError, "more than one"),
        (lambda d, f: d.take(0).get_single_element(), ValueError, "empty"),
        (lambda d, f: d.reduce(0, lambda s, x: s + 0.5), hr.SpecError, "int64, and became float64"),
        (lambda d, f: d.reduce((0, 1), lambda s, x: s[0]), hr.SpecError, "became"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)


def test_a_window_size_of_zero_is_an_error_at_the_element():
    ds = D.range(2).group_by_window(lambda x: x, lambda k, w: w, window_size_func=lambda k: k)
    it = iter(ds)
    with pytest.raises(hr.ElementError, match="at least 1, not 0"):
        next(it)
    assert next(it) == 1


def test_rebatch_cycles_through_sizes(run):
    ds = D.range(6).batch(4)
    assert lists(run(ds.rebatch(3))) == [[0, 1, 2], [3, 4, 5]]
    assert lists(run(ds.rebatch([1, 0, 2]))) == [[0], [], [1, 2], [3], [], [4, 5]]
    assert lists(run(ds.rebatch([4, 1, 4], drop_remainder=True))) == [[0, 1, 2, 3], [4]]


def test_unbatch_of_unequal_components_is_an_error_at_the_element():
    it = iter(D.range(2).map(lambda x: (np.zeros(2), np.zeros(2 + int(x)))).unbatch())
    next(it)
    next(it)
    with pytest.raises(hr.ElementError, match=r"component\[0\] has 2, component\[1\] has 3"):
        next(it)


def test_bucket_pads_to_the_boundary(run):
    ds = ragged(1, 2, 1, 3, 4, 1).bucket_by_sequence_length(len, [3, 6], [2, 2, 1], pad_to_bucket_boundary=True)
    assert [b.shape for b in run(ds)] == [(2, 2), (2, 5), (2, 2)]


def test_scan_and_reduce_carry_structures(run):
    ds = D.range(4).scan({"n": 0, "last": np.zeros(1)}, lambda s, x: ({"n": s["n"] + 1, "last": s["last"] + x}, s["n"]))
    assert run(ds) == [0, 1, 2, 3]
    assert D.range(4).reduce((0, 1), lambda s, x: (s[0] + x, s[1] * 2)) == (6, 16)


def test_a_state_may_change_its_shape_and_nothing_else(run):
    def grown(s, x):
        return np.append(s, x), len(s)

    assert run(D.range(4).scan(np.zeros(0, np.int64), grown)) == [0, 1, 2, 3]
    assert D.range(4).reduce(np.zeros(0, np.int64), lambda s, x: np.append(s, x)).tolist() == [0, 1, 2, 3]
    assert D.range(4).reduce("", lambda s, x: s + str(x)) == "0123"
    assert D.range(2).reduce({"a": np.int64(0)}, lambda s, x: {"a": np.full(2, x)})["a"].tolist() == [1, 1]
    with pytest.raises(hr.SpecError, match=r"component\['a'\] of the state of reduce was int64, and became float64"):
        D.range(2).reduce({"a": np.int64(0)}, lambda s, x: {"a": np.full(2, 0.5)})


@pytest.mark.parametrize(
    ("target", "initial", "kept"),
    [
        ([0, 1], None, list(range(1, 40, 2))),
        ([1, 0], None, list(range(0, 40, 2))),
        ([0, 1], [1, 0], list(range(1, 40, 2))),
        ([0, 1], [0, 1], list(range(1, 40, 2))),
    ],
)
def test_resampling_to_one_class_leaves_the_others_out(run, target, initial, kept):
    ds = D.range(40).rejection_resample(lambda x: int(x) % 2, target, initial, seed=1)
    assert [int(x) for _, x in run(ds)] == kept


def test_resampling_without_an_initial_distribution_finds_it():
    ds = D.range(9000).rejection_resample(lambda x: int(x % 10 == 0), [0.5, 0.5], seed=1)
    classes = [int(c) for c, _ in ds]
    assert 0.45 < np.mean(classes[200:]) < 0.55


def test_repeat_goes_on_after_an_epoch_without_elements():
    passes = []

    def numbers():
        passes.append(len(passes))
        yield from range(0 if len(passes) in (1, 3) else 2)

    ds = D.from_generator(numbers, output_signature=hr.TensorSpec((), "int64"))
    assert lists(ds.repeat(4)) == [0, 1, 0, 1]
    assert passes == [0, 1, 2, 3]
    passes.clear()
    assert lists(ds.repeat()) == []
    assert list(D.range(0).repeat(10**15)) == []


def test_a_failed_batch_of_known_size_is_as_many_failures(run):
    ds = D.range(9).map(lambda x: 1 // (int(x) - 4)).batch(3, drop_remainder=True)
    assert len(ds.unbatch()) == 9
    places = [kind for kind, _ in outcomes(iter(ds.unbatch()))]
    assert places == ["value"] * 3 + ["error"] * 3 + ["value"] * 3
    assert [len(b) for b in run(ds.rebatch(1).ignore_errors())] == [1] * 6
    assert ds.rebatch(1).element_spec.shape == (1,)


@pytest.mark.parametrize(
    "build",
    [
        lambda d: d.unbatch(),
        lambda d: d.rebatch(3),
        lambda d: d.rebatch([1, 1]),
        lambda d: d.batch(2, drop_remainder=True).unbatch(),
        lambda d: d.map(lambda x: x * 2).unbatch(),
        lambda d: d.window(2).flat_map(lambda w: w.batch(2, drop_remainder=True)).unbatch(),
    ],
)
def test_who_asks_for_the_spec_changes_no_element(build):
    def dataset():
        return build(D.range(6).map(lambda x: np.full(3, 1 // (int(x) - 4)), mode="eager"))

    plain, asked = dataset(), dataset()
    _ = asked.element_spec
    assert plain.cardinality() == asked.cardinality()
    assert difference(outcomes(iter(asked)), outcomes(iter(plain))) is None
    state = iter(asked).state()
    assert difference(outcomes(plain.iterator(state)), outcomes(iter(dataset()))) is None


def test_take_while_reads_no_further_than_the_element_that_ends_it():
    read = []
    ds = D.range(100).map(lambda x: read.append(int(x)) or x).take_while(lambda x: x < 3).batch(10)
    assert lists(ds) == [[0, 1, 2]]
    assert read == [0, 1, 2, 3]


def test_random_is_the_same_in_each_epoch_unless_asked_otherwise():
    fixed, fresh = D.random(seed=1).take(5), D.random(seed=1, rerandomize_each_iteration=True).take(5)
    assert lists(fixed) == lists(fixed)
    assert lists(fresh) != lists(fresh)


def test_zero_weights_are_never_drawn(run):
    ds = D.sample_from_datasets([D.range(5), D.range(100, 105)], [0.0, 1.0], seed=1)
    assert lists(run(ds)) == [100, 101, 102, 103, 104]
    none = D.sample_from_datasets([D.range(5), D.range(100, 105)], [0, 0])
    assert run(none) == []
    assert (len(none), none.element_spec) == (0, D.range(5).element_spec)
    by_a_dataset = D.sample_from_datasets([D.range(5), D.range(5)], D.from_tensors([0.0, 0.0]))
    with pytest.raises(hr.ElementError, match="must not all be 0"):
        run(by_a_dataset)


def test_options_merge_and_the_later_ones_count():
    ds = D.range(3).with_options(hr.Options(cpu_budget=2, deterministic=True)).with_options(hr.Options(cpu_budget=1))
    assert ds.options() == hr.Options(cpu_budget=1, deterministic=True)
    both = D.zip(D.range(1).with_options(hr.Options(ram_budget=5)), ds)
    assert both.options() == hr.Options(cpu_budget=1, deterministic=True, ram_budget=5)
    with pytest.raises(ValueError, match="belong to a dataset"):
        ds.options().cpu_budget = 3


def test_the_same_global_seed_gives_the_same_orders():
    def orders():
        hr.set_random_seed(3)
        return lists(D.range(9).shuffle(9)), lists(D.range(9).shuffle(9))

    first = orders()
    assert first == orders()
    assert first[0] != first[1]
    hr.set_random_seed(None)


def test_arrays_of_a_numpy_iterator_cannot_be_written_to():
    for ds in (D.range(4).batch(2), ragged(1, 2), D.range(2).map(lambda n: (n, np.zeros(3)))):
        for element in ds.as_numpy_iterator():
            for leaf in element if isinstance(element, tuple) else [element]:
                assert not isinstance(leaf, np.ndarray) or not leaf.flags.writeable


def test_an_incomplete_bucket_can_be_dropped_when_padding_to_the_boundary(run):
    how = {"pad_to_bucket_boundary": True, "drop_remainder": True}
    ds = ragged(1, 2, 1, 4).bucket_by_sequence_length(len, [3, 6], [2, 2, 1], **how)
    assert [b.shape for b in run(ds)] == [(2, 2)]


class TestUnbatchByNumber:
    def test_of_batches_of_one_size(self):
        ds = D.range(12).batch(4, drop_remainder=True).map(lambda x: {"x": x, "y": -x}).unbatch()
        assert [ds[i]["y"] for i in (0, 5, -1)] == [0, -5, -11]
        assert [int(e["x"]) for e in ds[3:6]] == [3, 4, 5]
        assert sorted(int(e["x"]) for e in ds.shuffle()) == list(range(12))

    def test_is_refused_where_sizes_are_not_known(self):
        with pytest.raises(hr.NotIndexableError, match="unbatch"):
            D.range(12).batch(4).unbatch()[0]

    def test_a_batch_that_fails_fails_for_each_of_its_rows(self):
        ds = D.range(12).map(lambda x: 1 // 0 if x == 5 else x).batch(4, drop_remainder=True).unbatch()
        assert (ds[3], ds[8]) == (3, 8)
        for i in range(4, 8):
            with pytest.raises(hr.ElementError, match="map failed on element 5"):
                ds[i]

    def test_resumes_without_making_the_batches_before(self):
        made = []
        batches = D.range(40).batch(4, drop_remainder=True)
        noted = batches.map(lambda x: (made.append(x[0]), x)[1], output_signature=hr.TensorSpec((4,), np.int64))
        with iter(noted.unbatch()) as it:
            for _ in range(22):
                next(it)
            state = it.state()
        made.clear()
        assert next(noted.unbatch().iterator(state=state)) == 22
        assert made == [20]


def test_elements_without_components_are_refused_by_unbatch_when_they_come(run):
    with pytest.raises(hr.ElementError, match="no components"):
        run(D.range(2).map(lambda x: (), mode="eager").unbatch())
