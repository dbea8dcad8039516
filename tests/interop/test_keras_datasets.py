"""Datasets of folders and series with Keras's arguments: the same files, order, split and numbers."""

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for i in range(12):
        name = folder / ("cat" if i % 3 else "dog") / ("inner" if i % 4 == 0 else "") / f"{'az'[i % 2]}{i}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(hr.image.encode_png(rng.integers(0, 256, (5 + i, 7, 3), np.uint8)))
    (folder / "cat" / "notes.txt").write_text("no image")
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for i in range(10):
        name = folder / ("good" if i % 2 else "bad") / f"{i}.txt"
        name.parent.mkdir(exist_ok=True)
        name.write_bytes(f"text {i}".encode())
    return folder


def both(name, *args, **kwargs):
    theirs = getattr(tf.keras.utils, name)(*args, **kwargs, **({} if "array" in name else {"verbose": False}))
    return theirs, getattr(hr, name)(*args, **kwargs)


def assert_same(theirs, ours):
    if isinstance(theirs, list):
        for a, b in zip(theirs, ours, strict=True):
            assert_same(a, b)
        return
    if getattr(theirs, "class_names", None):
        assert ours.class_names == theirs.class_names
    if hasattr(theirs, "file_paths"):
        assert ours.file_paths == theirs.file_paths
    for want, got in zip(theirs.as_numpy_iterator(), ours, strict=True):
        for a, b in zip(
            want if isinstance(want, tuple) else [want], got if isinstance(got, tuple) else [got], strict=True
        ):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"label_mode": "categorical"},
        {"label_mode": "binary", "batch_size": None},
        {"labels": None, "batch_size": 5},
        {"labels": list(range(12))},
        {"class_names": ["dog", "cat"], "color_mode": "rgba"},
        {"validation_split": 0.3, "subset": "validation"},
        {"validation_split": 0.3, "subset": "both", "seed": 3},
        {"interpolation": "nearest", "data_format": "channels_first"},
        {"crop_to_aspect_ratio": True},
        {"pad_to_aspect_ratio": True},
    ],
    ids=str,
)
def test_images(images, how):
    assert_same(*both("image_dataset_from_directory", str(images), image_size=(4, 6), shuffle=False, **how))


@pytest.mark.parametrize(
    "how", [{}, {"max_length": 3}, {"validation_split": 0.4, "subset": "training"}, {"label_mode": None}], ids=str
)
def test_texts(texts, how):
    assert_same(*both("text_dataset_from_directory", str(texts), shuffle=False, **how))


@pytest.mark.parametrize("subset", ["training", "validation"])
def test_a_seed_chooses_the_same_files_for_a_split(texts, subset):
    how = {"seed": 7, "validation_split": 0.3, "subset": subset, "batch_size": None}
    theirs, ours = both("text_dataset_from_directory", str(texts), **how)
    assert sorted((t, int(y)) for t, y in ours) == sorted((t, int(y)) for t, y in theirs.as_numpy_iterator())


SERIES = np.arange(40, dtype=np.float32).reshape(20, 2)


@pytest.mark.parametrize(
    "how",
    [
        {"sequence_length": 3},
        {"sequence_length": 4, "sequence_stride": 2, "sampling_rate": 3, "batch_size": 2},
        {"sequence_length": 3, "start_index": 2, "end_index": 15},
        {"sequence_length": 3, "batch_size": None},
    ],
    ids=str,
)
def test_series(how):
    assert_same(*both("timeseries_dataset_from_array", SERIES, np.arange(20), **how))
    assert_same(*both("timeseries_dataset_from_array", SERIES, None, **how))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"label_mode": "other"}, "label_mode"),
        ({"validation_split": 0.5, "subset": "training"}, "seed"),
        ({"validation_split": 0.5, "shuffle": False}, "subset"),
        ({"class_names": ["bad", "none"]}, "class 'none'"),
        ({"labels": [1]}, "1 labels for 10 files"),
    ],
)
def test_what_does_not_fit_is_refused(texts, how, said):
    with pytest.raises(ValueError, match=said):
        hr.text_dataset_from_directory(texts, **how)
