"""Functions of hr.text against tf.strings: thousands of texts, in a map and as one array."""

import random

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

LETTERS = "abcXYZ .,!?-_\t\n\v\f\r'\"0123456789\x00\x1c\x85\xa0"
WIDE = "äÄßẞéÉİıǅŉΣσςά€日本語😀𝔸ﬁ\u0301\u200d"


def texts():
    """Texts of all kinds that are UTF-8."""
    chance = random.Random(7)
    made = ["", " ", "  ", "a", "ß", "ΑΣ", "ΑΣ ΣΑΣ.", "\n", "a b", "aa,,bb,"]
    for _ in range(3000):
        letters = LETTERS if chance.random() < 0.6 else LETTERS + WIDE
        made.append("".join(chance.choices(letters, k=chance.randint(0, 24))))
    return made


def blobs():
    """Bytes, of which many are no UTF-8."""
    chance = random.Random(8)
    pieces = [
        b"a",
        b" ",
        b"B",
        "é".encode(),
        "€".encode(),
        b"\x80",
        b"\xff",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\xc0",
    ]
    return [b"".join(chance.choices(pieces, k=chance.randint(0, 9))) for _ in range(1500)] + [
        chance.randbytes(5) for _ in range(1500)
    ]


TEXTS = [text.encode() for text in texts()]
BLOBS = blobs()


def plain(value):
    """As lists of Python's values; NaN is like NaN."""
    if hasattr(value, "to_list"):
        return value.to_list()
    value = value.numpy() if hasattr(value, "numpy") else value
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def in_map(fn, rows):
    ds = hr.Dataset.from_tensor_slices(rows).map(fn)
    found = [plain(row) for row in ds]
    assert "vectorised" in ds.explain()
    return found


def check(ours, theirs, rows):
    expected = plain(theirs(tf.constant(rows)))
    assert plain(ours(np.array(rows, object))) == expected
    assert in_map(ours, rows) == expected
    some = rows[:50]
    assert [plain(ours(row)) for row in some] == expected[:50]
    batches = [plain(batch) for batch in hr.Dataset.from_tensor_slices(rows).batch(7).map(ours)]
    assert [row for batch in batches for row in batch] == expected


@pytest.mark.parametrize("rows", [TEXTS, BLOBS], ids=["texts", "bytes"])
@pytest.mark.parametrize(
    "call",
    [
        lambda s, x: s.lower(x),
        lambda s, x: s.upper(x),
        lambda s, x: s.strip(x),
        lambda s, x: s.split(x),
        lambda s, x: s.split(x, sep=","),
        lambda s, x: s.split(x, sep="a", maxsplit=1),
        lambda s, x: s.split(x, sep=" a"),
        lambda s, x: s.split(x, sep=",", maxsplit=0),
        lambda s, x: s.length(x),
        lambda s, x: s.length(x, unit="UTF8_CHAR"),
        lambda s, x: s.bytes_split(x),
        lambda s, x: s.unicode_split(x, "UTF-8"),
        lambda s, x: s.unicode_split(x, "UTF-8", errors="ignore"),
        lambda s, x: s.unicode_split(x, "UTF-8", replacement_char=63),
        lambda s, x: s.unicode_decode(x, "UTF-8"),
        lambda s, x: s.unicode_decode(x, "UTF-8", errors="ignore"),
        lambda s, x: s.unicode_decode(x, "UTF-8", replace_control_characters=True),
        lambda s, x: s.to_hash_bucket_fast(x, 1000),
        lambda s, x: s.substr(x, 0, 3),
        lambda s, x: s.substr(x, 0, 3, unit="UTF8_CHAR"),
        lambda s, x: s.regex_replace(x, "[aX.]", ""),
        lambda s, x: s.regex_replace(x, r"[!-/\]a-c]+", ""),
        lambda s, x: s.regex_replace(x, "[a-c]", "_"),
        lambda s, x: s.regex_replace(x, "(a|b)(.)", r"<\2\1\\>"),
        lambda s, x: s.regex_replace(x, r"\s+", " "),
        lambda s, x: s.regex_replace(x, "", "-"),
        lambda s, x: s.regex_replace(x, r"[^a-zé]", "?"),
        lambda s, x: s.regex_replace(x, "(a+|b)(.)", r"[\2\0]", replace_global=False),
        lambda s, x: s.regex_replace(x, r"\bc|^a|B$", "#", replace_global=False),
        lambda s, x: s.regex_replace(x, "(?i)B", "", replace_global=False),
        lambda s, x: s.regex_replace(x, "b*?", "^", replace_global=False),
        lambda s, x: s.regex_full_match(x, "[a-z ]*|.?é.*"),
        lambda s, x: s.join([x, "-", x], separator="/"),
    ],
)  # fmt: skip
def test_a_function_gives_what_tensorflow_gives(call, rows):
    check(lambda x: call(hr.text, x), lambda x: call(tf.strings, x), rows)


