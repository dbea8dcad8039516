"""What programs give to TFDS besides names and splits."""

import sys

import numpy as np
import pytest

import headrace as hr


@pytest.fixture
def data(tmp_path):
    ds = hr.Dataset.range(30).map(lambda x: {"x": x, "y": x % 2})
    ds.write_tfds(tmp_path, "pairs", supervised_keys=("x", "y"))
    return tmp_path


def numbers(ds):
    return [int(x) for x, _ in ds]


def test_load_takes_all_arguments_of_tfds(data):
    ds, info = hr.tfds.load(
        "pairs",
        split=hr.tfds.Split.TRAIN,
        data_dir=data,
        as_supervised=True,
        with_info=True,
        shuffle_files=False,
        download=False,
        try_gcs=True,
        read_config=hr.tfds.ReadConfig(interleave_cycle_length=1),
        builder_kwargs={"version": "1.0.0"},
        download_and_prepare_kwargs={"download_config": hr.tfds.download.DownloadConfig(manual_dir="/none")},
        as_dataset_kwargs={"batch_size": None},
    )
    assert numbers(hr.tfds.as_numpy(ds)) == list(range(30))
    assert info.splits["train"].num_examples == 30
    hr.tfds.disable_progress_bar()


def test_a_dataset_that_is_not_there_is_looked_for_in_the_public_bucket(data, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["headrace.tfds.builder"], "PUBLIC_BUCKET", str(data))
    with pytest.raises(FileNotFoundError):
        hr.tfds.load("pairs", split="train", data_dir=tmp_path / "none")
    ds = hr.tfds.load("pairs", split="train", data_dir=tmp_path / "none", try_gcs=True, storage_options={})
    assert len(ds) == 30


def test_a_read_config_is_kept_or_refused(data):
    options = hr.tfds.ReadConfig(options=hr.Options(cpu_budget=1))
    assert hr.tfds.load("pairs", split="train", data_dir=data, read_config=options).options().cpu_budget == 1
    for wrong in ({"add_tfds_id": True}, {"input_context": object()}, {"interleave_cycle_length": 7}):
        with pytest.raises(ValueError, match="ReadConfig"):
            hr.tfds.load("pairs", split="train", data_dir=data, read_config=hr.tfds.ReadConfig(**wrong))


def test_rows_by_number_and_shares_of_processes(data):
    source = hr.tfds.data_source("pairs", split="train", data_dir=data)
    assert (len(source), source[7]["x"]) == (30, 7)
    builder = hr.tfds.builder("pairs", data_dir=data)
    assert isinstance(builder, hr.tfds.core.DatasetBuilder)
    assert builder.as_data_source()["train"][3]["x"] == 3
    builder.download_and_prepare(download_config=None)
    parts = [hr.tfds.split_for_jax_process("train", process_index=i, process_count=3) for i in range(3)]
    found = [numbers(hr.tfds.load("pairs", split=p, data_dir=data, as_supervised=True)) for p in parts]
    assert sorted(np.concatenate(found).tolist()) == list(range(30))
    assert list(hr.tfds.as_dataframe(hr.tfds.load("pairs", split="train", data_dir=data)).columns) == ["x", "y"]
    with pytest.raises(ValueError, match="this one is infinite"):
        hr.tfds.as_dataframe(hr.Dataset.counter())
