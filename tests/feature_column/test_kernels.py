"""The kernels under the columns: known numbers, and arguments that are refused."""

import numpy as np
import pytest

from headrace import _native

NO_SALT = np.empty(0, np.uint64)


def hashes(*rows, salt=NO_SALT):
    out = np.empty(len(rows), np.uint64)
    _native.hash_text(*_native.join_bytes(list(rows)), salt, out)
    return out.tolist()


def test_fingerprints_are_those_of_farmhash():
    assert hashes(b"", b"a", b"hello", b"x" * 65) == [
        11160318154034397263, 12917804110809363939, 13009744463427800296, 4935023790501551929
    ]  # fmt: skip


def test_siphash_of_its_authors_first_vectors():
    key = np.frombuffer(bytes(range(16)), np.uint64)
    assert hashes(b"", bytes(range(1)), bytes(range(15)), salt=key) == [
        0x726FDB47DD0E0E31, 0x74F839C593DC67FD, 0xA129CA6149BE45E5
    ]  # fmt: skip


def test_integers_are_hashed_as_their_decimal_text():
    numbers = np.array([0, 7, -1, 2**63 - 1, -(2**63)], np.int64)
    out = np.empty(5, np.uint64)
    _native.hash_numbers(numbers, NO_SALT, out)
    assert out.tolist() == hashes(*(str(n).encode() for n in numbers))


@pytest.mark.parametrize("buckets", [1, 2, 3, 10**5, 2**32, 2**32 + 1, 2**61 - 1, 2**63 - 1])
def test_the_rest_of_a_division_is_exact(buckets):
    draws = np.random.default_rng(buckets % 1000).integers(0, 2**64, 1000, np.uint64)
    hard = [0, 1, buckets - 1, buckets, buckets + 1, 2**64 - 1, (2**64 - 1) // buckets * buckets % 2**64]
    given = np.concatenate([draws, np.array(hard, np.uint64)])
    out = np.empty(len(given), np.int64)
    _native.hash_buckets(given, buckets, 0, out)
    np.testing.assert_array_equal(out.astype(np.uint64), given % np.uint64(buckets))


@pytest.mark.parametrize("count", [1, 31, 33, 400])
def test_buckets_are_those_of_searchsorted(count):
    draw = np.random.default_rng(count)
    bounds = np.sort(draw.normal(size=count).astype(np.float32))
    values = np.concatenate([draw.normal(size=999).astype(np.float32), bounds, [np.nan, np.inf, -np.inf]])
    values = values.astype(np.float32)
    out = np.empty(len(values), np.int64)
    _native.bucketize(values, bounds, out)
    np.testing.assert_array_equal(out, np.searchsorted(bounds, values, "right"))


def test_what_does_not_fit_is_refused():
    values, offsets = np.zeros(3, np.uint8), np.array([0, 2, 3], np.int64)
    two, one, ints = np.empty(2, np.uint64), np.empty(1, np.uint64), np.empty(2, np.int64)
    matrix, none = np.zeros((2, 3), np.float32), np.empty(0, np.float32)
    table = _native.TextTable(values, offsets)
    ids = np.array([0, 1, 2], np.int64)
    for call in (
        lambda: _native.hash_text(values, np.array([0, 2, 4]), NO_SALT, two),
        lambda: _native.hash_text(values, np.array([0, 2, 1]), NO_SALT, two),
        lambda: _native.hash_text(values, np.array([-1, 2, 3]), NO_SALT, two),
        lambda: _native.hash_text(values, offsets, NO_SALT, one),
        lambda: _native.hash_text(values, offsets, one, two),
        lambda: _native.hash_numbers(ids, NO_SALT, two),
        lambda: _native.hash_buckets(two, 0, 0, ints),
        lambda: _native.hash_buckets(two, 2**63, 0, ints),
        lambda: _native.hash_buckets(two, 2**62, 2**62, ints),
        lambda: _native.hash_buckets(one, 5, 0, ints),
        lambda: _native.cross_rows(two, one),
        lambda: _native.cross_product([], 1, 10),
        lambda: _native.cross_product([(two, offsets)], 1, 10),
        lambda: _native.cross_product([(two, np.array([0, 2])), (two, np.array([0, 1, 2]))], 1, 10),
        lambda: _native.cross_product([(two, np.array([0, 2]))], 1, 0),
        lambda: _native.TextTable(values, np.array([0, 9])),
        lambda: table.find(values, offsets, one, ints),
        lambda: table.find(values, np.array([0, 9, 9]), two, ints),
        lambda: _native.bucketize(np.zeros(3, np.float32), np.zeros(1, np.float32), ints),
        lambda: _native.bucketize(np.zeros(2, np.float32), np.array([1, 0], np.float32), ints),
        lambda: _native.add_counts(ids, offsets, none, 4, matrix, 0),
        lambda: _native.add_counts(ids, offsets, none, 3, matrix, 1),
        lambda: _native.add_counts(ids, offsets, none, 3, matrix, -1),
        lambda: _native.add_counts(ids, offsets, np.zeros(2, np.float32), 3, matrix, 0),
        lambda: _native.add_counts(ids, np.array([0, 3]), none, 3, matrix, 0),
        lambda: _native.add_embeddings(ids, offsets, none, np.zeros((9, 4), np.float32), 0, matrix, 0),
        lambda: _native.add_embeddings(ids, offsets, none, np.zeros((9, 3), np.float32), 3, matrix, 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            call()


def test_too_much_is_pythons_own_error_whatever_else_is_loaded():
    """DuckDB has its own error for it, and binds its library as we do ours."""
    pytest.importorskip("duckdb")
    many = (np.zeros(2**20, np.uint64), np.array([0, 2**20]))
    with pytest.raises(MemoryError):
        _native.cross_product([many] * 4, 1, 10)


def test_ids_beyond_a_table_add_nothing():
    ids, offsets = np.array([-1, 5, -(2**63), 2**63 - 1, 1], np.int64), np.array([0, 5], np.int64)
    out = np.zeros((1, 2), np.float32)
    _native.add_counts(ids, offsets, np.empty(0, np.float32), 2, out, 0)
    assert out.tolist() == [[0, 1]]
    out = np.zeros((1, 2), np.float32)
    _native.add_embeddings(ids, offsets, np.empty(0, np.float32), np.ones((2, 2), np.float32), 1, out, 0)
    assert out.tolist() == [[1, 1]]
