"""A third-party package, installed beside headrace, and what the page about it says."""

import json
import os
import re
import struct
import subprocess
import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace import extend
from headrace.formats.shared import kinds
from headrace.plan.marks import OwnMark
from headrace.testing import check_feed, check_transformation

D = hr.Dataset
PACKAGE = Path(__file__).parent / "plugin_package"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A folder into which the package was installed."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "package"
    subprocess.run(["cp", "-r", PACKAGE, source], check=True)
    install = ["pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation", "--target", folder, source]
    subprocess.run([sys.executable, "-m", *install], check=True)
    return folder


@pytest.fixture
def added(site, monkeypatch):
    """What the package has."""
    monkeypatch.syspath_prepend(site)
    invalidate_caches()
    return import_module("headrace_runs")


@pytest.fixture
def runs(tmp_path):
    """A file of four runs, one of them bad, with a piece of another at its end."""
    path = tmp_path / "data.runs"
    pairs = [(1, 5), (2, 6), (0, 3), (4, -9)]
    path.write_bytes(b"RUNS" + b"".join(struct.pack("<iq", *pair) for pair in pairs) + b"abc")
    return path


def test_the_page_shows_the_package_as_it_is():
    page = (Path(__file__).parents[1] / "docs/extending.md").read_text()
    shown = dict(re.findall(r"`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)```", page, re.DOTALL))
    files = {str(f.relative_to(PACKAGE)): f.read_text() for f in PACKAGE.rglob("*") if f.suffix in (".py", ".toml")}
    assert shown == files


