"""docs/stores.md runs against a store on loopback, and writers reach stores as readers do."""

import re
from pathlib import Path

import pytest

import headrace as hr
from headrace.remote import transport

PAGE = (Path(__file__).parents[2] / "docs/stores.md").read_text()
D = hr.Dataset


def test_the_page_runs(s3, tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    line = next(line for line in code.splitlines() if line.startswith("store = "))
    code = code.replace(line, f"store = {s3.options!r}")
    code = code.replace("s3://bucket", s3.prefix).replace("/fast/disk/cache", str(tmp_path / "cache"))
    names = {}
    exec(compile(code, "docs/stores.md", "exec"), names)
    assert sorted(int(row["square"]) for row in names["ds"]) == [i * i for i in range(1000)]
    assert any((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("name", ["write_parquet", "write_tfrecord", "write_webdataset"])
def test_a_writer_takes_options_of_its_own_and_those_of_the_dataset(s3, name):
    rows = D.range(6).map(lambda i: {"__key__": str(i), "cls": i})
    own = getattr(rows, name)(f"{s3.prefix}/own", storage_options=s3.options)
    pipeline = rows.with_options(hr.Options(storage_options={"s3": s3.options}))
    through = getattr(pipeline, name)(f"{s3.prefix}/through")
    assert [path.rsplit("/", 1)[1].replace("own", "through") for path in own] == [
        path.rsplit("/", 1)[1] for path in through
    ]
    assert own[0].startswith(s3.prefix)


def test_workers_of_a_cluster_write_with_the_same_options(s3):
    rows = D.range(6).map(lambda i: {"id": i})
    with hr.cluster.local(1) as workers:
        files = rows.write_parquet(f"{s3.prefix}/made", shards=2, cluster=workers, storage_options=s3.options)
    ds = hr.ParquetDataset(files, storage_options=s3.options)
    assert [int(row["id"]) for row in ds] == list(range(6))


def test_a_look_up_that_fails_says_where_options_belong(s3, monkeypatch):
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "example")
    monkeypatch.setattr(transport.ALONE, "retries", 0)
    with pytest.raises((OSError, hr.TransportError)) as raised:
        hr.ParquetDataset(f"{s3.prefix}/train-*.parquet")
    assert "give the reader itself storage_options=" in "".join(raised.value.__notes__)
