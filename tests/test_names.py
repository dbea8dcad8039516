"""Missing names come with a suggestion."""

import copy
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import Literal, get_origin

import pytest

import headrace as hr
from headrace.names import GUESSES, THE_SAME

D = hr.Dataset


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (lambda: hr.data.Dataset, "hr.Dataset, not hr.data.Dataset"),
        (lambda: hr.TextlineDataset, "did you mean hr.TextLineDataset?"),
        (lambda: hr.range, "it is hr.Dataset.range"),
        (lambda: hr.parse_example, "it is hr.io.parse_example"),
        (lambda: hr.nothing_like_it, "dir(hr) shows what there is"),
        (lambda: hr.experimental.save, "it is hr.Dataset.save here"),
        (lambda: hr.experimental.make_csv_dataset, "from_csv"),
        (lambda: hr.Dataset.from_tensor_slice, "did you mean hr.Dataset.from_tensor_slices?"),
        (lambda: D.range(3).describe, "it is ds.statistics()"),
        (lambda: hr.Dataset.from_parquet, "it is hr.ParquetDataset"),
        (lambda: D.range(3).suffle, "did you mean hr.Dataset.shuffle?"),
        (lambda: D.range(3).head, "ds.take(n)"),
        (lambda: D.range(3).TextLineDataset, "it is hr.TextLineDataset"),
        (lambda: hr.io.FixedLengthFeature, "did you mean hr.io.FixedLenFeature?"),
        (lambda: hr.io.decode_proto, "protobuf"),
        (lambda: hr.image.resise, "did you mean hr.image.resize?"),
        (lambda: hr.image.sobel_edges, "cv2.Sobel"),
        (lambda: hr.text.as_string, "str(x)"),
        (lambda: hr.text.lowr, "did you mean hr.text.lower?"),
        (lambda: hr.text.decode_jpeg, "it is hr.image.decode_jpeg"),
        (lambda: hr.feature_column.sequence_numeric_column, "sequence columns are not supported"),
        (lambda: hr.feature_column.numeric_colum, "did you mean hr.feature_column.numeric_column?"),
        (lambda: hr.tfds.ImageFolder, "from_image_folder"),
        (lambda: hr.tfds.core.GeneratorBasedBuilder, "hr.catalogue.DatasetBuilder"),
        (lambda: hr.preprocessing.Hashin, "did you mean hr.preprocessing.Hashing?"),
        (lambda: hr.tfds.lod, "did you mean hr.tfds.load?"),
        (lambda: hr.Counter, "hr.experimental.Counter"),
        (lambda: hr.cast, "astype"),
        (lambda: hr.float32, "np.float32"),
        (lambda: hr.text.WordpieceTokenizer, "hr.text.Tokenizer"),
        (lambda: hr.image.yiq_to_rgb, "cv2.cvtColor"),
        (lambda: hr.io.tf_record_iterator, "hr.TFRecordDataset"),
        (lambda: hr.DataLoader, "to_torch()"),
        (lambda: hr.random_split, "ds.split(0.8, seed=0)"),
        (lambda: D.range(3).random_split, "ds.split("),
        (lambda: D.range(3).train_test_split, "ds.split(0.8"),
        (lambda: D.range(3).set_epoch, "each iter(ds) is the next epoch"),
        (lambda: D.range(3).state, "it.state()"),
    ],
)
def test_a_missing_name_is_answered(look, said):
    if said == "from_csv" and "make_csv_dataset" in hr.__all__:
        pytest.skip("it is here")
    with pytest.raises(AttributeError) as caught:
        look()
    assert said in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_names_that_mean_the_same_work_under_experimental():
    assert hr.experimental.AUTOTUNE is hr.AUTOTUNE
    assert hr.experimental.CsvDataset is hr.CsvDataset
    assert "CsvDataset" in dir(hr.experimental)


def test_guesses_are_not_names_by_now():
    for path in GUESSES:
        home, _, name = path.rpartition(".")
        assert not hasattr(reduce(getattr, home.split("."), hr) if home else hr, name), path


def test_the_same_things_under_other_names():
    assert hr.strings is hr.text
    assert hr.io.decode_jpeg is hr.image.decode_jpeg
    for path, target in THE_SAME.items():
        assert reduce(getattr, path.split("."), hr) is reduce(getattr, target.split("."), hr), path


def test_completion_shows_public_names_only():
    assert {n for n in dir(hr) if not n.startswith("__")} == set(hr.__all__)
    for home in (hr.io, hr.image):
        assert {n for n in dir(home) if not n.startswith("__")} == set(home.__all__)


def test_all_that_is_public_is_there():
    for home in (hr, hr.io, hr.image):
        assert all(hasattr(home, name) for name in home.__all__)


def test_a_dataset_is_copied_pickled_and_asked_as_any_object():
    ds = D.range(5).batch(2)
    for same in (copy.copy(ds), copy.deepcopy(ds), pickle.loads(pickle.dumps(ds))):
        assert [b.tolist() for b in same] == [b.tolist() for b in ds]
    assert not hasattr(ds, "__array__")
    assert not hasattr(ds, "shape")
    assert isinstance(hr.Dataset.range(1), hr.Dataset)


def test_a_type_checker_still_finds_misspellings(tmp_path):
    code = "import headrace as hr\nhr.Dataset.range(3).suffle(2)\nhr.TextlineDataset\nhr.Options().determinstic\n"
    code += 'hr.Dataset.range(3).map(abs, mode="fast")\n'
    (tmp_path / "user.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", str(tmp_path / "user.py")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No module named mypy" in done.stderr:
        pytest.skip("mypy is not installed")
    assert [
        line.split(":")[1] for line in done.stdout.splitlines() if "attr-defined" in line or "arg-type" in line
    ] == ["2", "3", "4", "5"], done.stdout


@pytest.mark.parametrize(
    ("function", "parameter"),
    [(D.map, "mode"), (D.filter, "mode"), (D.random_map, "mode"), (D.prefetch, "mode"), (hr.Options, "on_change")],
)
def test_modes_have_types_that_say_which_there_are(function, parameter):
    module = importlib.import_module(function.__module__)
    annotation = inspect.signature(function).parameters[parameter].annotation
    kinds = [kind for name in annotation.split(" | ") if get_origin(kind := getattr(module, name, None)) is Literal]
    assert kinds or "Literal" in annotation


def test_the_code_of_the_porting_guide_runs():
    page = (Path(__file__).parents[1] / "docs/porting.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(block, names)
