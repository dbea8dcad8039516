"""pack: token sequences in rows of one length, whole where they fit, and never lost."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.ops.packing import fitted, strung
from headrace.testing import check_transformation

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")


def documents(*lengths):
    """Documents whose tokens tell where they come from: 100, 101, …, 200, …"""
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
    st.sampled_from(["concat", "first_fit"]),
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
        if strategy == "first_fit":
            assert len(found.get(number, [])) == -(-(count + len(more)) // length)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=80))
def test_rows_are_never_over_full_and_most_are_full(units):
    array = np.array(units)
    layout = fitted(array, 50)
    cells = np.bincount(layout.row, layout.whole, layout.rows)
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


@pytest.mark.parametrize("strategy", ["concat", "first_fit"])
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
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    for wrong, said in [
        (lambda: D.range(3).pack(4), "one row of tokens an element"),
        (lambda: D.range(3).map(lambda n: {"a": np.arange(3), "b": n}).pack(4), "one row of tokens|output_signature"),
        (lambda: D.range(3).map(flaky).pack(4), "output_signature"),
        (lambda: D.from_tensor_slices([["a"]]).pack(4), "numbers as tokens"),
    ]:
        with pytest.raises(hr.SpecError, match=said):
            wrong()
    with pytest.raises(hr.NotIndexableError, match=r"save\(\) the rows"):
        documents(3).pack(2)[0]
