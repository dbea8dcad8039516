"""ds.statistics, hr.Normalizer and hr.Discretizer: what NumPy says, however rows are cut, and after a break."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.columns import column_of, text_column
from headrace.sinks.summaries import Summary

D = hr.Dataset
RANDOM = np.random.default_rng(5)
ROWS = 4000
AGES = np.where(RANDOM.random(ROWS) < 0.1, np.nan, RANDOM.normal(40, 12, ROWS))
KINDS = RANDOM.integers(0, 6, ROWS)
NAMES = RANDOM.choice(["ann", "bob", "eve", ""], ROWS, p=[0.5, 0.3, 0.15, 0.05]).tolist()
VECTORS = RANDOM.normal(size=(ROWS, 3)).astype(np.float32) * [1, 10, 100] + [5, 0, -5]
TABLE = {"age": AGES, "kind": KINDS, "name": NAMES, "vector": VECTORS.astype(np.float32)}


def rows():
    return D.from_tensor_slices(TABLE)


def test_numbers_are_summed_up_as_numpy_does():
    age = rows().statistics()["age"]
    there = AGES[~np.isnan(AGES)]
    assert (age.kind, age.rows, age.count, age.missing) == ("numbers", ROWS, ROWS, int(np.isnan(AGES).sum()))
    assert (age.min, age.max) == (there.min(), there.max())
    np.testing.assert_allclose([age.mean, age.std], [there.mean(), there.std()], rtol=1e-12)
    np.testing.assert_allclose(age.quantiles, np.quantile(there, [0.25, 0.5, 0.75]), rtol=1e-12)
    counts, edges = np.histogram(there, 20)
    assert age.histogram[0] == tuple(counts)
    np.testing.assert_allclose(age.histogram[1], edges)


def test_integers_and_texts_are_counted():
    found = rows().statistics(most_frequent=2)
    values, counts = np.unique(KINDS, return_counts=True)
    assert found["kind"].unique == 6
    assert found["kind"].most_frequent[0] == (values[counts.argmax()], counts.max())
    assert found["kind"].min == 0
    name = found["name"]
    assert (name.kind, name.missing, name.unique) == ("text", NAMES.count(""), 4)
    assert name.most_frequent == (("ann", NAMES.count("ann")), ("bob", NAMES.count("bob")))
    assert name.lengths == (0, pytest.approx(np.mean([len(n) for n in NAMES])), 3)
    assert found["vector"].count == 3 * ROWS


def test_lengths_of_rows_are_known():
    words = D.from_tensor_slices(["a b c", "", "d e"]).map(
        lambda x: (hr.text.split(x), hr.text.length(hr.text.split(x)))
    )
    found = words.statistics()
    assert found["0"].lengths == (0, pytest.approx(5 / 3), 3)
    assert found["1"].lengths == (0, pytest.approx(5 / 3), 3)
    assert found["1"].max == 1
    assert D.range(5).statistics()[""].mean == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.batch(7).unbatch(),
        lambda ds: ds.map(lambda x: x, mode="eager"),
        lambda ds: ds.prefetch(3),
        lambda ds: ds.map(lambda x: x, mode="eager").prefetch(1),
        lambda ds: ds.with_options(hr.Options()),
    ],
)
def test_how_rows_are_cut_makes_no_difference(change):
    assert dict(change(rows()).statistics()) == dict(rows().statistics())


def words_of(*texts):
    made = np.empty(len(texts), object)
    made[:] = texts
    return made


VALUES = {
    "vectors": st.lists(st.floats(-9, 9), max_size=3).map(np.array),
    "rows of two": st.integers(0, 3).map(lambda n: np.arange(2.0 * n).reshape(n, 2)),
    "images": st.tuples(st.integers(0, 2), st.integers(1, 2)).map(lambda hw: np.ones((*hw, 3), np.uint8)),
    "arrays of several dtypes": st.sampled_from([np.arange(2), np.arange(2.0), np.arange(3), np.ones((1, 2))]),
    "ragged": st.lists(st.lists(st.integers(0, 5), max_size=2), min_size=1, max_size=3).map(hr.Ragged.from_rows),
    "numbers of several dtypes": st.sampled_from([np.int64(2), np.float32(1.5), np.float64("nan")]),
    "texts": st.sampled_from(["", "a", "ä", b"b", b"\xff", "\ud800"]),
    "words": st.lists(st.sampled_from(["", "a", "bc"]), max_size=3).map(lambda words: words_of(*words)),
    "anything": st.sampled_from([None, 1j, np.array([1j]), "a", np.ones(2), words_of(None), words_of("a")]),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_rows_that_happen_to_be_alike_are_summed_up_like_others(kind, data):
    rows = data.draw(st.lists(VALUES[kind], min_size=1, max_size=8))
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(rows)))) | {len(rows)})]
    found = []
    for bounds in (cuts, range(len(rows) + 1), [0, len(rows)]):
        summary = Summary()
        for start, stop in pairwise(bounds):
            made = column_of(rows[start:stop])
            summary.take(text_column(made) if isinstance(made, list) else made)
        found.append(repr(summary.statistics(4, 3)))  # NaN is no other NaN
    assert found[0] == found[1] == found[2]


CUTS = [lambda ds: ds, lambda ds: ds.map(lambda x: x, mode="eager"), lambda ds: ds.ragged_batch(2).unbatch()]


def test_lengths_do_not_depend_on_how_rows_are_cut():
    lengths = [2, 2, 2, 3, 3, 1, 4, 4]
    ds = D.from_generator(lambda: (np.arange(n) for n in lengths), output_signature=hr.TensorSpec((None,), np.int64))
    words = D.from_tensor_slices(["a b"] * 3 + ["c", ""]).map(hr.text.split)
    for change in CUTS:
        assert change(ds).statistics()[""].lengths == (1, pytest.approx(np.mean(lengths)), 4)
        assert change(words).statistics()[""].lengths == (0, pytest.approx(7 / 5), 2)
    assert D.from_tensor_slices(np.ones((5, 3))).statistics()[""].lengths == (3, 3.0, 3)
    assert D.from_tensor_slices(["a", "b"] * 3).batch(3).statistics()[""].lengths == (3, 3.0, 3)


def test_a_pass_that_broke_off_goes_on(tmp_path):
    path = tmp_path / "seen"
    stop = {"at": 2500, "seen": 0}

    def watched(row):
        stop["seen"] += 1
        if stop["seen"] == stop["at"]:
            raise KeyboardInterrupt
        return row

    ds = rows().map(watched, mode="eager")
    with pytest.raises(KeyboardInterrupt):
        ds.statistics(state=path)
    assert path.exists()
    assert dict(ds.statistics(state=path)) == dict(rows().statistics())
    assert stop["seen"] < 2 * ROWS
    assert not path.exists()


def test_statistics_show_as_a_table_and_as_pictures():
    found = rows().statistics()
    shown = repr(found)
    assert "4,000 elements" in shown
    assert all(word in shown for word in ("age", "ann ×", "quartiles", "█"))
    page = found._repr_html_()
    assert page.count("<svg") == 4
    assert "<td>age</td>" in page
    assert "<b>" not in D.from_tensor_slices(["<b>"]).statistics()._repr_html_()
    assert "0 elements" in repr(D.range(0).statistics())


def test_an_endless_dataset_is_refused():
    with pytest.raises(ValueError, match="infinite"):
        D.range(3).repeat().statistics()


def test_a_normalizer_brings_components_around_zero():
    normalizer = hr.Normalizer.adapt(rows())
    assert sorted(normalizer.layers) == ["age", "vector"]
    made = rows().map(normalizer)
    assert "vectorised" in made.explain()
    assert made.element_spec["age"] == hr.TensorSpec((), np.float32)
    batch = next(iter(made.batch(ROWS)))
    ages = batch["age"][~np.isnan(batch["age"])]
    np.testing.assert_allclose([ages.mean(), ages.std()], [0, 1], atol=1e-5)
    np.testing.assert_allclose(batch["vector"].mean(0), np.zeros(3), atol=1e-4)
    np.testing.assert_allclose(batch["vector"].std(0), np.ones(3), atol=1e-4)
    assert batch["name"].tolist() == NAMES
    assert batch["kind"].tolist() == KINDS.tolist()


def test_columns_are_chosen_by_name_and_tuples_by_number():
    pairs = rows().map(lambda row: (row["age"], row["kind"]))
    made = pairs.map(hr.Normalizer.adapt(pairs, columns=[1]))
    age, kind = next(iter(made))
    assert age == AGES[0]
    assert abs(kind) < 3
    with pytest.raises(KeyError, match="no component 'ages'"):
        hr.Normalizer.adapt(rows(), columns=["ages"])
    with pytest.raises(TypeError, match="'name' does not hold numbers"):
        hr.Normalizer.adapt(rows(), columns=["name"])
    with pytest.raises(ValueError, match="no components of real numbers"):
        hr.Normalizer.adapt(D.range(3))
    single = D.from_tensor_slices([1.0, 3.0])
    assert list(single.map(hr.Normalizer.adapt(single))) == [-1.0, 1.0]


@dataclass
class Person:
    age: Any
    name: Any


class Pair(NamedTuple):
    age: Any
    name: Any


@pytest.mark.parametrize("kind", [Person, Pair])
def test_elements_of_classes_keep_them(kind):
    people = rows().map(lambda row: kind(row["age"], row["name"]))
    made = people.map(hr.Normalizer.adapt(people))
    first = next(iter(made))
    assert isinstance(first, kind)
    assert abs(first.age) < 5
    assert first.name == NAMES[0]
    assert list(people.statistics()) == ["age", "name"]


def test_a_discretizer_makes_buckets_that_are_about_equally_full():
    ds = rows().map(lambda row: {"v": row["vector"], "kind": row["kind"]})
    made = ds.map(hr.Discretizer.adapt(ds, num_bins=4))
    assert "vectorised" in made.explain()
    batch = next(iter(made.batch(ROWS)))
    counts = np.bincount(batch["v"].ravel())
    assert len(counts) == 4
    assert counts.min() > 0.9 * counts.max()
    assert batch["kind"].tolist() == KINDS.tolist()
    with pytest.raises(ValueError, match="at least 2"):
        hr.Discretizer.adapt(ds, num_bins=1)


def test_ragged_rows_share_one_mean(tmp_path):
    ragged = D.from_tensor_slices(hr.Ragged.from_rows([[1.0], [2.0, 3.0], []]))
    normalizer = hr.Normalizer.adapt(ragged, state=tmp_path / "state")
    assert normalizer.layers[""].mean == 2
    assert [row.tolist() for row in ragged.map(normalizer)][2] == []


def vectors(*lengths, width=()):
    rows = [np.arange(np.prod((n, *width)), dtype=float).reshape(n, *width) for n in lengths]
    signature = hr.TensorSpec((None, *width), np.float64)
    return D.from_generator(lambda: iter(rows), output_signature=signature), rows


@pytest.mark.parametrize("cut", CUTS)
def test_a_normalizer_does_not_depend_on_how_rows_are_cut(cut):
    ds, rows = vectors(2, 2, 3, 3, 1, 1)
    flat = np.concatenate(rows)
    assert hr.Normalizer.adapt(cut(ds)).layers[""].mean == pytest.approx(flat.mean())
    ds, rows = vectors(2, 2, 3, 1, width=(2,))
    np.testing.assert_allclose(hr.Normalizer.adapt(cut(ds)).layers[""].mean, np.concatenate(rows).mean(0))
    ds, rows = vectors(3, 3, 3)  # the spec does not fix one length
    np.testing.assert_allclose(hr.Normalizer.adapt(cut(ds)).layers[""].mean, rows[0])


def test_images_of_different_sizes_are_normalised_by_channel():
    images = [np.full((h, 2, 3), [h, 1, 2], np.float32) for h in (1, 2, 2, 3)]
    wide = np.zeros((1, 5, 3), np.float32)
    ds = D.from_generator(lambda: iter([*images, wide]), output_signature=hr.TensorSpec((None, None, 3), np.float32))
    pixels = np.concatenate([image.reshape(-1, 3) for image in (*images, wide)])
    np.testing.assert_allclose(hr.Normalizer.adapt(ds).layers[""].mean, pixels.mean(0))
    assert hr.Discretizer.adapt(ds, num_bins=2).layers[""].bin_boundaries == (np.median(pixels),)
