"""Whole files by path or URL: read_file, write_file and gfile."""

import fsspec
import numpy as np
import pytest

import headrace as hr

gfile = hr.io.gfile


@pytest.fixture(params=["path", "url"])
def home(request, tmp_path):
    yield str(tmp_path) if request.param == "path" else "memory://home"
    fsspec.filesystem("memory").store.clear()


def test_files_are_written_read_and_found(home):
    hr.io.write_file(f"{home}/a/one.txt", "text")
    hr.io.write_file(f"{home}/two.bin", b"\xff")
    assert hr.io.read_file(f"{home}/a/one.txt") == b"text"
    names = hr.io.matching_files([f"{home}/*.bin", f"{home}/a/*"])
    assert [name.rpartition("home/")[2].rpartition("/")[2] for name in names] == ["one.txt", "two.bin"]
    ds = hr.Dataset.from_tensor_slices(names).map(hr.io.read_file)
    assert list(ds) == [b"text", b"\xff"]
    assert ds.element_spec == hr.TensorSpec([], bytes)


def test_gfile_has_the_habits_of_tensorflows(home):
    gfile.makedirs(f"{home}/a/b")
    with gfile.GFile(f"{home}/a/x.txt", "w") as f:
        f.write("one\ntwo\n")
    with gfile.GFile(f"{home}/a/x.txt") as f:
        assert [line.strip() for line in f] == ["one", "two"]
    with gfile.GFile(f"{home}/a/x.txt", "rb") as f:
        assert (f.read(3), f.size()) == (b"one", 8)
    assert gfile.exists(f"{home}/a/x.txt") and not gfile.exists(f"{home}/none")
    assert gfile.isdir(f"{home}/a") and not gfile.isdir(f"{home}/a/x.txt")
    assert gfile.stat(f"{home}/a/x.txt").length == 8
    gfile.copy(f"{home}/a/x.txt", f"{home}/a/y.txt")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        gfile.copy(f"{home}/a/x.txt", f"{home}/a/y.txt")
    gfile.rename(f"{home}/a/y.txt", f"{home}/a/z.txt")
    assert [n for n in gfile.listdir(f"{home}/a") if n != "b"] == ["x.txt", "z.txt"]
    assert [n.rpartition("/")[2] for n in gfile.glob(f"{home}/a/*.txt")] == ["x.txt", "z.txt"]
    assert any(files == ["x.txt", "z.txt"] or sorted(files) == ["x.txt", "z.txt"] for _, _, files in gfile.walk(home))
    gfile.remove(f"{home}/a/z.txt")
    with pytest.raises(IsADirectoryError, match="rmtree"):
        gfile.remove(f"{home}/a")
    gfile.rmtree(f"{home}/a")
    assert not gfile.exists(f"{home}/a/x.txt")
    assert gfile.join("a", "b") == "a/b"


def test_a_file_that_is_missing_is_the_error_of_its_element(tmp_path):
    ds = hr.Dataset.from_tensor_slices([str(tmp_path / "none")]).map(hr.io.read_file)
    with pytest.raises(hr.ElementError, match="FileNotFoundError"):
        list(ds)


def test_examples_have_protobufs_names():
    record = hr.io.Example({"x": 1}).SerializeToString()
    assert hr.io.Example.FromString(record)["x"].tolist() == [1]


def test_measures_of_images():
    image = np.arange(12 * 12 * 3, dtype=np.uint8).reshape(12, 12, 3)
    assert hr.image.ssim(image, image, 255) == 1
    assert hr.image.psnr(image, image, 255) == np.inf
    assert hr.io.extract_jpeg_shape(hr.image.encode_jpeg(image)).tolist() == [12, 12, 3]
    assert hr.io.is_jpeg(hr.image.encode_jpeg(image)) and not hr.io.is_jpeg(b"")
    with pytest.raises(ValueError, match="smaller than the filter"):
        hr.image.ssim(image[:5], image[:5], 255)


def test_stateless_draws_depend_on_the_seed_alone():
    image = np.arange(6 * 6 * 3, dtype=np.uint8).reshape(6, 6, 3)
    for name, args in {"flip_left_right": (), "flip_up_down": (), "crop": ((2, 2, 3),), "brightness": (0.2,)}.items():
        draw = getattr(hr.image, f"stateless_random_{name}")
        made = [draw(image, *args, seed=(1, n)) for n in range(20)]
        again = [draw(image, *args, seed=np.array([1, n])) for n in range(20)]
        assert all(np.array_equal(a, b) for a, b in zip(made, again, strict=True))
        assert len({a.tobytes() for a in made}) > 1
    ds = hr.Dataset.range(3).map(lambda i: hr.image.stateless_random_flip_left_right(image, seed=(i, 1)))
    assert all(np.array_equal(a, hr.image.stateless_random_flip_left_right(image, (i, 1))) for i, a in enumerate(ds))


def test_wrong_names_of_arguments_are_answered():
    with pytest.raises(TypeError, match=r"'file_name': it is filename="):
        hr.Dataset.range(2).cache(file_name="x")
    with pytest.raises(TypeError, match="categorical_column_with_vocabulary_file takes a file"):
        hr.feature_column.categorical_column_with_vocabulary_list("a", vocabulary_file="x")
