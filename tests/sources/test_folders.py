"""Folders whose sub-folders are classes."""

import numpy as np
import pytest
from tests.image.pictures import picture

import headrace as hr

SIZES = [(20, 30), (25, 17), (20, 31)]


@pytest.fixture
def photos(tmp_path):
    """Three classes, JPEGs and PNGs, one of them deeper down, and things that are no images."""
    for i in range(17):
        kind = ("cat", "ant", "dog")[i % 3]
        folder = tmp_path / kind / ("deep" if i == 4 else "")
        folder.mkdir(parents=True, exist_ok=True)
        image = picture(*SIZES[i % 3], seed=i)
        made = hr.image.encode_png(image) if i % 2 else hr.image.encode_jpeg(image)
        (folder / f"{i:02d}.{'png' if i % 2 else 'JPG'}").write_bytes(made)
    (tmp_path / "cat" / "notes.txt").write_text("nothing")
    (tmp_path / "cat" / ".hidden.png").write_bytes(b"nothing")
    (tmp_path / "readme.png").write_bytes(b"of no class")
    return tmp_path


def test_labels_count_the_folders_in_sorted_order(photos):
    ds = hr.Dataset.from_image_folder(photos)
    assert ds.class_names == ["ant", "cat", "dog"]
    assert len(ds) == 17
    labels = [int(label) for _, label in ds]
    assert labels == sorted(labels)
    assert np.bincount(labels).tolist() == [6, 6, 5]
    assert ds.element_spec == (hr.TensorSpec((None, None, 3), np.uint8), hr.TensorSpec((), np.int64))
    assert ds.map(lambda image, label: label).batch(4).class_names == ds.class_names
    image, _ = ds[0]
    np.testing.assert_array_equal(image, hr.image.decode_image((photos / "ant" / "01.png").read_bytes()))


def test_images_come_at_one_size(photos):
    ds = hr.Dataset.from_image_folder(photos, image_size=(12, 10))
    images, _ = next(iter(ds.batch(17)))
    assert images.shape == (17, 12, 10, 3)
    assert images.dtype == np.float32
    whole = hr.Dataset.from_image_folder(photos)
    for one, (image, _) in zip(images, whole, strict=True):
        np.testing.assert_array_equal(one, hr.image.resize(image, (12, 10)))


def test_class_names_choose_and_order_the_classes(photos):
    ds = hr.Dataset.from_image_folder(photos, class_names=["dog", "ant"])
    assert ds.class_names == ["dog", "ant"]
    assert np.bincount([int(label) for _, label in ds]).tolist() == [5, 6]
    with pytest.raises(ValueError, match="no folder for the class 'rat': did you mean 'cat'"):
        hr.Dataset.from_image_folder(photos, class_names=["rat"])


def test_without_labels_all_images_below_are_elements(photos):
    (photos / "readme.png").unlink()
    ds = hr.Dataset.from_image_folder(photos, labels=False)
    assert len(ds) == 17
    assert next(iter(ds)).ndim == 3
    with pytest.raises(AttributeError, match="class_names"):
        ds.class_names  # noqa: B018


def test_a_split_parts_the_files(photos):
    training, validation = hr.Dataset.from_image_folder(photos, (8, 8), validation_split=0.3, seed=7)
    assert (len(training), len(validation)) == (12, 5)
    assert training.class_names == validation.class_names
    again = hr.Dataset.from_image_folder(photos, (8, 8), validation_split=0.3, subset="validation", seed=7)
    seen = [x.tobytes() for x, _ in validation]
    assert [x.tobytes() for x, _ in again] == seen
    assert not set(seen) & {x.tobytes() for x, _ in training}
    other = hr.Dataset.from_image_folder(photos, (8, 8), validation_split=0.3, subset="validation", seed=8)
    assert [x.tobytes() for x, _ in other] != seen


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"validation_split": 1.5}, "between 0 and 1"),
        ({"subset": "training"}, "give both"),
        ({"validation_split": 0.2, "subset": "test"}, "'training', 'validation', 'both'"),
        ({"validation_split": 0.01}, "leaves one part without any"),
        ({"image_size": 7}, "a height and a width"),
    ],
)
def test_arguments_that_make_no_sense_are_told(photos, how, said):
    with pytest.raises(ValueError, match=said):
        hr.Dataset.from_image_folder(photos, **how)


