"""Directories that real TFDS prepared, read here: the same rows in the same order, to the last bit."""

import json
import os
import shutil
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.testing import check_transformation

tfds = pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets has no wheel for this Python")
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),  # TFDS's own
]


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    from tests.interop.tfds_toys import prepare_all

    folder = tmp_path_factory.mktemp("tfds")
    prepare_all(folder)
    return folder


def theirs(folder, split="train", **options):
    """What TFDS gives."""
    return list(tfds.as_numpy(tfds.builder_from_directory(str(folder)).as_dataset(split=split, **options)))


def ours(folder, split="train", **options):
    return hr.tfds.builder_from_directory(folder).as_dataset(split=split, **options)


def assert_equal(got, expected, path="element"):
    """The same structure, dtypes, shapes and bits."""
    if isinstance(expected, dict):
        assert set(got) == set(expected), path
        for key in expected:
            assert_equal(got[key], expected[key], f"{path}/{key}")
    elif isinstance(expected, tuple):
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_equal(a, b, f"{path}[{number}]")
    elif hasattr(expected, "to_list"):
        assert got.to_list() == expected.to_list(), path
        assert got.dtype == expected.flat_values.dtype, path
    elif isinstance(got, hr.Dataset):
        got, expected = list(got), list(expected)
        assert len(got) == len(expected), path
        for a, b in zip(got, expected, strict=True):
            assert_equal(a, b, f"{path}[]")
    elif isinstance(expected, bytes):
        assert got == expected, path
    else:
        got, expected = np.asarray(got), np.asarray(expected)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), path
        assert np.array_equal(got, expected, equal_nan=expected.dtype.kind == "f"), path


def numbers(rows):
    return [int(row["i"]) for row in rows]


def test_every_kind_of_feature(toys):
    ds = ours(toys / "everything/1.0.0")
    expected = theirs(toys / "everything/1.0.0")
    assert len(ds) == len(expected) == 37
    for got, wanted in zip(ds, expected, strict=True):
        assert_equal(got, wanted)
    assert_equal(ds[11], expected[11])
    assert_equal(ours(toys / "everything/1.0.0", order="file")[3], expected[3])


def test_the_specs_of_every_kind_of_feature(toys):
    ds = ours(toys / "everything/1.0.0")
    for row in ds.take(5):
        for name, spec in ds.element_spec.items():
            if isinstance(spec, hr.TensorSpec) and isinstance(row[name], np.ndarray):
                assert spec.dtype == row[name].dtype or spec.dtype.kind == "S", name
                assert all(n in (None, m) for n, m in zip(spec.shape, row[name].shape, strict=True)), name


def test_features_in_the_form_that_was_written_before(toys, tmp_path):
    folder = shutil.copytree(toys / "everything/1.0.0", tmp_path / "old")
    features = tfds.builder_from_directory(str(folder)).info.features
    (folder / "features.json").write_text(json.dumps(features.to_json()))
    said = json.loads((folder / "dataset_info.json").read_text())
    for split in said["splits"]:
        split["shard_lengths"] = [int(n) for n in split.pop("shardLengths")]
        split.pop("filepathTemplate")
    said["supervised_keys"] = {"input": "png", "output": "label"}
    said.pop("supervisedKeys")
    said.pop("fileFormat")
    said["a_field_of_tomorrow"] = 1
    (folder / "dataset_info.json").write_text(json.dumps(said))
    info = hr.tfds.builder_from_directory(folder).info
    assert repr(info.features) == repr(hr.tfds.builder_from_directory(toys / "everything/1.0.0").info.features)
    assert info.supervised_keys == ("png", "label")
    assert len(ours(folder, as_supervised=True)[0]) == 2


def test_what_is_known_of_a_dataset(toys):
    info = hr.tfds.builder("everything", data_dir=toys).info
    real = tfds.builder_from_directory(str(toys / "everything/1.0.0")).info
    assert info.features["label"].names == real.features["label"].names == ["ant", "bee", "cat"]
    assert (info.description, info.citation, info.homepage) == (real.description, real.citation, real.homepage)
    assert info.splits["train"].num_examples == 37
    assert info.splits["train[:50%]"].num_examples == real.splits["train[:50%]"].num_examples
    assert info.dataset_size == real.dataset_size
    assert str(info.version) == "1.0.0"


@pytest.mark.parametrize(
    "name", ["numbers/1.2.0", "ordered/1.0.0", "hundred/1.0.0", "hollow/1.0.0", "configured/few/1.0.0"]
)
def test_the_order_of_rows(toys, name, run):
    assert numbers(run(ours(toys / name))) == numbers(theirs(toys / name))


