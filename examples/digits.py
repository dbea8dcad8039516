"""Train a small classifier on handwritten digits with scikit-learn, fed by headrace from TFRecord shards."""

import time

from digits_data import digits
from sklearn.linear_model import SGDClassifier

import headrace as hr

EPOCHS = 8


def main():
    rows, held_out = digits()
    train = rows.batch(32).prefetch(hr.AUTOTUNE)
    test = held_out.batch(len(held_out)).get_single_element()

    print(train)
    model = SGDClassifier(loss="log_loss", random_state=0)
    for epoch in range(EPOCHS):
        started, seen = time.perf_counter(), 0
        for images, labels in train:
            model.partial_fit(images, labels, classes=range(10))
            seen += len(labels)
        rate = seen / (time.perf_counter() - started)
        accuracy = model.score(*test)
        print(f"epoch {epoch + 1}: {seen} rows, {rate:,.0f} rows/s with training, test accuracy {accuracy:.3f}")

    started = time.perf_counter()
    seen = sum(len(labels) for _, labels in train)
    print(f"the pipeline alone: {seen / (time.perf_counter() - started):,.0f} rows/s")


if __name__ == "__main__":
    main()