def test_a_folder_that_is_none_or_empty_is_told(tmp_path):
    with pytest.raises(NotADirectoryError):
        hr.Dataset.from_image_folder(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"no files that end in \.bmp"):
        hr.Dataset.from_image_folder(tmp_path)


def test_a_bad_file_is_one_error_that_names_it(photos):
    (photos / "cat" / "00.JPG").write_bytes(b"\xff\xd8\xff broken")
    ds = hr.Dataset.from_image_folder(photos, image_size=(8, 8))
    with pytest.raises(hr.ElementError, match=r"cat/00\.JPG: a JPEG"):
        list(ds)
    assert len(list(ds.ignore_errors())) == 16
    (photos / "ant" / "01.png").unlink()
    with pytest.raises(hr.ElementError, match=r"ant/01\.png"):
        next(iter(ds))


def test_shuffling_and_resuming_are_exact(photos):
    ds = hr.Dataset.from_image_folder(photos, image_size=(8, 8)).shuffle(seed=3).batch(4)
    plain = list(ds)
    with hr.Dataset.from_image_folder(photos, image_size=(8, 8)).shuffle(seed=3).batch(4).iterator() as it:
        first = [next(it) for _ in range(2)]
        state = it.state()
    rest = list(hr.Dataset.from_image_folder(photos, image_size=(8, 8)).shuffle(seed=3).batch(4).iterator(state=state))
    for (a, x), (b, y) in zip(plain, [*first, *rest], strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(x, y)


def test_files_in_a_store_are_found_and_read():
    import fsspec

    memory = fsspec.filesystem("memory")
    for i, kind in enumerate(["b", "a", "b"]):
        memory.pipe_file(f"/pictures/{kind}/{i}.png", hr.image.encode_png(picture(5, 6, seed=i)))
    ds = hr.Dataset.from_image_folder("memory://pictures")
    assert ds.class_names == ["a", "b"]
    assert [int(label) for _, label in ds] == [0, 1, 1]


def test_texts_are_whole_files(tmp_path):
    for kind, text in [("good", "ja\nja"), ("bad", "nein"), ("bad", "oh")]:
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / f"{len(text)}.txt").write_text(text)
    ds = hr.Dataset.from_text_folder(tmp_path)
    assert list(ds) == [("oh", 0), ("nein", 0), ("ja\nja", 1)]
    assert ds.class_names == ["bad", "good"]
    assert list(hr.Dataset.from_text_folder(tmp_path, encoding=None, labels=False)) == [b"oh", b"nein", b"ja\nja"]
    (tmp_path / "bad" / "2.txt").write_bytes(b"\xff")
    with pytest.raises(hr.ElementError, match=r"2\.txt is not utf-8"):
        list(ds)


@pytest.mark.tensorflow
def test_the_split_is_that_of_keras(photos):
    pytest.importorskip("tensorflow")
    from keras.utils import image_dataset_from_directory

    (photos / "cat" / ".hidden.png").unlink()  # which Keras takes for an image
    for path in photos.glob("*/deep"):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    for subset in ("training", "validation"):
        how = {"validation_split": 0.3, "subset": subset, "seed": 11}
        theirs = image_dataset_from_directory(photos, image_size=(8, 8), batch_size=None, verbose=False, **how)
        ours = hr.Dataset.from_image_folder(photos, (8, 8), **how)
        assert theirs.class_names == ours.class_names
        labels = sorted(int(label) for _, label in theirs)
        assert labels == sorted(int(label) for _, label in ours)
        seen = {np.asarray(image).round(3).tobytes() for image, _ in theirs}
        assert seen == {image.round(3).tobytes() for image, _ in ours}


def test_a_folder_of_images_without_classes_says_how_to_read_it(tmp_path):
    (tmp_path / "a.png").write_bytes(hr.image.encode_png(picture(3, 4)))
    with pytest.raises(FileNotFoundError, match=r"has 1 such files.*labels=False"):
        hr.Dataset.from_image_folder(tmp_path)
    (image,) = hr.Dataset.from_image_folder(tmp_path, labels=False)
    assert image.shape == (3, 4, 3)