@pytest.mark.parametrize(
    "split", ["train+test", "test+train[10:40]", "all", "train[-1shard:]+train[:5]", "train[:9]+train[3:20]"]
)
def test_the_order_of_rows_of_several_parts(toys, split, run):
    assert numbers(run(ours(toys / "numbers/1.2.0", split))) == numbers(theirs(toys / "numbers/1.2.0", split))


@pytest.mark.parametrize("form", ["array_record", "parquet"])
def test_other_formats_of_files(toys, form, run):
    if form == "array_record":
        pytest.importorskip("array_record", reason="array_record has no wheel for this platform")
    folder = toys / "formats" / form / "numbers/1.2.0"
    if form == "array_record":
        expected = numbers(tfds.builder_from_directory(str(folder)).as_data_source(split="train[5:60]"))
    else:
        expected = numbers(theirs(folder, "train[5:60]"))
    ds = ours(folder, "train[5:60]")
    assert numbers(run(ds)) == expected
    assert int(ds[20]["i"]) == expected[20]


def test_the_order_of_files(toys):
    path = toys / "numbers/1.2.0"
    ordered = numbers(ours(path, order="file"))
    assert numbers(ours(path, "train[:30]", order="file")) == ordered[:30]
    assert sorted(numbers(theirs(path, "train[:30]"))) == sorted(ordered[:30])


def test_numbers_and_states_in_both_orders(toys):
    for order in ("tfds", "file"):
        ds = ours(toys / "hundred/1.0.0", "train[100:1500]", order=order)
        rows = numbers(ds)
        assert [int(ds[i]["i"]) for i in (0, 7, -1)] == [rows[i] for i in (0, 7, -1)]
        assert sorted(numbers(ds.shuffle(seed=1))) == sorted(rows)
        assert numbers(ds.shuffle(seed=1)) != rows
        check_transformation(ours(toys / "numbers/1.2.0", "train[3:40]", order=order))


def test_files_in_random_order_are_resumed_exactly(toys):
    def make():
        return ours(toys / "numbers/1.2.0", shuffle_files=True, seed=4)

    assert sorted(numbers(make())) == list(range(75))
    assert numbers(make()) == numbers(make())
    again = make()
    first = numbers(again)
    assert len({tuple(first), *(tuple(numbers(again)) for _ in range(5))}) > 1
    with make().iterator() as it:
        for _ in range(20):
            next(it)
        state = it.state()
        rest = numbers(it)
    assert numbers(make().iterator(state=state)) == rest
    with pytest.raises(ValueError, match="order of its own"):
        ours(toys / "ordered/1.0.0", shuffle_files=True)


def test_supervised_pairs_batches_and_several_splits(toys):
    folder = toys / "numbers/1.2.0"
    for got, expected in zip(ours(folder, as_supervised=True), theirs(folder, as_supervised=True), strict=True):
        assert_equal(got, expected)
    got, expected = ours(folder, batch_size=8), theirs(folder, batch_size=8)
    assert [b["i"].tolist() for b in got] == [b["i"].tolist() for b in expected]
    whole = ours(folder, "test", batch_size=-1)
    assert whole["i"].shape == (20,)
    assert set(hr.tfds.load("numbers", data_dir=toys)) == {"train", "test"}
    first, second = hr.tfds.load("numbers", split=["train[:10]", "test"], data_dir=toys)
    assert (len(first), len(second)) == (10, 20)
    ds, info = hr.tfds.load("numbers:1.2.0", split="train", data_dir=toys, with_info=True)
    assert len(ds) == info.splits["train"].num_examples


def test_batches_of_rows_that_differ_in_size_are_filled_up(toys):
    only = {"numbers": True, "strings": True, "i": True}
    got = ours(toys / "everything/1.0.0", batch_size=5, decoders=hr.tfds.decode.PartialDecoding(only))
    expected = theirs(toys / "everything/1.0.0", batch_size=5, decoders=tfds.decode.PartialDecoding(only))
    for a, b in zip(got, expected, strict=True):
        assert_equal(a, b)


