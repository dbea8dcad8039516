"""scikit-learn's handwritten digits in TFRecord shards, and the two datasets read from them that all examples use."""

import argparse
import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import headrace as hr

FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


def digits(folder=None):
    """Training data, shuffled and a little different in every epoch, and test data: float32[64] from 0 to 1, int64."""
    folder = folder or write_digits()
    train = read(folder / "train-*.tfrecord").shuffle(1000, seed=0).random_map(jittered, seed=0)
    return train, read(folder / "test-*.tfrecord")


def read(pattern):
    files = hr.Dataset.list_files(pattern, shuffle=False)
    return hr.TFRecordDataset(files, index=True).map(parse)  # the index knows how many there are


def parse(record):
    example = hr.io.parse_single_example(record, FEATURES)
    pixels = hr.io.decode_raw(example["image"], np.uint8, fixed_length=64)
    return pixels.astype(np.float32) / 16, example["label"]


def jittered(image, label, rng):
    return image + rng.normal(0, 0.05, 64).astype(np.float32), label


@cache
def write_digits():
    """Write the shards, unless they are there already; returns their folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the shards are kept (default: not at all)")
    folder = parser.parse_args().data
    if folder is None:
        folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, folder)
    found = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(found.data.astype(np.uint8), found.target, random_state=0)
    for name, images, labels in (("train", x_train, y_train), ("test", x_test, y_test)):
        if not list(folder.glob(f"{name}-*.tfrecord")):
            rows = hr.Dataset.from_tensor_slices((images, labels))
            rows.map(lambda x, y: {"image": x.tobytes(), "label": y}).write_tfrecord(folder / name, shards=4)
    return folder
