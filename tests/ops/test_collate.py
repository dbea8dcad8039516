"""batch(collate_fn=): what the function gets, errors, threads, resumes."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def padded(rows):
    out = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return {"tokens": out, "lengths": np.array([len(row) for row in rows])}


def ragged(n=10):
    return D.range(n).map(lambda x: np.arange(x % 4 + 1), mode="eager")


@pytest.mark.parametrize("calls", [None, 2])
def test_the_function_gets_a_list_of_elements(calls):
    batches = list(ragged(7).batch(3, num_parallel_calls=calls, collate_fn=padded))
    assert [batch["lengths"].tolist() for batch in batches] == [[1, 2, 3], [4, 1, 2], [3]]
    assert batches[1]["tokens"].shape == (3, 4)
    assert len(list(ragged(7).batch(3, True, collate_fn=padded))) == 2


def test_elements_are_what_a_loop_would_see():
    def check(rows):
        assert type(rows) is list
        assert all(isinstance(row, dict) and isinstance(row["s"], str) for row in rows)
        return len(rows)

    ds = D.range(5).map(lambda x: {"x": x, "s": str(x)}, mode="eager")
    assert list(ds.batch(2, collate_fn=check)) == [2, 2, 1]


def test_a_resume_is_exact():
    ds = ragged(20).shuffle(5, seed=1).batch(3, collate_fn=padded)
    whole = [batch["tokens"].tolist() for batch in ds]
    fresh = ragged(20).shuffle(5, seed=1).batch(3, collate_fn=padded)
    for cut in range(len(whole) + 1):
        it = ragged(20).shuffle(5, seed=1).batch(3, collate_fn=padded).iterator()
        for _ in range(cut):
            next(it)
        assert [batch["tokens"].tolist() for batch in fresh.iterator(state=it.state())] == whole[cut:]


def test_an_error_of_the_function_is_one_batch():
    def fails(rows):
        if rows[0] == 2:
            raise ValueError("no twos")
        return len(rows)

    it = iter(D.range(6).batch(2, collate_fn=fails))
    assert next(it) == 2
    with pytest.raises(hr.ElementError, match="no twos"):
        next(it)
    assert next(it) == 2
    with pytest.raises(TypeError, match="collate_fn is a function"):
        D.range(3).batch(2, collate_fn=3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ds: ds.batch(batchsize=3), r"batch has no keyword batchsize=: did you mean batch_size=\?"),
        (lambda ds: ds.batch(3, drop_last=True), r"did you mean drop_remainder=\?"),
        (lambda ds: ds.map(abs, num_workers=3), r"did you mean num_parallel_calls=\?"),
        (lambda ds: ds.shuffle(3, random_state=1), r"did you mean seed=\?"),
        (lambda ds: ds.shuffle(buffersize=3), r"did you mean buffer_size=\?"),
        (lambda ds: ds.repeat(times=3), "it takes count"),
        (lambda ds: ds.to_torch(batch_size=32), r"to_torch has no keyword batch_size=.*ds.batch\(32\).to_torch\(\)"),
        (lambda ds: ds.to_torch(shuffle=True), r"ds.shuffle\(10_000, seed=1\).batch\(32\).to_torch\(\)"),
        (lambda ds: ds.to_jax(num_workers=4), r'mode="process"'),
    ],
)
def test_keywords_of_other_libraries_are_answered(call, said):
    with pytest.raises(TypeError, match=said):
        call(D.range(3))


def test_a_type_error_from_within_stays_what_it_is():
    with pytest.raises(TypeError, match="must be an integer"):
        D.range(3).batch("3")