def test_what_is_not_decoded(toys):
    folder = toys / "everything/1.0.0"
    skipped = {"jpeg": tfds.decode.SkipDecoding(), "sizes": tfds.decode.SkipDecoding()}
    ours_skipped = {"jpeg": hr.tfds.decode.SkipDecoding(), "sizes": hr.tfds.decode.SkipDecoding()}
    part = {"jpeg": True, "sizes": True, "boxes": {"name"}, "inner": {"deep": {"x": True}}}
    got = ours(folder, decoders=hr.tfds.decode.PartialDecoding(part, ours_skipped))
    expected = theirs(folder, decoders=tfds.decode.PartialDecoding(part, skipped))
    for a, b in zip(got, expected, strict=True):
        assert_equal(a, b)

    @hr.tfds.decode.make_decoder
    def size_of(stored, feature, more):
        return len(stored) + more

    sizes = ours(folder, decoders={"jpeg": size_of(1)})
    assert [int(row["jpeg"]) for row in sizes.take(3)] == [len(row["jpeg"]) + 1 for row in got.take(3)]


@pytest.mark.parametrize(
    "name",
    [
        "numbers",
        "numbers:1.*.*",
        "numbers:*.0.*",
        "numbers:1.2.*",
        "Numbers:1.0.0",
        "configured",
        "configured/many",
        "configured/many:1.*.*",
    ],
)
def test_names_and_versions(toys, name):
    name, _, version = name.partition(":")
    name, _, config = name.partition("/")
    real = tfds.core.read_only_builder.builder_from_files(
        tfds.core.naming.camelcase_to_snakecase(name), config=config or None, version=version or None, data_dir=toys
    )
    whole = name + (f"/{config}" if config else "") + (f":{version}" if version else "")
    assert hr.tfds.builder(whole, data_dir=toys).data_path == str(real.data_dir)


def test_names_that_are_not_there(toys):
    with pytest.raises(FileNotFoundError, match="did you mean 'numbers'"):
        hr.tfds.builder("number", data_dir=toys)
    with pytest.raises(
        ValueError, match=r"no version 9\.\*\.\* of numbers: there are 1\.0\.0, 1\.2\.0, 1\.10\.0, 2\.0\.1"
    ):
        hr.tfds.builder("numbers:9.*.*", data_dir=toys)
    with pytest.raises(ValueError, match="three numbers"):
        hr.tfds.builder("numbers:1.0", data_dir=toys)
    with pytest.raises(ValueError, match="no config 'man': did you mean 'many'"):
        hr.tfds.builder("configured/man", data_dir=toys)
    with pytest.raises(ValueError, match="no split 'trian': did you mean 'train'"):
        hr.tfds.load("numbers", split="trian", data_dir=toys)
    assert hr.tfds.list_builders(data_dir=toys) == [
        "configured",
        "everything",
        "hollow",
        "hundred",
        "numbers",
        "ordered",
    ]


BOUNDS = st.one_of(st.none(), st.integers(-80, 80))


@st.composite
def parts(draw):
    unit = draw(st.sampled_from(["", "%", "shard"]))
    first, last = draw(BOUNDS), draw(BOUNDS)
    name = draw(st.sampled_from(["train", "test"]))
    if first is None and last is None:
        return name
    return f"{name}[{'' if first is None else f'{first}{unit}'}:{'' if last is None else f'{last}{unit}'}]"


@pytest.fixture(scope="module")
def both(toys):
    folder = toys / "numbers/1.2.0"
    return hr.tfds.builder_from_directory(folder).info, tfds.builder_from_directory(str(folder)).info


@pytest.fixture(scope="module")
def hundred(toys):
    folder = toys / "hundred/1.0.0"
    return hr.tfds.builder_from_directory(folder).info, tfds.builder_from_directory(str(folder)).info


def rows_of(instructions):
    return [(Path(f.filename).name, f.skip, f.take) for f in instructions if f.take]


def answer(make):
    try:
        return make()
    except (ValueError, AssertionError, NotImplementedError):
        return None


@settings(deadline=None, max_examples=100)
@given(st.lists(parts(), min_size=1, max_size=3).map("+".join))
def test_random_splits(both, split):
    mine, real = both
    expected = answer(lambda: sorted(rows_of(real.splits[split].file_instructions)))
    got = answer(lambda: sorted(our_rows(mine, split)))
    if got != expected:  # only if TFDS takes rows that were not requested
        assert got is None, split
        assert any(backwards(part, mine) for part in split.split("+")), split


def our_rows(info, split):
    from headrace.tfds.reading import pieces_of

    pieces = pieces_of(info, split)
    begins = np.cumsum([0, *pieces.lengths])
    found = []
    for run in pieces.runs:
        file = int(np.searchsorted(begins, run.first, side="right")) - 1
        found.append((Path(pieces.paths[file]).name, run.first - int(begins[file]), run.rows))
    return found


