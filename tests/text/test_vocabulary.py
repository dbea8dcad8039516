"""hr.text.Vocabulary and TextVectorization: made of lists, files and data, applied to words of lines and batches."""

import pickle
from collections import Counter

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset
LINES = ["To be, or not to be", "", "that is the question", "to do is to be", "be!"]
WORDS = hr.text.Vocabulary(["[PAD]", "to", "be", "or"])


def words_of(line):
    return hr.text.split(hr.text.strip_punctuation(hr.text.lower(line)))


def test_words_get_their_places_and_others_the_ids_behind():
    assert WORDS("be") == 2
    assert WORDS(["be", "or", "x"]).tolist() == [2, 3, 4]
    assert WORDS(np.array([["be", "to"]], object)).tolist() == [[2, 1]]
    assert WORDS(hr.Ragged.from_rows([["be"], []], object)).to_list() == [[2], []]
    assert WORDS([b"be", b"or"]).tolist() == [2, 3]
    assert len(WORDS) == 5
    many = hr.text.Vocabulary(["a"], num_oov_buckets=3)
    assert set(many([str(n) for n in range(50)]).tolist()) == {1, 2, 3}
    assert hr.text.Vocabulary(["a"], num_oov_buckets=0)(["a", "b"]).tolist() == [0, -1]
    assert hr.text.Vocabulary(["a"], num_oov_buckets=0, default_value=7)(["a", "b"]).tolist() == [0, 7]


def test_ids_become_tokens_again():
    assert WORDS.tokens_of([1, 4, -1]).tolist() == ["to", "[UNK]", "[UNK]"]
    assert WORDS.tokens_of(2) == "be"
    assert WORDS.tokens_of(hr.Ragged.from_rows([[1], [2, 0]])).to_list() == [["to"], ["be", "[PAD]"]]


@pytest.mark.parametrize(
    "build",
    [
        lambda ds: ds.map(lambda line: WORDS(words_of(line))).padded_batch(2),
        lambda ds: ds.map(lambda line: WORDS(words_of(line))).ragged_batch(3),
        lambda ds: ds.map(words_of).map(WORDS),
        lambda ds: ds.batch(2).map(lambda lines: WORDS(hr.text.lower(lines))),
        lambda ds: ds.batch(2).map(lambda lines: hr.text.lookup(words_of(lines), WORDS)),
        lambda ds: ds.map(lambda line: WORDS(words_of(line))).bucket_by_sequence_length(len, [3], [2, 2]),
        lambda ds: ds.shuffle(3, seed=1).map(lambda line: {"ids": WORDS(words_of(line)), "line": line}),
    ],
)
def test_lines_become_ids_in_a_pipeline(build):
    check_transformation(build(D.from_tensor_slices(LINES)))


def test_lines_to_padded_ids_run_on_blocks():
    ids = D.from_tensor_slices(LINES).map(lambda line: WORDS(words_of(line)))
    assert ids.element_spec == hr.TensorSpec((None,), np.int64)
    assert "vectorised" in ids.explain()
    first, *_ = ids.padded_batch(2)
    assert first.tolist() == [[1, 2, 3, 4, 1, 2], [0, 0, 0, 0, 0, 0]]


def test_a_vocabulary_is_made_of_data_in_one_pass():
    words = D.from_tensor_slices(LINES).map(words_of)
    made = hr.text.Vocabulary.adapt(words, progress=False)
    assert made.tokens[:2] == ("to", "be")
    assert made.tokens[2:] == ("is", "the", "that", "question", "or", "not", "do")  # of equals the greater first
    assert hr.text.Vocabulary.adapt(words, 3, special_tokens=["[PAD]", "be"]).tokens == ("[PAD]", "be", "to")
    assert hr.text.Vocabulary.adapt(words, min_count=2).tokens == ("to", "be", "is")
    assert hr.text.Vocabulary.adapt(["b", "a", "b"]).tokens == ("b", "a")
    assert hr.text.Vocabulary.adapt(words.batch(1).unbatch()).tokens == made.tokens
    assert hr.text.Vocabulary.adapt(D.from_tensor_slices(["b", "a", "b"]).batch(2)).tokens == ("b", "a")


def test_counting_goes_on_after_it_was_broken_off(tmp_path):
    lines = [f"w{n % 7} w{n % 3} x" for n in range(600)]
    path = tmp_path / "counted"
    stops = {"now": True}

    def watched(line):
        if stops["now"] and line.startswith("w4") and stops.setdefault("seen", 0) > 300:
            raise KeyboardInterrupt
        stops["seen"] = stops.get("seen", 0) + 1
        return line

    broken = D.from_tensor_slices(lines).map(watched, mode="eager").map(hr.text.split)
    with pytest.raises(KeyboardInterrupt):
        hr.text.Vocabulary.adapt(broken, state=path, progress=False)
    assert path.exists()
    stops["now"], before = False, stops["seen"]
    made = hr.text.Vocabulary.adapt(broken, state=path, progress=False)
    assert stops["seen"] - before < 600
    assert not path.exists()
    assert made.tokens == hr.text.Vocabulary.adapt(D.from_tensor_slices(lines).map(hr.text.split)).tokens


