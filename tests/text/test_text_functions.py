"""hr.text: the same on single texts, arrays, words and batches; in a map, on both executors; errors in their places."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.columns import RaggedText, join, kind_of, pick, values
from headrace.testing import check_transformation

D = hr.Dataset
LINES = ["To be, or not", "", "  to be?  ", "That is", "the Ärger's question", "a b c d e f"]


def same(a, b):
    if isinstance(a, hr.Ragged):
        return isinstance(b, hr.Ragged) and a.to_list() == b.to_list()
    return np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype


FUNCTIONS = [
    hr.text.lower,
    lambda x: hr.text.upper(x, encoding="utf-8"),
    hr.text.strip,
    hr.text.strip_punctuation,
    hr.text.split,
    lambda x: hr.text.split(x, sep="b"),
    lambda x: hr.text.lower(hr.text.split(x)),
    lambda x: hr.text.length(hr.text.split(x)),
    lambda x: hr.text.bytes_split(x),
    lambda x: hr.text.unicode_decode(x),
    lambda x: hr.text.reduce_join(hr.text.ngrams(hr.text.split(x), [1, 2]), separator="|"),
    lambda x: hr.text.join([x, hr.text.lower(x)], separator=" - "),
    lambda x: hr.text.regex_replace(x, "[aeiou]+", "*"),
    lambda x: hr.text.to_hash_bucket_fast(hr.text.split(x), 9),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", [str, bytes])
@pytest.mark.parametrize("shape", [lambda ds: ds, lambda ds: ds.batch(3), lambda ds: ds.batch(3).batch(2)])
def test_a_map_runs_on_blocks_and_gives_what_a_call_gives(function, kind, shape):
    lines = LINES if kind is str else [line.encode() for line in LINES]
    ds = shape(D.from_tensor_slices(lines))
    made = ds.map(function)
    assert "vectorised" in made.explain()
    rows = list(made)
    assert len(rows) == len(list(ds))
    assert all(same(row, function(element)) for row, element in zip(rows, ds, strict=True))
    assert all(same(row, element) for row, element in zip(rows, ds.map(function, mode="eager"), strict=True))


@pytest.mark.parametrize(
    "build",
    [
        lambda ds: ds.map(hr.text.split).padded_batch(4),
        lambda ds: ds.map(hr.text.split).padded_batch(4, padded_shapes=[8], padding_values="-"),
        lambda ds: ds.map(lambda x: hr.text.bytes_split(x)).padded_batch(2),
        lambda ds: ds.map(hr.text.split).ragged_batch(4),
        lambda ds: ds.map(hr.text.split).batch(2),
        lambda ds: ds.map(hr.text.split).unbatch(),
        lambda ds: ds.map(hr.text.split).shuffle(4, seed=1),
        lambda ds: ds.map(hr.text.split).cache(),
        lambda ds: ds.map(hr.text.split).filter(lambda words: len(words) > 2),
        lambda ds: ds.repeat(2).map(hr.text.split, num_parallel_calls=2).map(hr.text.length),
        lambda ds: ds.batch(2).map(hr.text.split),
        lambda ds: ds.map(lambda x: hr.text.substr(x, 3, 2)),
        lambda ds: ds.map(hr.text.to_number),
        lambda ds: ds.map(lambda x: hr.text.unicode_decode(x)).ragged_batch(3),
    ],
)
def test_words_go_through_a_pipeline(build):
    check_transformation(build(D.from_tensor_slices(LINES)))


def test_words_of_lines_are_padded_kept_ragged_and_batched_where_they_are_as_many():
    words = D.from_tensor_slices(["a b", "c"]).map(hr.text.split)
    assert words.element_spec == hr.TensorSpec((None,), str)
    assert next(iter(words.padded_batch(2))).tolist() == [["a", "b"], ["c", ""]]
    assert next(iter(words.ragged_batch(2))).to_list() == [["a", "b"], ["c"]]
    with pytest.raises(hr.ElementError, match="differ"):
        next(iter(words.batch(2)))
    even = D.from_tensor_slices(["a b", "c d"]).map(hr.text.split).batch(2)
    assert next(iter(even)).tolist() == [["a", "b"], ["c", "d"]]
    padded = D.from_tensor_slices([b"a b", b"c"]).map(hr.text.split).padded_batch(2)
    assert next(iter(padded)).tolist() == [[b"a", b"b"], [b"c", b""]]


def test_a_bad_row_is_an_error_in_its_place():
    numbers = D.from_tensor_slices(["1", "x", "3"]).map(hr.text.to_number)
    it = iter(numbers)
    assert next(it) == 1
    with pytest.raises(hr.ElementError, match="'x' is no float32"):
        next(it)
    assert next(it) == 3
    with pytest.raises(ValueError, match="cut within a character"):
        hr.text.substr("ä", 1, 1)
    assert hr.text.substr("ä".encode(), 1, 1) == b"\xa4"
    with pytest.raises(ValueError, match="pos 4 is no place of 'abc'"):
        hr.text.substr("abc", 4, 1)
    with pytest.raises(ValueError, match="no UTF-8"):
        hr.text.unicode_decode(b"\xff", errors="strict")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hr.text.lower(3), "take str or bytes"),
        (lambda: hr.text.lower(["a", b"b"]), "str and bytes"),
        (lambda: hr.text.lower(np.array([1, 2])), "not int"),
        (lambda: hr.text.lower("a", encoding="latin-1"), "encoding must be one of"),
        (lambda: hr.text.length("a", unit="WORD"), "unit must be one of"),
        (lambda: hr.text.regex_replace("a", "(", ""), "missing \\)"),
        (lambda: hr.text.regex_replace("a", "a", r"\2"), "rewrite"),
        (lambda: hr.text.ngrams("a", 2), "arrays of text"),
        (lambda: hr.text.ngrams(["a"], 0), "at least 1"),
        (lambda: hr.text.substr("abc", 0, -1), "at least 0"),
        (lambda: hr.text.to_number("1", np.int8), "out_type must be one of"),
        (lambda: hr.text.join([["a"], ["b", "c"]]), "one shape"),
    ],
)
def test_what_cannot_be_says_why(call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call()


def test_text_of_arrays_pandas_and_arrow_is_taken():
    assert hr.text.upper(np.array(["a", "b"])).tolist() == ["A", "B"]
    assert hr.text.upper(pa.array(["a", "b"], pa.large_string())).tolist() == ["A", "B"]
    assert hr.text.upper(np.str_("a")) == "A"
    assert hr.text.split([["a b", "c"], ["d", ""]]).to_list() == [[["a", "b"], ["c"]], [["d"], []]]


@given(st.lists(st.text(max_size=12), min_size=1, max_size=8), st.integers(1, 4), st.text(min_size=1, max_size=2))
def test_words_and_separators_come_back_together(lines, most, separator):
    cut = hr.text.split(np.array(lines, object), sep=separator)
    assert cut.to_list() == [line.split(separator) for line in lines]
    assert hr.text.reduce_join(cut, separator=separator).tolist() == lines
    some = hr.text.split(np.array(lines, object), sep=separator, maxsplit=most)
    assert some.to_list() == [line.split(separator, most) for line in lines]
    assert hr.text.unicode_decode(np.array(lines, object)).to_list() == [[ord(c) for c in line] for line in lines]
    assert hr.text.lower(np.array(lines, object), encoding="utf-8").tolist() == [line.lower() for line in lines]


ROWS = st.lists(st.lists(st.text(max_size=3), max_size=4), min_size=1, max_size=6)


@given(ROWS, ROWS, st.data())
def test_a_column_of_words_keeps_the_laws_of_columns(one, other, data):
    def column(rows):
        flat = pa.array([word for row in rows for word in row], pa.large_string())
        return RaggedText(flat, np.cumsum([0, *map(len, rows)]))

    def rows_of(made):
        return [row.tolist() for row in values(made)]

    a, b = column(one), column(other)
    kind = kind_of(a)
    assert rows_of(a) == one
    assert rows_of(join([a, b])) == one + other
    order = np.array(data.draw(st.lists(st.integers(0, len(one) + len(other) - 1), min_size=1)))
    assert rows_of(pick([a, b], order)) == [(one + other)[i] for i in order]
    start = data.draw(st.integers(0, len(one)))
    assert rows_of(a[start:]) == one[start:]
    assert rows_of(a[::-1]) == one[::-1]
    stored, notes = kind.to_arrow(a[start:])
    assert rows_of(kind.from_arrow(stored, notes)) == one[start:]
    assert rows_of(join([a, [np.array(row, object) for row in other]])) == one + other