def backwards(part, info):
    """Whether a part ends before it begins, or at shard 0, or further before the first shard than there are shards."""
    if "[" not in part:
        return False
    name, _, bounds = part[:-1].partition("[")
    first, _, last = bounds.replace("%", "").replace("shard", "").partition(":")
    if "shard" in part:
        return (
            last == "0"
            or any(int(n or 0) < -info.splits[name].num_shards for n in (first, last))
            or _ends_first(part, info)
        )
    return _ends_first(part, info)


def _ends_first(part, info):
    from headrace.tfds.splits import as_split

    try:
        as_split(part).ranges(info.splits.lengths)
    except ValueError as error:
        return "before it begins" in str(error)
    return False


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 9), st.booleans(), parts())
def test_even_splits(both, n, drop, part):
    mine, real = both
    for a, b in zip(
        hr.tfds.even_splits(part, n, drop_remainder=drop), tfds.even_splits(part, n, drop_remainder=drop), strict=True
    ):
        expected = answer(lambda b=b: rows_of(real.splits[b].file_instructions))
        got = answer(lambda a=a: our_rows(mine, a))
        assert got == expected or (got is None and backwards(part, mine)), part


@settings(deadline=None, max_examples=100)
@given(BOUNDS, BOUNDS, st.sampled_from(["abs", "%", "shard"]), st.sampled_from(["closest", "pct1_dropremainder"]))
def test_read_instructions(hundred, first, last, unit, rounding):
    mine, real = hundred
    arguments = {"from_": first, "to": last, "unit": unit, "rounding": rounding}
    expected = answer(lambda: rows_of(real.splits[tfds.core.ReadInstruction("train", **arguments)].file_instructions))
    got = answer(lambda: our_rows(mine, hr.tfds.ReadInstruction("train", **arguments)))
    if got != expected:
        assert got is None


@pytest.mark.parametrize("form", ["tfrecord", "parquet", "array_record"])
def test_tfds_reads_what_is_written_here(toys, tmp_path, form):
    from headrace.tfds.staging import keyed
    from headrace.tfds.writing import DatasetPlan, write_dataset
    from tests.interop.tfds_toys import example

    if form == "array_record":
        pytest.importorskip("array_record", reason="array_record has no wheel for this platform")

    class Rows:
        def identity(self):
            return "rows"

        def rows(self, skip):
            return 0, keyed(((f"key{i}", example(i)) for i in range(37)), "")

    info = hr.tfds.builder_from_directory(toys / "everything/1.0.0").info
    plan = DatasetPlan(
        "everything", info.version, info.features, file_format=form, supervised_keys=("png", ("label", {"i": "i"})),
        description="All.", release_notes={"1.0.0": "First."}, shards=1 if form == "tfrecord" else 2,
    )  # fmt: skip
    folder = write_dataset(plan, tmp_path, {"train": [Rows()]})
    real = tfds.builder_from_directory(str(folder))
    assert (real.info.description, real.info.release_notes) == ("All.", {"1.0.0": "First."})
    assert real.info.features["label"].names == ["ant", "bee", "cat"]
    mine = ours(folder)
    assert sorted(int(row["i"]) for row in mine) == list(range(37))
    if form == "array_record":  # TFDS reads it as a source of data, whose decoders are NumPy's and differ in places
        same = ("i", "label", "text", "png", "alpha", "deep")
        for got, again in zip(real.as_data_source("train"), mine, strict=True):
            assert_equal({k: again[k] for k in same if k in again}, {k: got[k] for k in same if k in again})
        return
    if form == "parquet":
        for got, again in zip(theirs(folder), mine, strict=True):
            assert_equal(
                {k: v for k, v in again.items() if k not in ("steps", "counts")},
                {k: v for k, v in got.items() if k not in ("steps", "counts")},
            )
        return
    expected = theirs(toys / "everything/1.0.0")
    for got, again, wanted in zip(theirs(folder), mine, expected, strict=True):
        assert_equal(again, wanted)
        assert_equal(
            {k: v for k, v in again.items() if k not in ("steps", "counts")},
            {k: v for k, v in got.items() if k not in ("steps", "counts")},
        )
    assert len(theirs(folder, as_supervised=True)[0]) == 2


def test_a_pipeline_written_here_keeps_its_order_in_tfds(tmp_path):
    ds = hr.Dataset.range(100).map(lambda x: {"x": x, "sizes": np.arange(x % 4), "exact": x / 3})
    folder = ds.write_tfds(tmp_path, "pipeline", shards=3, others={"test": ds.take(5)})
    assert [int(row["x"]) for row in theirs(folder)] == list(range(100))
    for got, expected in zip(ours(folder), theirs(folder), strict=True):
        assert_equal(got, expected)
