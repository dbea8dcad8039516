"""scikit-learn's handwritten digits as two datasets: what all examples train on."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import headrace as hr


def digits():
    """Training and test data: images float32[64] between 0 and 1, labels int64."""
    found = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(found.data, found.target, random_state=0)
    train = hr.Dataset.from_tensor_slices((x_train, y_train)).map(scale)
    test = hr.Dataset.from_tensor_slices((x_test, y_test)).map(scale)
    return train, test


def scale(image, label):
    return (image / 16.0).astype(np.float32), label
