"""Lines of text to padded batches of word numbers, with a vocabulary that is counted first."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import headrace as hr

TEXT = """\
The mill stands where the stream is swift.
Water turns the wheel, and the wheel turns the stone.

The stone grinds the grain; the miller fills the sacks.
A gate holds the water back at night.
In the morning the gate is lifted, and the stream runs to the wheel again.
"""
PADDING, UNKNOWN = 0, 1


def words(line):
    return [word.strip(".,;").lower() for word in line.split()]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mill.txt"
        path.write_text(TEXT)
        lines = hr.TextLineDataset(path).filter(lambda line: line != "")

        counted = Counter(word for line in lines for word in words(line))
        vocabulary = {word: number for number, (word, _) in enumerate(counted.most_common(20), start=2)}
        print(f"{len(vocabulary)} words of {len(counted)}, the most frequent: {counted.most_common(3)}")

        def numbers(line):
            return np.array([vocabulary.get(word, UNKNOWN) for word in words(line)])

        ids = lines.map(numbers)
        for batch in ids.padded_batch(3, padding_values=PADDING):
            print(batch.shape)
            print(batch)
        print("the lengths, kept:", [batch.row_lengths().tolist() for batch in ids.ragged_batch(3)])

        # Sentences of about the same length together: less padding.
        bucketed = ids.bucket_by_sequence_length(len, bucket_boundaries=[9], bucket_batch_sizes=[2, 2])
        print("in buckets:", [batch.shape for batch in bucketed])


if __name__ == "__main__":
    main()