@pytest.mark.parametrize("rows", [TEXTS, BLOBS], ids=["texts", "bytes"])
@pytest.mark.parametrize("name", ["lower", "upper"])
def test_all_letters_of_unicode_are_mapped_as_by_tensorflow(name, rows):
    """But TensorFlow loses what comes after a NUL."""
    check(
        lambda x: getattr(hr.text, name)(x, encoding="utf-8"),
        lambda x: getattr(tf.strings, name)(x, encoding="utf-8"),
        [row for row in rows if b"\0" not in row],
    )


@pytest.mark.parametrize("name", ["lower", "upper"])
def test_letters_are_mapped_alike_but_for_those_that_tensorflow_does_not_know_yet(name):
    rows = [chr(c).encode() for c in range(1, 0x20000) if not 0xD800 <= c < 0xE000]
    ours = getattr(hr.text, name)(np.array(rows, object), encoding="utf-8")
    theirs = getattr(tf.strings, name)(tf.constant(rows), encoding="utf-8").numpy()
    other = [(row, their) for row, our, their in zip(rows, ours, theirs, strict=True) if our != their]
    assert len(other) < 100
    assert all(row == their for row, their in other)


@pytest.mark.parametrize("most", [0, 1, 2, 5])
def test_a_split_that_ends_early_leaves_the_rest_as_python_does(most):
    """TensorFlow adds an empty piece where there are no more cuts than were allowed."""
    for rows in (TEXTS, BLOBS):
        assert in_map(lambda x: hr.text.split(x, maxsplit=most), rows) == [row.split(None, most) for row in rows]


def test_strings_are_str_where_tensorflow_has_bytes():
    rows = texts()
    assert in_map(hr.text.lower, rows) == [text.decode() for text in plain(tf.strings.lower(TEXTS))]
    words = [[word.decode() for word in row] for row in plain(tf.strings.split(TEXTS))]
    assert in_map(hr.text.split, rows) == words


@pytest.mark.parametrize("unit", ["BYTE", "UTF8_CHAR"])
@pytest.mark.parametrize(("pos", "length"), [(1, 2), (-1, 1), (-3, 2), (4, 0), (5, 100)])
def test_a_part_is_cut_or_refused_as_by_tensorflow(unit, pos, length):
    for row in [*TEXTS[:400], *BLOBS[:400]]:
        try:
            expected = tf.strings.substr(row, pos, length, unit=unit).numpy()
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # its error quotes bytes that are no text
            expected = None
        try:
            found = hr.text.substr(row, pos, length, unit=unit)
        except ValueError:
            found = None
        assert found == expected, row


