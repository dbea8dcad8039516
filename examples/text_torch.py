"""Train on lines of text: a file of reviews, words counted in one pass, batches of sentences of about one length.

The lines are made up here: sentences about dishes, that praise or complain. `make demo-text` runs this.
"""

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import nn

import headrace as hr

LINES, EPOCHS = 10_000, 2
GOOD = ["wonderful", "tasty", "fresh", "warm", "a delight", "not bad"]
BAD = ["awful", "stale", "cold", "salty", "a disgrace", "not good"]
DISHES = ["The soup", "My bread", "Their coffee", "This cake", "The stew", "A salad"]
REST = ["was", "really", "today", "again", "they said", "as always", "I think", "for once"]


def write_reviews(path):
    """A label, a tab, a sentence."""
    random = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(LINES):
            label = int(random.integers(2))
            middle = random.choice(REST, random.integers(1, 9)).tolist()
            middle.insert(int(random.integers(len(middle) + 1)), str(random.choice(GOOD if label else BAD)))
            file.write(f"{label}\t{random.choice(DISHES)} {', '.join(middle)}!\n")


def label(line):
    return hr.text.to_number(hr.text.substr(line, 0, 1), np.int64)


def tokens(line):
    """Words and pairs of neighbours."""
    sentence = hr.text.regex_replace(line, "^[01]\t", "")
    words = hr.text.split(hr.text.strip_punctuation(hr.text.lower(sentence)))
    return hr.text.ngrams(words, [1, 2])


class Classifier(nn.Module):
    """The mean of what pairs and words mean, and a line through it."""

    def __init__(self, words, width=16):
        super().__init__()
        self.table = nn.Embedding(words, width, padding_idx=0)
        self.out = nn.Linear(width, 2)

    def forward(self, ids):
        there = (ids != 0).unsqueeze(-1)
        return self.out((self.table(ids) * there).sum(1) / there.sum(1).clamp(min=1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is small: threads would wait for each other
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reviews.txt"
        write_reviews(path)
        reviews = hr.TextLineDataset(path)
        train, test = reviews.skip(LINES // 10), reviews.take(LINES // 10)
        started = perf_counter()
        vocabulary = hr.text.Vocabulary.adapt(train.map(tokens), 5000, special_tokens=["[PAD]"])
        print(f"{len(vocabulary.tokens):,} words and pairs, counted in {perf_counter() - started:.2f} s")

        def batches(ds):
            pairs = ds.map(lambda line: (vocabulary(tokens(line)), label(line)))
            return pairs.bucket_by_sequence_length(lambda ids, label: len(ids), [12, 20], [64, 64, 64])

        print(train.map(lambda line: vocabulary(tokens(line))).statistics())
        model = Classifier(len(vocabulary))
        optimiser = torch.optim.Adam(model.parameters(), 0.01)
        feed = batches(train.shuffle(2000, seed=0)).to_torch()
        for epoch in range(EPOCHS):
            for ids, labels in feed:
                loss = nn.functional.cross_entropy(model(ids), labels)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
        with torch.no_grad():
            hits = [(model(ids).argmax(1) == labels).float() for ids, labels in batches(test).to_torch()]
        print(f"test accuracy {torch.cat(hits).mean():.3f}")


if __name__ == "__main__":
    main()
