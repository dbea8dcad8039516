"""Lines of text to padded batches of word numbers, with a vocabulary that is counted first."""

import tempfile
from pathlib import Path

import headrace as hr

TEXT = """\
The mill stands where the stream is swift.
Water turns the wheel, and the wheel turns the stone.

The stone grinds the grain; the miller fills the sacks.
A gate holds the water back at night.
In the morning the gate is lifted, and the stream runs to the wheel again.
"""


def words(line):
    return hr.text.split(hr.text.strip_punctuation(hr.text.lower(line)))


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mill.txt"
        path.write_text(TEXT)
        lines = hr.TextLineDataset(path).filter(lambda line: line != "")

        vocabulary = hr.text.Vocabulary.adapt(lines.map(words), 21, special_tokens=["[PAD]"])
        counted = lines.map(words).statistics()[""]
        print(f"{len(vocabulary.tokens) - 1} words of {counted.unique}, the most frequent: {counted.most_frequent[:3]}")

        ids = lines.map(lambda line: vocabulary(words(line)))
        for batch in ids.padded_batch(3):
            print(batch.shape)
            print(batch)
        print("the lengths, kept:", [batch.row_lengths().tolist() for batch in ids.ragged_batch(3)])
        print("and back:", " ".join(vocabulary.tokens_of(next(iter(ids)))))

        # Sentences of about the same length together: less padding.
        bucketed = ids.bucket_by_sequence_length(len, bucket_boundaries=[9], bucket_batch_sizes=[2, 2])
        print("in buckets:", [batch.shape for batch in bucketed])


if __name__ == "__main__":
    main()
