"""pack: token sequences in rows of one length, whole where they fit, and never lost."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.ops.shared.packing import fitted, strung
from headrace.testing import check_transformation

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")


def documents(*lengths):
    """Documents whose tokens identify their source: 100, 101, …, 200, …"""
    rows = [np.arange(100 * i, 100 * i + n) for i, n in enumerate(lengths, 1)]
    return D.from_tensor_slices(hr.Ragged.from_rows(rows))


def tokens(rows):
    return [row["tokens"].tolist() for row in rows]


def test_documents_one_behind_the_other(run):
    rows = run(documents(3, 5, 1).pack(4))
    assert tokens(rows) == [[100, 101, 102, 200], [201, 202, 203, 204], [300, 0, 0, 0]]
    assert [row["segments"].tolist() for row in rows] == [[1, 1, 1, 2], [1, 1, 1, 1], [1, 0, 0, 0]]
    assert [row["positions"].tolist() for row in rows] == [[0, 1, 2, 0], [0, 1, 2, 3], [0, 0, 0, 0]]


def test_a_separator_stands_behind_each_document(run):
    rows = run(documents(3, 2).pack(4, separator=-1, documents=True))
    assert tokens(rows) == [[100, 101, 102, -1], [200, 201, -1, 0]]
    assert [row["documents"].tolist() for row in rows] == [[0, 0, 0, 0], [1, 1, 1, -1]]
    assert [row["segments"].tolist() for row in rows] == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_first_fit_keeps_documents_whole_and_rows_in_order(run):
    rows = run(documents(2, 5, 4, 3).pack(6, "first_fit", documents=True))
    assert tokens(rows) == [[100, 101, 300, 301, 302, 303], [200, 201, 202, 203, 204, 0], [400, 401, 402, 0, 0, 0]]
    assert rows[0]["documents"].tolist() == [0, 0, 2, 2, 2, 2]
    assert rows[0]["positions"].tolist() == [0, 1, 0, 1, 2, 3]


def test_a_document_longer_than_a_row_is_cut(run):
    rows = run(documents(7, 2).pack(3, "first_fit"))
    assert tokens(rows) == [[100, 101, 102], [103, 104, 105], [106, 200, 201]]


def test_windows_know_nothing_of_each_other(run):
    rows = run(documents(2, 2, 2).pack(6, "first_fit", lookahead=2))
    assert tokens(rows) == [[100, 101, 200, 201, 0, 0], [300, 301, 0, 0, 0, 0]]


@given(
    st.lists(st.integers(0, 40), max_size=60),
    st.integers(1, 30),
    st.sampled_from(["concat", "first_fit", "best_fit"]),
    st.sampled_from([None, 99]),
    st.integers(1, 70),
)
def test_no_token_is_lost_or_comes_twice(lengths, length, strategy, separator, lookahead):
    ds = D.from_tensor_slices(hr.Ragged.from_rows([np.arange(n) for n in [*lengths, 1]]))
    found = {}
    for row in ds.pack(length, strategy, separator, lookahead=lookahead, documents=True):
        real = row["segments"] > 0
        assert ((row["documents"] >= 0) == real).all()
        assert not row["tokens"][~real].any()
        for segment in range(1, row["segments"].max() + 1):
            mine = row["segments"] == segment
            assert (row["positions"][mine] == np.arange(mine.sum())).all()
            (number,) = set(row["documents"][mine].tolist())
            found.setdefault(number, []).append(row["tokens"][mine].tolist())
    more = [] if separator is None else [separator]
    for number, count in enumerate([*lengths, 1]):
        got = [t for part in sorted(found.get(number, [])) for t in part]
        assert got == [*range(count), *more]
        if strategy != "concat":
            assert len(found.get(number, [])) == -(-(count + len(more)) // length)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=80))
def test_rows_are_never_over_full_and_most_are_full(units):
    array = np.array(units)
    layout = fitted(array[None], np.array([50]))
    cells = np.bincount(layout.row, layout.whole[0], layout.rows)
    assert cells.max() <= 50
    assert cells.sum() == array.sum()
    assert (cells[:-1] > 0).all()
    assert (cells <= 25).sum() <= 1, "two that are half empty would have been one"
    assert strung(array, 50, 0, -(-array.sum() // 50)).whole.sum() == array.sum()


def flaky(n):
    if n % 5 == 3:
        raise ValueError(f"bad {n}")
    return np.arange(n * 7 % 11) + 100 * n


SOURCES = {
    "ragged": lambda: documents(*range(1, 18)),
    "failures": lambda: D.range(24).map(flaky, output_signature=TOKENS),
    "a generator": lambda: D.from_generator(lambda: (np.arange(i % 9) for i in range(25)), output_signature=TOKENS),
    "rows of one length": lambda: D.range(20).batch(3, drop_remainder=True),
    "shuffled": lambda: documents(*range(1, 18)).shuffle(5, seed=1).repeat(2),
    "nothing": lambda: documents(0, 0),
}


@pytest.mark.parametrize("strategy", ["concat", "first_fit", "best_fit"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_promise_is_kept(source, strategy):
    check_transformation(SOURCES[source]().pack(7, strategy, separator=5, lookahead=6, documents=True))
    check_transformation(SOURCES[source]().pack(40, strategy, lookahead=6), cuts=6)


def test_a_generator_is_read_no_further_than_a_row_needs():
    read = []

    def numbers():
        for i in range(10):
            read.append(i)
            yield np.arange(3)

    it = iter(D.from_generator(numbers, output_signature=TOKENS).pack(4))
    next(it)
    assert read == [0, 1]
    next(it)
    assert read == [0, 1, 2]


def test_stats_tell_how_full_rows_are():
    it = iter(documents(2, 5, 4, 3).pack(6, "first_fit"))
    list(it)
    assert [stage["fill"] for stage in it.stats()["stages"] if "fill" in stage] == [14 / 18]
    assert "77.8% full: pack(" in str(it.stats())


def test_states_are_small_and_rows_of_many_documents_are_well_filled():
    lengths = np.random.default_rng(1).integers(10, 2001, 5000)
    docs = hr.Ragged(np.zeros(lengths.sum(), np.int32), np.concatenate([[0], np.cumsum(lengths)]))
    it = iter(D.from_tensor_slices(docs).pack(2048, "first_fit"))
    rows = 0
    for _ in it:
        rows += 1
        assert rows % 100 or len(json.dumps(it.state())) < 4096
    assert lengths.sum() / (rows * 2048) > 0.97


def test_bad_arguments_and_elements_are_named():
    for wrong, said in [
        (lambda: documents(3).pack(0), "length must be at least 1"),
        (lambda: documents(3).pack(4, "best"), "strategy must be one of"),
        (lambda: documents(3).pack(4, lookahead=0), "lookahead must be"),
        (lambda: documents(3).pack(4, separator=0.5), "separator 0.5 is no int64"),
        (lambda: documents(3).pack(4, max_documents=2), 'max_documents need strategy="first_fit"'),
        (lambda: pairs(3).pack(4, separator=1), "separator must say which field"),
        (lambda: pairs(3).pack(4, separator={"tokens": 1}), r"separator has none for \['labels', 'weights'\]"),
        (lambda: pairs(3).pack(4, pad={"token": 1}), "pad names 'token'"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    for wrong, said in [
        (lambda: D.range(3).pack(4), "one row of tokens an element"),
        (lambda: D.range(3).map(lambda n: {"a": np.arange(3), "b": n}).pack(4), "one row of tokens|output_signature"),
        (lambda: D.range(3).map(lambda n: (np.arange(3), np.arange(3))).pack(4), 'give fields=\\("tokens", "labels"'),
        (lambda: D.range(3).map(lambda n: {"a": np.arange(3)}).pack(4, fields=["b"]), "names 'b', the elements have"),
        (lambda: D.range(3).map(flaky).pack(4), "output_signature"),
        (lambda: pairs(3).pack({"tokens": 4, "other": 3}, "first_fit"), "names 'other'"),
        (lambda: D.from_tensor_slices([["a"]]).pack(4), "numbers as tokens"),
    ]:
        with pytest.raises(hr.SpecError, match=said):
            wrong()
    with pytest.raises(hr.NotIndexableError, match=r"save\(\) the rows"):
        documents(3).pack(2)[0]


def pairs(*lengths):
    """Documents with labels and a row of two weights for each token."""
    return documents(*lengths).map(
        lambda t: {"tokens": t, "labels": -t, "weights": np.stack([t, t + 1], 1).astype(np.float32)},
        output_signature={"tokens": TOKENS, "labels": TOKENS, "weights": hr.TensorSpec((None, 2), "float32")},
    )


def test_fields_that_belong_together_stay_together(run):
    fields = {"tokens": 7, "labels": -1, "weights": 0.5}
    for row in run(pairs(2, 5, 4, 3).pack(6, "best_fit", fields, pad={"labels": -100})):
        real = row["segments"] > 0
        assert (row["labels"][~real] == -100).all() and (row["tokens"][~real] == 0).all()
        inside = real & (row["tokens"] != 7)
        assert (row["labels"][inside] == -row["tokens"][inside]).all()
        assert (row["weights"][inside] == np.stack([row["tokens"], row["tokens"] + 1], 1)[inside]).all()
        assert (row["labels"][real & ~inside] == -1).all()


def test_best_fit_takes_the_row_with_the_least_room(run):
    rows = run(documents(6, 7, 3, 2).pack(10, "best_fit"))
    assert [len(set(row["tokens"].tolist()) - {0}) for row in rows] == [8, 10]
    assert rows[1]["tokens"].tolist()[7:] == [300, 301, 302]


def test_a_row_holds_no_more_documents_than_it_may(run):
    for strategy in ("first_fit", "best_fit"):
        rows = run(documents(1, 1, 1, 1, 1).pack(9, strategy, max_documents=2))
        assert [row["segments"].max() for row in rows] == [2, 2, 1]


def test_boundaries_for_flash_attention(run):
    rows = run(documents(2, 5, 4, 3).pack(6, "first_fit", cu_seqlens=True))
    assert [row["cu_seqlens"].tolist() for row in rows] == [[0, 2, 6], [0, 5, 6], [0, 3, 6]]
    assert [int(row["max_seqlen"]) for row in rows] == [4, 5, 3]
    rows = run(documents(2, 5, 4, 3).pack(6, "first_fit", cu_seqlens=True, max_documents=3))
    assert [row["cu_seqlens"].tolist() for row in rows] == [[0, 2, 6, 6, 6], [0, 5, 6, 6, 6], [0, 3, 6, 6, 6]]


def test_tuples_get_names_and_given_positions_are_kept(run):
    ds = documents(2, 3).map(lambda t: (t, t - 100), output_signature=(TOKENS, TOKENS))
    (row,) = run(ds.pack(6, fields=("tokens", "positions")))
    assert row["positions"].tolist() == [0, 1, 100, 101, 102, 0]
    assert list(row) == ["tokens", "positions", "segments"]


def test_pairs_of_two_lengths_are_in_the_same_row(run):
    ds = D.range(1, 6).map(
        lambda n: {"inputs": np.arange(n), "targets": np.arange(6 - n) + 10},
        output_signature={"inputs": TOKENS, "targets": TOKENS},
    )
    rows = run(ds.pack({"inputs": 6, "targets": 5}, "best_fit"))
    for row in rows:
        assert set(row["inputs_segments"]) - {0} == set(row["targets_segments"]) - {0}
    assert sum((row["targets"] >= 10).sum() for row in rows) == 15
    with pytest.raises(hr.ElementError, match=r"'inputs' takes 5 cells, and rows have 4"):
        list(ds.pack({"inputs": 4, "targets": 5}, "first_fit"))


IMAGE = hr.TensorSpec((None, 2, 2), "float32")


def with_images(n):
    return D.range(n).map(
        lambda i: {
            "tokens": np.arange(i % 5) + 100 * i,
            "images": np.full((i % 3, 2, 2), i, np.float32),
            "id": i,
            "name": str(i),
        },
        output_signature={
            "tokens": TOKENS, "images": IMAGE, "id": hr.TensorSpec((), "int64"), "name": hr.TensorSpec((), str)
        },
    )  # fmt: skip


@pytest.mark.parametrize("strategy", ["concat", "first_fit"])
def test_items_travel_with_their_document(strategy, run):
    rows = run(with_images(12).pack(4, strategy, items=("images", "id", "name"), documents=True))
    seen = []
    for row in rows:
        number = dict(zip(row["segments"].tolist(), row["documents"].tolist(), strict=True))
        assert [number[s] for s in row["id_segments"].tolist()] == row["id"].tolist()
        assert [number[s] for s in row["images_segments"].tolist()] == row["images"][:, 0, 0].tolist()
        assert row["name"].tolist() == [str(i) for i in row["id"].tolist()]
        seen += row["id"].tolist()
    assert sorted(seen) == [i for i in range(12) if i % 5]


def test_items_of_tuples_follow_the_fields():
    signature = (TOKENS, TOKENS, hr.TensorSpec((), "int64"))
    ds = D.range(1, 4).map(lambda i: (np.arange(i), -np.arange(i), 10 * i), output_signature=signature)
    for row in (
        next(iter(ds.pack(6, fields=("x", "y"), items=("id",)))),
        next(iter(ds.pack({"x": 6, "y": 6}, "first_fit", lookahead=3, items=("id",)))),
    ):
        assert sorted(row["id"].tolist()) == [10, 20, 30]
        assert row["y"].tolist() == (-row["x"]).tolist()


@pytest.mark.parametrize("strategy", ["concat", "first_fit", "best_fit"])
def test_every_promise_is_kept_with_several_fields(strategy):
    check_transformation(pairs(*range(1, 18)).pack(7, strategy, lookahead=6, documents=True, cu_seqlens=True))
    check_transformation(with_images(14).pack(6, strategy, items=["images", "id", "name"], lookahead=6))
    uneven = D.range(12).map(
        lambda n: {"a": np.arange(n), "b": np.arange(n + (n == 3))}, output_signature={"a": TOKENS, "b": TOKENS}
    )
    check_transformation(uneven.pack(9, strategy, lookahead=6))
    if strategy != "concat":
        check_transformation(uneven.pack({"a": 9, "b": 20}, strategy, {"b": 5}, lookahead=6, cu_seqlens=True))
        check_transformation(documents(*range(1, 18)).pack(9, strategy, lookahead=6, max_documents=2))
