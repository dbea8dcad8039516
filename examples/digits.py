"""Train a small classifier on scikit-learn's handwritten digits, fed by headrace."""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

import headrace as hr

EPOCHS = 8


def scale(image, label):
    return (image / 16.0).astype(np.float32).ravel(), label


def main():
    digits = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(digits.images, digits.target, random_state=0)

    train = (
        hr.Dataset.from_tensor_slices((x_train, y_train))
        .shuffle(1000, seed=0)
        .map(scale)
        .batch(32)
        .prefetch(hr.AUTOTUNE)
    )
    test = hr.Dataset.from_tensor_slices((x_test, y_test)).map(scale).batch(len(x_test))

    print(train)
    model = SGDClassifier(loss="log_loss", random_state=0)
    classes = np.unique(y_train)
    for epoch in range(EPOCHS):
        started, rows = time.perf_counter(), 0
        for images, labels in train:
            model.partial_fit(images, labels, classes=classes)
            rows += len(labels)
        rate = rows / (time.perf_counter() - started)
        accuracy = model.score(*next(iter(test)))
        print(f"epoch {epoch + 1}: {rows} rows, {rate:,.0f} rows/s with training, test accuracy {accuracy:.3f}")

    started, rows = time.perf_counter(), 0
    for _, labels in train:
        rows += len(labels)
    print(f"the pipeline alone: {rows / (time.perf_counter() - started):,.0f} rows/s")


if __name__ == "__main__":
    main()
