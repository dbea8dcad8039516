"""batch_by_tokens: batches within a budget, of rows of similar length; the same number of steps on every rank."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")


def documents(lengths):
    """Documents whose first token is their number, from 1 on, as is every other."""
    return D.from_tensor_slices(hr.Ragged.from_rows([np.full(n, i) for i, n in enumerate(lengths, 1)], np.int64))


def lognormal(count, seed=0):
    drawn = np.random.default_rng(seed).lognormal(np.log(600) - 0.5, 1, count)
    return np.clip(drawn.astype(int), 1, 2048)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=60),
    st.integers(30, 90),
    st.sampled_from([None, 3]),
    st.integers(1, 7),
    st.integers(1, 40),
    st.integers(1, 4),
    st.booleans(),
)
def test_every_row_is_in_one_batch_within_the_budget(lengths, budget, most, multiple, window, group, packed):
    if multiple * -(-max(lengths) // multiple) > budget:
        multiple = 1
    ds = documents(lengths).batch_by_tokens(
        budget, max_rows=most, pad_to_multiple_of=multiple, sort_window=window, group=group, packed=packed
    )
    seen = []
    for batch in ds:
        sizes = [int((row > 0).sum()) for row in batch]
        assert (sum(sizes) if packed else np.size(batch)) <= budget
        assert len(sizes) <= (most or budget)
        assert packed or batch.shape[1] == multiple * -(-max(sizes) // multiple)
        for row, size in zip(batch, sizes, strict=True):
            assert len(set(row[:size].tolist())) == 1
            seen.append(int(row[0]))
    assert sorted(seen) == list(range(1, len(lengths) + 1))


def test_groups_have_the_same_number_of_rows_on_all_ranks():
    ds = documents(lognormal(3000)).batch_by_tokens(8192, sort_window=500, group=8, drop_remainder=True)
    shares = [list(ds.distribute(rank, 8)) for rank in range(8)]
    assert len({len(share) for share in shares}) == 1 and len(shares[0]) > 20
    for step in zip(*shares, strict=True):
        assert len({len(batch) for batch in step}) == 1
    seen = [int(row[0]) for share in shares for batch in share for row in batch]
    assert len(seen) == len(set(seen)) > 2900


def test_padding_is_less_than_half_of_that_of_buckets():
    lengths = lognormal(20_000)
    rows = D.from_tensor_slices(hr.Ragged(np.ones(lengths.sum(), np.int32), np.concatenate([[0], np.cumsum(lengths)])))
    bounds = list(range(64, 2049, 64))
    sizes = [max(1, 16384 // bound) for bound in [*bounds, 2112]]

    def padding(batches):
        return 1 - lengths.sum() / sum(batch.size for batch in batches)

    ours = padding(rows.batch_by_tokens(16384))
    theirs = padding(rows.bucket_by_sequence_length(len, bounds, sizes))
    assert ours <= theirs / 2, (ours, theirs)


def test_the_order_within_a_window_is_not_by_length_and_another_in_each_epoch():
    ds = documents(lognormal(4000)).batch_by_tokens(8192)
    first, second = ([batch.shape[1] for batch in ds] for _ in range(2))
    assert sorted(first) == sorted(second) and first != second
    assert first != sorted(first) and first != sorted(first, reverse=True)


def flaky(n):
    if n % 5 == 3:
        raise ValueError(f"bad {n}")
    return {"tokens": np.arange(n * 7 % 11), "image": np.zeros((2, 2), np.float32), "size": n * 7 % 11}


SPEC = {"tokens": TOKENS, "image": hr.TensorSpec((2, 2), "float32"), "size": hr.TensorSpec((), "int64")}


def test_every_promise_is_kept():
    ds = D.range(40).map(flaky, output_signature=SPEC)
    check_transformation(ds.batch_by_tokens(24, "tokens", sort_window=9, pad_to_multiple_of=4))
    check_transformation(ds.batch_by_tokens(8, "size", sort_window=9, group=2, drop_remainder=True))
    check_transformation(ds.batch_by_tokens(24, lambda row: len(row["tokens"]) % 7, sort_window=9, packed=True))
    check_transformation(
        documents(range(1, 40)).shuffle(7, seed=1).repeat(2).batch_by_tokens(50, sort_window=13), cuts=9
    )
    check_transformation(documents(range(1, 40)).batch_by_tokens(50, sort_window=13, group=3).distribute(1, 3), cuts=9)


def test_elements_of_two_structures_are_no_batch():
    mixed = D.range(9).map(lambda n: np.arange(3) if n % 4 else {"a": np.arange(3)})
    check_transformation(mixed.batch_by_tokens(9, lambda row: 3, sort_window=6))


def test_a_state_goes_on_under_another_world_size():
    ds = documents(lognormal(900)).batch_by_tokens(8192, sort_window=200, group=6)
    everything = [batch.tolist() for batch in ds.distribute(0, 1)]
    ds = documents(lognormal(900)).batch_by_tokens(8192, sort_window=200, group=6)
    its = [iter(ds.distribute(rank, 2)) for rank in range(2)]
    seen = [next(it).tolist() for _ in range(9) for it in its]
    state = json.loads(json.dumps(its[0].state()))
    assert len(json.dumps(state)) < 1200
    others = [iter(ds.distribute(rank, 3)) for rank in range(3)]
    for it in others:
        it.restore(state)
    for step in zip(*others, strict=True):
        seen += [batch.tolist() for batch in step]
    assert seen == everything[: len(seen)] and len(everything) - len(seen) < 3


def test_bad_arguments_and_elements_are_named():
    rows = D.range(3).map(lambda n: {"a": np.arange(3) + n, "b": n})
    for wrong, said in [
        (lambda: documents([1]).batch_by_tokens(0), "budget must be"),
        (lambda: documents([1]).batch_by_tokens(4, sort_window=0), "sort_window must be"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    for wrong, said in [
        (lambda: rows.batch_by_tokens(4), r"give length as one of \['a', 'b'\]"),
        (lambda: rows.batch_by_tokens(4, "c"), "no component 'c'"),
    ]:
        with pytest.raises(hr.SpecError, match=said):
            wrong()
    with pytest.raises(hr.ElementError, match=r"an element of 9 tokens does not fit into a batch of 8.*chunk"):
        list(documents([9]).batch_by_tokens(8))
    with pytest.raises(hr.ElementError, match=r"size of a row must be an integer"):
        list(documents([9]).batch_by_tokens(8, lambda row: 0.5))