def test_a_file_holds_one_token_a_line(tmp_path):
    path = tmp_path / "words.txt"
    words = hr.text.Vocabulary(["[PAD]", "für", "b c"])
    words.save(path)
    assert path.read_bytes() == "[PAD]\nfür\nb c\n".encode()
    assert hr.text.Vocabulary.from_file(path).tokens == words.tokens
    copied = pickle.loads(pickle.dumps(words))
    assert copied.tokens == words.tokens
    assert copied("für") == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hr.text.Vocabulary([]), "no tokens"),
        (lambda: hr.text.Vocabulary(["a", "b", "a"]), "'a' is in the list twice"),
        (lambda: hr.text.Vocabulary("words.txt"), "from_file reads a file"),
        (lambda: hr.text.Vocabulary(["a", 3]), "3 is no text"),
        (lambda: hr.text.Vocabulary(["a"], default_value=0), "not both"),
        (lambda: hr.text.Vocabulary(["a\nb"]).save("never"), "end of a line"),
        (lambda: WORDS([1, 2]), "not for integers"),
        (lambda: hr.text.Vocabulary.adapt(D.range(3)), "counts texts, not integers"),
        (lambda: hr.text.Vocabulary.adapt(D.from_tensor_slices(["a"]).filter(lambda x: False)), "no text"),
        (lambda: hr.text.Vocabulary.adapt(D.from_tensor_slices((["a"], [1]))), "Vocabulary adapts to elements of one"),
        (lambda: hr.text.Vocabulary.adapt(["a"], 1, special_tokens=["x"]), "leaves no room"),
        (lambda: hr.text.TextVectorization(output_mode="one_hot"), "output_mode must be one of"),
        (lambda: hr.text.TextVectorization(standardize="upper"), "standardize must be one of"),
        (lambda: hr.text.TextVectorization(split="line"), "split must be one of"),
        (lambda: hr.text.TextVectorization(output_mode="count", ragged=True), "need output_mode='int'"),
        (lambda: hr.text.TextVectorization()("a"), "has no vocabulary"),
    ],
)
def test_what_cannot_be_says_why(call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call()


Layer = hr.text.TextVectorization
LAYER = Layer(vocabulary=["to", "be", "or"])


@pytest.mark.parametrize(
    "build",
    [
        lambda ds: ds.map(LAYER).padded_batch(2),
        lambda ds: ds.batch(2).map(LAYER),
        lambda ds: ds.batch(2).map(Layer(vocabulary=["to", "be"], ragged=True)),
        lambda ds: ds.map(Layer(vocabulary=["to", "be"], output_sequence_length=4)).batch(3),
        lambda ds: ds.map(Layer(vocabulary=["to", "be"], output_mode="count")).batch(3),
        lambda ds: ds.batch(2).map(Layer(vocabulary=["to", "to be"], ngrams=2, output_mode="multi_hot")),
        lambda ds: ds.map(Layer(vocabulary=["t", "o"], split="character")).ragged_batch(2),
        lambda ds: ds.map(Layer(vocabulary=["To", "be"], standardize=hr.text.strip)).ragged_batch(2),
        lambda ds: ds.map(Layer(vocabulary=["to", "be"], split=lambda x: hr.text.split(x, sep=" "))).ragged_batch(2),
    ],
)
def test_a_layer_of_text_runs_in_a_pipeline(build):
    check_transformation(build(D.from_tensor_slices(LINES)))


def test_a_layer_of_text_runs_on_blocks_unless_it_calls_functions():
    ds = D.from_tensor_slices(LINES)
    assert "vectorised" in ds.map(lambda line: LAYER(line)).explain()
    own = Layer(vocabulary=["To", "be"], standardize=hr.text.strip)
    assert "row by row: " in ds.map(lambda line: own(line)).explain()


def test_the_order_of_tokens_is_that_of_counts_and_then_of_bytes():
    rng = np.random.default_rng(0)
    parts = [b"", b"a", b"a\0", b"abcdefgh", b"abcdefghi", b"abcdefghi\0", b"\xff", "é".encode(), b"b" * 20]
    words = [parts[i] + parts[j] for i, j in rng.integers(0, len(parts), (3000, 2)) if i or j]
    expected = sorted(Counter(words).items(), key=lambda item: (item[1], item[0]), reverse=True)
    for limit in (None, 1, 7, 1000):
        found = hr.text.Vocabulary.adapt(np.array(words, object), limit, progress=False).tokens
        assert [t if isinstance(t, bytes) else t.encode() for t in found] == [word for word, _ in expected[:limit]]
    often = hr.text.Vocabulary.adapt(np.array(words, object), min_count=30, special_tokens=[words[0]], progress=False)
    kept = [word for word, count in expected if count >= 30 and word != words[0]]
    assert [t if isinstance(t, bytes) else t.encode() for t in often.tokens] == [words[0], *kept]
