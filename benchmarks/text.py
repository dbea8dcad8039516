"""Text against tf.data and Keras: lines of a file to padded batches of word numbers, and vocabularies counted.

50,000 lines (200,000 where words are counted) of 12 words on average, out of 30,000 words that are as unevenly frequent
as those of a language, with capitals and punctuation. Files are read from the page cache. The sides
take turns in one run.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from harness import Case, main
from peers import numpy_batches, ours, tensorflow, untuned

import headrace as hr

LINES, COUNTED, WORDS, KNOWN = 50_000, 200_000, 30_000, 20_000
PUNCTUATION = r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']'
_folder = TemporaryDirectory(prefix="headrace-benchmark-")


@cache
def words() -> list[str]:
    random = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    made: dict[str, None] = {}
    while len(made) < WORDS:
        made["".join(random.choice(letters, random.integers(2, 9)))] = None
    return list(made)


@cache
def path(count: int = LINES) -> str:
    random = np.random.default_rng(1)
    every = words()
    places = np.minimum(random.zipf(1.2, count * 24), WORDS) - 1
    chances = random.random(count * 24).tolist()
    lengths = random.integers(4, 21, count).tolist()
    found = Path(_folder.name, f"lines-{count}.txt")
    at = 0
    with found.open("w") as file:
        for length in lengths:
            line = [every[place] for place in places[at : at + length]]
            line[0] = line[0].capitalize()
            for i in range(length):
                if chances[at + i] < 0.1:
                    line[i] += ","
            file.write(" ".join(line) + ".\n")
            at += length
    return str(found)


def our_functions(calls: int | None = None) -> hr.Dataset:
    vocabulary = hr.text.Vocabulary(words()[:KNOWN])

    def ids(line: Any) -> Any:
        return vocabulary(hr.text.split(hr.text.strip_punctuation(hr.text.lower(line))))

    return hr.TextLineDataset(path()).map(ids, calls).padded_batch(64)


def our_layer(calls: int | None = None) -> hr.Dataset:
    layer = hr.text.TextVectorization(vocabulary=words()[:KNOWN])
    return hr.TextLineDataset(path()).map(layer, calls).padded_batch(64)


def every_way() -> dict[str, Any]:
    made = {f"functions, {name}": job for name, job in ours(our_functions).items()}
    made |= {f"functions, 2 calls, {name}": job for name, job in ours(lambda: our_functions(2)).items()}
    made |= {f"layer, {name}": job for name, job in ours(our_layer).items()}
    return made | {f"layer, 2 calls, {name}": job for name, job in ours(lambda: our_layer(2)).items()}


@cache
def table() -> Any:
    tf = tensorflow()
    values = tf.range(KNOWN, dtype=tf.int64)
    return tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(words()[:KNOWN], values), 1)


def their_ids(line: Any) -> Any:
    tf = tensorflow()
    plain = tf.strings.regex_replace(tf.strings.lower(line), PUNCTUATION, "")
    return tf.strings.split(plain)


def their_rows(calls: Any) -> Any:
    tf = tensorflow()
    lookup = table()
    lines = tf.data.TextLineDataset(path())
    return lines.map(lambda line: lookup.lookup(their_ids(line)), calls).padded_batch(64)


def their_batches(calls: Any) -> Any:
    tf = tensorflow()
    lookup = table()
    lines = tf.data.TextLineDataset(path()).batch(64)
    return lines.map(lambda each: tf.ragged.map_flat_values(lookup.lookup, their_ids(each)).to_tensor(), calls)


def forms(build: Any) -> dict[str, Any]:
    tf = tensorflow()
    auto = tf.data.AUTOTUNE
    return {
        "AUTOTUNE": numpy_batches(lambda: build(auto).prefetch(auto)),
        "2 calls, untuned": numpy_batches(lambda: untuned(build(2).prefetch(2))),
        "in turn, untuned": numpy_batches(lambda: untuned(build(None))),
    }


@cache
def keras_layer() -> Any:
    tensorflow()
    import keras

    return keras.layers.TextVectorization(vocabulary=words()[:KNOWN])


def keras_batches(calls: Any) -> Any:
    tf = tensorflow()
    layer = keras_layer()
    return tf.data.TextLineDataset(path()).batch(64).map(layer, calls)


def our_vocabulary(calls: int | None) -> int:
    lines = hr.TextLineDataset(path(COUNTED)).map(
        lambda line: hr.text.split(hr.text.strip_punctuation(hr.text.lower(line))), calls
    )
    hr.text.Vocabulary.adapt(lines, KNOWN, progress=False)
    return COUNTED


def keras_vocabulary() -> int:
    tf = tensorflow()
    import keras

    layer = keras.layers.TextVectorization(max_tokens=KNOWN)
    layer.adapt(tf.data.TextLineDataset(path(COUNTED)).batch(1024))
    return COUNTED


def lazily(make: Any) -> Any:
    """Peers are imported when their turn comes."""
    jobs = cache(make)
    return {name: (lambda name=name: jobs()[name]()) for name in ("AUTOTUNE", "2 calls, untuned", "in turn, untuned")}


ITEMS = [
    Case(
        "lines to padded ids",
        {"tf.data": 25, "Keras in batches": 2.5},
        {
            "headrace": every_way(),
            "tf.data": lazily(lambda: forms(their_rows)),
            "tf.data in batches": lazily(lambda: forms(their_batches)),
            "Keras in batches": lazily(lambda: forms(keras_batches)),
        },
        LINES,
    ),
    Case(
        "a vocabulary counted",
        {"Keras": 20},
        {
            "headrace": {"2 calls": partial(our_vocabulary, 2), "in turn": partial(our_vocabulary, None)},
            "Keras": keras_vocabulary,
        },
        COUNTED,
    ),
]


if __name__ == "__main__":
    sys.exit(main("headrace: text", ITEMS, description=__doc__))
