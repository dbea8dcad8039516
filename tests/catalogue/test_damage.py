"""Directories that are not what they say: refused, with the file and what there is."""

import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import headrace as hr
from headrace.io.binary import bytes_column
from headrace.tfds.images import decode_pictures


@pytest.fixture
def folder(tmp_path):
    ds = hr.Dataset.range(40).map(lambda x: {"x": x, "name": str(x)})
    ds.write_tfds(tmp_path, "numbers", shards=4)
    return tmp_path / "numbers/1.0.0"


def change(path, edit):
    page = json.loads(path.read_text())
    edit(page)
    path.write_text(json.dumps(page))


def test_a_missing_shard(folder):
    (folder / "numbers-train.tfrecord-00002-of-00004").unlink()
    with pytest.raises(hr.StorageError, match=r"lacks numbers-train.tfrecord-00002-of-00004"):
        hr.tfds.builder_from_directory(folder).as_dataset("train")
    assert len(hr.tfds.builder_from_directory(folder).as_dataset("train[:20]")) == 20


def test_a_shard_of_another_length(folder):
    change(folder / "dataset_info.json", lambda page: page["splits"][0].update(shardLengths=[10, 10, 11, 10]))
    ds = hr.tfds.builder_from_directory(folder).as_dataset("train", order="file")
    with pytest.raises(hr.StorageError, match=r"00002-of-00004 has 10 rows, but dataset_info.json promises 11"):
        list(ds)


def test_a_shard_too_short_for_its_rows_is_refused_before_a_list_is_allocated(folder):
    change(folder / "dataset_info.json", lambda page: page["splits"][0].update(shardLengths=[10, 10, 2**31, 10]))
    with pytest.raises(hr.StorageError, match=r"00002-of-00004 has \d+ bytes, too few for the 2147483648 rows"):
        hr.tfds.builder_from_directory(folder).as_dataset("train")
    assert len(hr.tfds.builder_from_directory(folder).as_dataset("train[:20]")) == 20


def test_a_tampered_record(folder):
    path = folder / "numbers-train.tfrecord-00001-of-00004"
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(hr.HeadraceError, match=r"00001-of-00004"):
        list(hr.tfds.builder_from_directory(folder).as_dataset("train"))


def test_a_feature_of_an_unknown_class(folder):
    def edit(page):
        page["featuresDict"]["features"]["x"]["pythonClassName"] = "somewhere.Imag"

    change(folder / "features.json", edit)
    with pytest.raises(hr.StorageError, match=r"class 'somewhere.Imag' cannot be read: did you mean 'Image'"):
        hr.tfds.builder_from_directory(folder)


def test_a_directory_that_is_being_written(folder, tmp_path):
    with pytest.raises(hr.StorageError, match=r"being written"):
        shutil.copytree(folder, tmp_path / "numbers/2.0.0.incompleteABC123")
        (tmp_path / "numbers/2.0.0.incompleteABC123/dataset_info.json").unlink()
        hr.tfds.builder_from_directory(tmp_path / "numbers/2.0.0.incompleteABC123")
    assert str(hr.tfds.builder("numbers", data_dir=tmp_path).version) == "1.0.0"
    with pytest.raises(FileNotFoundError, match=r"no directory"):
        hr.tfds.builder_from_directory(tmp_path / "nowhere")
    (folder / "dataset_info.json").unlink()
    with pytest.raises(hr.StorageError, match=r"it has no dataset_info.json, but"):
        hr.tfds.builder_from_directory(folder)


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "x"}', '{"name": "x", "version": "1.0.0", "splits": [1]}'])
def test_an_info_that_makes_no_sense(folder, text):
    (folder / "dataset_info.json").write_text(text)
    with pytest.raises(hr.StorageError, match=r"dataset_info\.json is damaged"):
        hr.tfds.builder_from_directory(folder)


@pytest.mark.parametrize("text", ["{", "{}", '{"pythonClassName": "x.Image", "image": 3}', '{"tensor": {}}'])
def test_features_that_make_no_sense(folder, text):
    (folder / "features.json").write_text(text)
    with pytest.raises(hr.StorageError, match=r"features\.json"):
        hr.tfds.builder_from_directory(folder)