NUMBERS = [
    "1", " 1 ", "1.5", "+3", "-0", "1e3", "1e400", "-1e400", "inf", "-Infinity", "INF", "nan", "0x1f", "0x1p3", "",
    "  ", "1_0", "1,0", "3000000000", "99999999999999999999", "1.", "-.5", ".", "1e", "\t1\n", "1\x00", "infinit",
    "+inf", "+-1", "- 1", "1d", "1e-400", "007", "0x", "2147483648", "-2147483648", "9223372036854775808", "3.4e38",
    "3.5e38", "1e-45", "1e-46", "0.1", "16777217",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_numbers_are_read_or_refused_as_by_tensorflow(dtype):
    chance = random.Random(9)
    more = [repr(chance.uniform(-1, 1) * 10 ** chance.randint(-40, 40)) for _ in range(1000)]
    more += [str(chance.randint(-(10**n), 10**n)) for n in range(1, 20) for _ in range(20)]
    for text in [*NUMBERS, *more]:
        try:
            expected = tf.strings.to_number(text, getattr(tf, dtype)).numpy()
        except tf.errors.InvalidArgumentError:
            with pytest.raises(ValueError, match="is no " + dtype):
                hr.text.to_number(text, dtype)
        else:
            found = hr.text.to_number(text, dtype)
            assert found.dtype == expected.dtype
            assert found.tobytes() == expected.tobytes() or (np.isnan(found) and np.isnan(expected)), text


@pytest.mark.parametrize(
    "options",
    [
        {"ngram_width": 2},
        {"ngram_width": [1, 2]},
        {"ngram_width": (3, 1), "separator": "-"},
        {"ngram_width": 2, "pad_values": ("<", ">")},
        {"ngram_width": 3, "pad_values": "_"},
        {"ngram_width": 3, "pad_values": "_", "padding_width": 1},
        {"ngram_width": [2, 4], "pad_values": ("<", ">>"), "padding_width": 2, "separator": ""},
        {"ngram_width": 3, "preserve_short_sequences": True},
        {"ngram_width": [2, 3], "preserve_short_sequences": True},
        {"ngram_width": 4, "pad_values": "_", "padding_width": 1, "preserve_short_sequences": True},
    ],
)
def test_ngrams_are_those_of_tensorflow(options):
    check(
        lambda x: hr.text.ngrams(hr.text.split(x), **options),
        lambda x: tf.strings.ngrams(tf.strings.split(x), **options),
        TEXTS[:1200],
    )


def test_words_are_put_together_as_by_tensorflow():
    check(
        lambda x: hr.text.reduce_join(hr.text.split(x), separator=" "),
        lambda x: tf.strings.reduce_join(tf.strings.split(x), axis=-1, separator=" "),
        TEXTS[:1200],
    )
    rows = np.array(TEXTS[:60], object).reshape(20, 3)
    assert hr.text.reduce_join(rows, separator="+").tolist() == plain(
        tf.strings.reduce_join(tf.constant(rows), axis=-1, separator="+")
    )
    for axis in (-1, 1, None):
        joined = hr.text.reduce_join(rows, separator="+", axis=axis)
        theirs = tf.strings.reduce_join(tf.constant(rows), axis=axis, separator="+")
        assert (joined if axis is None else joined.tolist()) == plain(theirs)


def test_words_of_a_batch_are_put_together_as_by_tensorflow():
    lines = [b"a b", b"", b"c", b"d e f"]
    ours = hr.Dataset.from_tensor_slices(lines).map(hr.text.split).ragged_batch(3)
    theirs = tf.data.Dataset.from_tensor_slices(lines).map(tf.strings.split).ragged_batch(3)
    made = ours.map(lambda x: hr.text.reduce_join(x, separator="-", axis=None))
    assert made.element_spec == hr.TensorSpec((), bytes)
    assert list(made) == [plain(tf.strings.reduce_join(x.flat_values, separator="-")) for x in theirs]


def test_what_reduce_join_cannot_do_is_an_error():
    with pytest.raises(TypeError, match="must be str or bytes, not -1"):
        hr.text.reduce_join(["a", "b"], -1)
    for axis in (0, 2, -2):
        with pytest.raises(ValueError, match="axis must be the last one"):
            hr.text.reduce_join(np.array([["a", "b"]]), axis=axis)