def test_an_operation_keeps_every_promise(added):
    ds = D.range(20).apply(added.drop_every(3))
    assert list(ds) == [i for i in range(20) if i % 3 != 2]
    assert (len(ds), ds[5]) == (14, 7)
    check_transformation(ds)
    check_transformation(D.range(20).map(lambda x: 6 // (x % 5)).apply(added.drop_every(3)).batch(2))
    check_transformation(D.range(30).shuffle(7, seed=1).apply(added.drop_every(2)).repeat(2).shuffle(3, seed=2))


def test_an_operation_with_a_mark_of_its_own_keeps_every_promise(added):
    ds = D.range(20).map(lambda x: x / 3).apply(added.running_sum)
    assert list(ds) == np.cumsum(np.arange(20) / 3).tolist()
    check_transformation(ds)
    check_transformation(D.range(20).filter(lambda x: x % 3 > 0).map(lambda x: 6 // (x % 5)).apply(added.running_sum))
    check_transformation(D.range(8).apply(added.running_sum).shuffle(3, seed=1).prefetch(2))


COUNTS, VALUES = [3, 1, 5, 2, 9], [7, -1, 7, 0, 3]
OVER_RUNS = {
    "plain": lambda ds: ds,
    "batch": lambda ds: ds.batch(3),
    "padded_batch": lambda ds: ds.padded_batch(3),
    "ragged_batch": lambda ds: ds.ragged_batch(3),
    "window": lambda ds: ds.window(3, shift=2).flat_map(lambda w: w.batch(3)),
    "shuffle": lambda ds: ds.shuffle(5, seed=1).batch(2),
    "shuffle of everything": lambda ds: ds.shuffle(seed=3),
    "traced": lambda ds: ds.map(lambda x: {"twice": x * 2, "same": x}).batch(4),
    "untraced": lambda ds: ds.map(lambda x: int(x) + 1 if x else x, num_parallel_calls=2),
    "failing": lambda ds: ds.map(lambda x: 6 // int(x)).filter(lambda x: x > 0),
    "between others": lambda ds: D.range(2).concatenate(ds).concatenate(D.range(3)).repeat(2).batch(7),
    "cache": lambda ds: ds.cache().unique(),
    "zip": lambda ds: D.zip((ds, D.range(20))).skip(2).shard(2, 1),
    "interleave": lambda ds: D.range(2).interleave(lambda _: ds, num_parallel_calls=2),
    "process": lambda ds: ds.prefetch(2, mode="process").batch(4),
}


@pytest.mark.parametrize("name", OVER_RUNS)
def test_a_kind_of_column_goes_through_every_operation(added, name):
    check_transformation(OVER_RUNS[name](added.from_runs(COUNTS, VALUES)))


def test_a_kind_of_column_is_stored_as_it_is(added, tmp_path):
    ds, expected = added.from_runs([10**6, 1, 10**6], VALUES[:3]), np.repeat(VALUES[:3], [10**6, 1, 10**6])
    ds.save(tmp_path / "saved")
    assert sum(f.stat().st_size for f in (tmp_path / "saved").rglob("*")) < 200_000
    for again in (D.load(tmp_path / "saved"), ds.cache(tmp_path / "cache")):
        np.testing.assert_array_equal(next(iter(again.batch(len(expected)))), expected)
    named = ds.take(5).map(lambda x: {"x": x})
    assert [int(row["x"]) for row in hr.ParquetDataset(named.write_parquet(tmp_path / "out"))] == [7] * 5


def test_an_error_names_the_line_of_the_user(added):
    ds = D.from_tensor_slices([1, 0]).map(lambda x: 1 // x).apply(added.drop_every(2)).map(lambda x: 1 // (x - 1))
    with pytest.raises(hr.ElementError, match=r"test_extending\.py"):
        list(ds)
    assert "test_extending.py" in str(D.range(3).apply(added.drop_every(2)).explain())


def test_a_format_keeps_every_promise(added, runs):
    ds = added.RunsDataset(runs)
    check_transformation(ds)
    check_transformation(added.RunsDataset([runs] * 3, num_parallel_reads=2, buffer_size=16))
    assert [int(row["value"]) for row in added.RunsDataset(runs, on_error="skip")] == [5, 6, -9]
    with pytest.raises(hr.ElementError, match="a run of 0"):
        list(ds)


def test_a_format_is_found_by_what_files_begin_with(added, runs, tmp_path):
    (tmp_path / "other.txt").write_text("a line\n")
    plain = runs.rename(tmp_path / "data")
    names = list(D.list_files(f"{tmp_path}/*", format="runs", shuffle=False))
    assert names == [str(plain)]
    assert [Path(n).name for n in D.list_files(f"{tmp_path}/*", format="text", shuffle=False)] == ["other.txt"]
    assert added.RunsDataset(names, on_error="skip").count() == 3
    with pytest.raises(ValueError, match=r"no format 'ruins', but Arrow, CSV, .*runs"):
        D.list_files(f"{tmp_path}/*", format="ruins")


def test_the_command_line_knows_formats_of_installed_packages(site, runs, tmp_path):
    def headrace(*arguments, **settings):
        command = [Path(sys.executable).with_name("headrace"), *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    env = {**os.environ, "PYTHONPATH": str(site)}
    about = headrace("inspect", runs, env=env)
    assert (about["format"], about["read_with"]) == ("runs", "headrace_runs.RunsDataset")
    assert about["first"][0] == {"count": 1, "value": 5}
    made = headrace("convert", runs, tmp_path / "out.parquet", "--skip-errors", env=env)
    assert [int(row["value"]) for row in hr.ParquetDataset(made["files"])] == [5, 6, -9]


def test_an_adapter_resumes_and_closes(added):
    feed = added.ListFeed(D.range(10).shuffle(4, seed=1).batch(3))
    assert sorted(x for batch in feed for x in batch) == list(range(10))
    check_feed(feed)


class Views(extend.Feed):
    """A feed of memoryviews, whose repr names an address; the element numbered `drifts` has another value each time."""

    def __init__(self, ds, drifts=None):
        super().__init__(ds)
        self.drifts, self.delivered = drifts, 0

    def make_target(self):
        return AsViews(self)


class AsViews(extend.PlainTarget):
    name = "Views"

    def __init__(self, feed):
        super().__init__()
        self._feed = feed

    def deliver(self, element):
        element = element.copy()
        self._feed.delivered += 1
        if element[0] == self._feed.drifts:
            element[len(element) // 2] = -self._feed.delivered
        return memoryview(element)


def test_an_adapter_is_checked_by_the_values_that_it_delivers():
    long = D.from_tensor_slices(np.arange(6000).reshape(3, 2000))
    check_feed(Views(long))
    with pytest.raises(AssertionError, match="element 1 is"):
        check_feed(Views(long, drifts=2000))


def test_a_package_that_cannot_be_imported_is_named_and_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "broken_addition.py").write_text("raise RuntimeError('out of order')")
    (tmp_path / "broken-1.0.dist-info").mkdir()
    (tmp_path / "broken-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (tmp_path / "broken-1.0.dist-info/entry_points.txt").write_text("[headrace.plugins]\nx = broken_addition\n")
    monkeypatch.syspath_prepend(tmp_path)
    kinds._load_plugins.cache_clear()
    with pytest.warns(UserWarning, match="broken_addition, which adds to headrace, cannot be imported.*out of order"):
        assert "Parquet" in kinds.known_formats()


def test_names_of_formats_and_endings_belong_to_one():
    def reader(files, **options):
        raise NotImplementedError

    with pytest.raises(ValueError, match=r"a format called 'Parquet' already, read by hr\.ParquetDataset"):
        extend.register_format(extend.FileFormat("Parquet", reader, "reader"))
    with pytest.raises(ValueError, match=r"end in \.csv are those of CSV"):
        extend.register_format(extend.FileFormat("other", reader, "reader", endings=(".csv",)))


def test_a_mark_of_its_own_keeps_every_bit_and_takes_no_part_of_a_number(added):
    SumMark = import_module("headrace_runs.running_sum").SumMark
    for total in (0.1 + 0.2, float("inf"), -0.0, 5e-324):
        assert str(SumMark.from_json(json.loads(json.dumps(SumMark(total).to_json()))).total) == str(total)
    with pytest.raises(hr.StateError, match="in place of a number"):
        SumMark.from_json(["much"])
    with pytest.raises(TypeError):
        SumMark(np.float32(0.5)).to_json()
    assert issubclass(SumMark, OwnMark)