def test_a_format_without_a_reader(folder):
    change(folder / "dataset_info.json", lambda page: page.update(fileFormat="riegeli"))
    with pytest.raises(hr.StorageError, match=r"format 'riegeli'.*tfrecord, array_record, parquet"):
        hr.tfds.builder_from_directory(folder)


@pytest.mark.parametrize(
    "split",
    [
        "train[2]",
        "train[:]",
        "train[:76]",
        "train[:101%]",
        "train[:0shard]",
        "train[20:10]",
        "train[1:2:3]",
        "",
        "train[a:]",
        "all[:5]",
    ],
)
def test_splits_that_cannot_be_read(folder, split):
    with pytest.raises(ValueError, match=r"split|train"):
        hr.tfds.builder_from_directory(folder).as_dataset(split)


def test_nothing_of_tensorflow_protobuf_or_the_network_is_imported(folder):
    code = (
        "import sys, socket; socket.socket.connect = None; import headrace as hr; "
        f"print(len(list(hr.tfds.load('numbers', split='train', data_dir={str(folder.parents[1])!r})))); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, modules = done.stdout.splitlines()
    assert count == "40"
    loaded = {name.split(".")[0] for name in modules.split()}
    assert not {"tensorflow", "tensorflow_datasets", "sklearn", "cv2", "requests", "array_record"} & loaded
    assert "google.protobuf" not in modules.split()


def test_a_directory_behind_a_url(folder):
    import fsspec

    system = fsspec.filesystem("memory")
    system.put(str(folder.parent), "/store/numbers", recursive=True)
    ds = hr.tfds.load("numbers", split="train[5:]", data_dir="memory://store")
    assert [int(row["x"]) for row in ds] == list(range(5, 40))
    assert int(ds[7]["x"]) == 12
    assert sorted(int(row["x"]) for row in ds.shuffle(seed=1)) == list(range(5, 40))


def test_pictures_of_more_pixels_than_allowed(tmp_path):
    features = {
        "image": hr.tfds.features.Image(shape=(None, None, 3)),
        "known": hr.tfds.features.Image(shape=(6, 6, 3)),
    }
    sizes = [(3, 4), (6, 5), (2, 2)]
    rows = [{"image": np.zeros((*size, 3), np.uint8), "known": np.zeros((6, 6, 3), np.uint8)} for size in sizes]
    signature = {"image": hr.TensorSpec((None, None, 3), np.uint8), "known": hr.TensorSpec((6, 6, 3), np.uint8)}
    ds = hr.Dataset.from_generator(lambda: iter(rows), output_signature=signature)
    ds.write_tfds(tmp_path, "pictures", features=hr.tfds.features.FeaturesDict(features))
    for load in (hr.tfds.load, hr.load):
        made = load("pictures", split="train", data_dir=tmp_path, max_pixels=12)
        found = [row["image"].shape[:2] for row in made.ignore_errors()]
        assert sorted(found) == [(2, 2), (3, 4)]  # the size of the other is promised
        with pytest.raises(hr.HeadraceError, match=r"6 × 5 pixels, more than max_pixels=12"):
            list(made)
        assert len(list(load("pictures", split="train", data_dir=tmp_path, max_pixels=None))) == 3


def test_frames_count_together():
    from PIL import Image

    made = io.BytesIO()
    frames = [Image.new("RGB", (4, 5), (90 * i, 0, 0)) for i in range(3)]
    frames[0].save(made, "GIF", save_all=True, append_images=frames[1:])
    rows = bytes_column([made.getvalue()])
    shape, dtype = (None, 5, 4, 3), np.dtype(np.uint8)
    assert decode_pictures(rows, shape, dtype, 60).shape == (1, 3, 5, 4, 3)
    with pytest.raises(hr.HeadraceError, match=r"3 frames of 5 × 4 pixels, more than max_pixels=59"):
        decode_pictures(rows, shape, dtype, 59)
    assert decode_pictures(rows, (3, 5, 4, 3), dtype, 1).shape == (1, 3, 5, 4, 3)
