"""Datasets that are made here."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import headrace as hr
from headrace.tfds import staging, writing

F = hr.tfds.features


def files_of(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir()) if p.is_file()}


def rows(name, folder, split="train", **options):
    return list(hr.load(name, split=split, data_dir=folder, **options))


def test_a_generator_becomes_a_dataset(tmp_path):
    @hr.dataset(
        "Points",
        version="1.2.0",
        features={"at": F.Tensor(shape=(2,), dtype=np.float32), "kind": F.ClassLabel(names=["far", "near"])},
        splits={"train": [0, 1], "test": 2},
        supervised_keys=("at", "kind"),
        release_notes={"1.2.0": "More points."},
    )
    def points(part):
        """Points in the plane."""
        for i in range(5):
            yield f"{part}-{i}", {"at": [part, i], "kind": "near" if i < 2 else "far"}

    built = points.build(tmp_path, processes=1)
    assert built.info.full_name == "points/1.2.0"
    assert built.info.description == "Points in the plane."
    assert built.info.features["kind"].names == ["far", "near"]
    assert [built.info.splits[s].num_examples for s in ("train", "test")] == [10, 5]
    found = sorted((tuple(at.tolist()), int(kind)) for at, kind in rows("points", tmp_path, as_supervised=True))
    assert found == [((p, i), int(i < 2)) for p in (0.0, 1.0) for i in range(5)]
    assert points.build(tmp_path).info.full_name == "points/1.2.0"  # and nothing is written again


def test_a_class_may_give_a_pipeline(tmp_path):
    class Piped(hr.catalogue.DatasetBuilder):
        name = "piped"
        version = "1.0.0"
        features = {"x": np.int64}  # noqa: RUF012
        shuffle = False
        file_format = "parquet"

        def examples(self, part):
            return hr.Dataset.range(30).map(lambda x: {"x": x * x})

    Piped().build(tmp_path)
    assert [int(row["x"]) for row in rows("piped", tmp_path)] == [x * x for x in range(30)]


def test_parts_are_made_by_several_processes(tmp_path):
    @hr.dataset("parted", version="1.0.0", features={"x": np.int64}, splits={"train": [0, 1, 2]})
    def parted(part):
        for i in range(100):
            yield {"x": 100 * part + i}

    parted.build(tmp_path / "one", processes=1)
    parted.build(tmp_path / "two", processes=2)
    assert files_of(tmp_path / "one/parted/1.0.0") == files_of(tmp_path / "two/parted/1.0.0")
    assert sorted(int(row["x"]) for row in rows("parted", tmp_path / "two")) == list(range(300))


BUILD = """
import os, signal, sys
import numpy as np
import headrace as hr
from headrace.tfds import staging, writing

staging.CHUNK_ROWS, staging.BATCH_ROWS = 64, 16
folder, *stops = sys.argv[1:]
LIMIT = [0]

@hr.dataset("slow", version="1.0.0", shards=3, splits=["train"],
            features={"i": np.int64, "text": hr.tfds.features.Text(), "list": hr.tfds.features.Sequence(np.int32)})
def slow(split):
    for i in range(1400):
        LIMIT[0] -= 1
        if LIMIT[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield i, {"i": i, "text": split * (i % 3), "list": list(range(i % 5))}

def run(stop):
    child = os.fork()
    if child == 0:
        LIMIT[0] = stop
        slow.build(folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(*map(run, map(int, stops)))
"""


def test_a_build_that_is_killed_ten_times_gives_the_same_bytes(tmp_path):
    script = tmp_path / "build.py"
    script.write_text(BUILD)

    def run(folder, *stops):
        command = [sys.executable, script, folder, *map(str, stops)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert run(tmp_path / "whole", 0) == ["0"]
    assert run(tmp_path / "killed", *range(130, 1400, 127)) == ["-9"] * 10
    assert not (tmp_path / "killed/slow/1.0.0").exists()
    assert run(tmp_path / "killed", 0) == ["0"]
    assert files_of(tmp_path / "killed/slow/1.0.0") == files_of(tmp_path / "whole/slow/1.0.0")
    assert [p.name for p in (tmp_path / "killed/slow").iterdir()] == ["1.0.0"]


def test_a_build_goes_on_only_with_the_rows_that_it_began_with(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "CHUNK_ROWS", 4)
    monkeypatch.setattr(staging, "BATCH_ROWS", 2)
    keys = tmp_path / "keys"  # which is not part of the generator's code

    @hr.dataset("changing", version="1.0.0", features={"x": np.int64}, splits=["train"])
    def changing(split):
        for number, key in enumerate(keys.read_text().split()):
            if key == "stop":
                raise RuntimeError("enough")
            yield key, {"x": number}

    keys.write_text("a b c d e f stop")
    with pytest.raises(RuntimeError, match=r"enough"):
        changing.build(tmp_path)
    keys.write_text("a other c d e f g h")
    with pytest.raises(hr.catalogue.BuildError, match=r"at row 1 the generator gave the key 'other'"):
        changing.build(tmp_path)
    keys.write_text("a b c d e f g h")
    changing.build(tmp_path)
    assert sorted(int(row["x"]) for row in rows("changing", tmp_path)) == list(range(8))


def test_a_stopped_build_does_not_go_on_with_other_code(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "CHUNK_ROWS", 4)
    monkeypatch.setattr(staging, "BATCH_ROWS", 2)

    def made(offset, stop):
        @hr.dataset("mixed", version="1.0.0", features={"x": np.int64}, splits=["train"])
        def generated(split):
            for number in range(8):
                if number == stop:
                    raise RuntimeError("enough")
                yield f"{number}", {"x": number + offset}

        return generated

    with pytest.raises(RuntimeError, match=r"enough"):
        made(0, 6).build(tmp_path)
    made(100, -1).build(tmp_path)
    assert sorted(int(row["x"]) for row in rows("mixed", tmp_path)) == list(range(100, 108))


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ({"x": 1}, "'label' is missing"),
        ({"x": 1, "label": "a", "more": 2}, "'more' is not among its features"),
        ({"x": 1.5, "label": "a"}, "'x' is .*int8.*not 1.5"),
        ({"x": 300, "label": "a"}, "'x' is .*not 300"),
        ({"x": None, "label": "a"}, "'x' is None"),
        ({"x": 1, "label": "c"}, "no class 'c'"),
        ({"x": 1, "label": 7}, "class 7 of 2"),
        ([1, 2], "an example is a dict"),
    ],
)
def test_rows_that_do_not_fit_are_named(tmp_path, example, said):
    @hr.dataset(
        "wrong", version="1.0.0", splits=["train"], features={"x": np.int8, "label": F.ClassLabel(names=["a", "b"])}
    )
    def wrong(split):
        yield "fine", {"x": 1, "label": "b"}
        yield "bad", example

    with pytest.raises(hr.catalogue.BuildError, match=rf"split 'train', row 1 \(key 'bad'\): .*{said}"):
        wrong.build(tmp_path)
    assert not (tmp_path / "wrong/1.0.0").exists()


def test_keys_that_come_twice_are_named(tmp_path):
    @hr.dataset("twice", version="1.0.0", features={"x": np.int64}, splits=["train"])
    def twice(split):
        yield "a", {"x": 1}
        yield "b", {"x": 2}
        yield "a", {"x": 3}

    with pytest.raises(hr.catalogue.BuildError, match=r"two rows have the key 'a'"):
        twice.build(tmp_path)


def test_sources_are_checked_and_missing_ones_tell_where_to_put_them(tmp_path):
    there = tmp_path / "numbers.txt"
    there.write_text("1\n2\n3\n")
    right = hashlib.sha256(there.read_bytes()).hexdigest()

    def make(source):
        @hr.dataset("sourced", version="1.0.0", features={"x": np.int64}, splits=["train"], sources={"numbers": source})
        def sourced(split, sources):
            for line in sources["numbers"].read_text().split():
                yield {"x": int(line)}

        return sourced

    with pytest.raises(hr.StorageError, match=rf"its SHA-256 is {right}, but {'0' * 64} was promised"):
        make(hr.catalogue.SourceFile(str(there), sha256="0" * 64)).build(tmp_path / "data")
    missing = hr.catalogue.SourceFile("/nowhere/numbers.txt", sha256=right, note="ask the authors")
    with pytest.raises(hr.StorageError, match=r"put it at .*downloads/manual/sourced/numbers\.txt \(ask the authors\)"):
        make(missing).build(tmp_path / "data")
    by_hand = tmp_path / "data/downloads/manual/sourced"
    by_hand.mkdir(parents=True)
    (by_hand / "numbers.txt").write_text("1\n2\n3\n")
    assert make(missing).build(tmp_path / "data").info.download_checksums == {"/nowhere/numbers.txt": right}
    remote = hr.catalogue.SourceFile(f"memory://{there}", sha256=right)
    import fsspec

    with fsspec.open(f"memory://{there}", "wb") as file:
        file.write(there.read_bytes())
    make(remote).build(tmp_path / "other")
    assert sorted(int(row["x"]) for row in rows("sourced", tmp_path / "other")) == [1, 2, 3]


def test_shards_follow_the_rule(tmp_path):
    from headrace.tfds.writing import shard_count

    assert shard_count(5_000_000, 1) == 1
    assert shard_count(1_500_000_000, 1) == 10
    assert shard_count(30_000_000_000, 1) == 144  # none beyond 200 MB
    assert shard_count(16_000_000_000, 8) == 80


def test_an_unknown_attribute_is_named():
    with pytest.raises(TypeError, match=r"no 'feature'.*features"):
        hr.dataset("x", version="1.0.0", features={"x": np.int64}, feature=1)
    with pytest.raises(ValueError, match=r"three numbers"):
        hr.dataset("x", version="1.0", features={"x": np.int64})


def test_sequences_of_sequences_of_one_length_are_read_back(tmp_path):
    features = {
        "pairs": F.Sequence(F.Sequence(np.int64, length=2)),
        "square": F.Sequence(F.Sequence(np.float32, length=2), length=2),
        "words": F.Sequence(F.Sequence(F.Text()), length=2),
    }

    @hr.dataset("nested", version="1.0.0", features=features, splits=["train"], shuffle=False)
    def nested(split):
        for i in range(4):
            yield {
                "pairs": [[i, j] for j in range(i)],
                "square": [[i, 0], [0, i]],
                "words": [["a"] * i, []],
            }

    nested.build(tmp_path)
    for i, row in enumerate(rows("nested", tmp_path)):
        assert row["pairs"].tolist() == [[i, j] for j in range(i)]
        assert row["square"].tolist() == [[i, 0], [0, i]]
        assert row["words"].to_list() == [[b"a"] * i, []]


def counted(start=0, features=None, version="1.0.0", **more):
    @hr.dataset("counted", version=version, features=features or {"x": np.int64}, splits=["train"], **more)
    def rows(split):
        yield from ({"x": x + start} for x in range(3))

    return rows


def longer(**more):
    @hr.dataset("counted", version="1.0.0", features={"x": np.int64}, splits=["train"], **more)
    def rows(split):
        yield from ({"x": x + 7} for x in range(4))

    return rows


@pytest.mark.parametrize(
    ("other", "how", "what"),
    [
        (longer, {}, "code"),
        (lambda: counted(1), {}, "code"),
        (lambda: counted(features={"x": np.int32}), {}, "features"),
        (counted, {"limit": 2}, "limit"),
    ],
)
def test_a_version_that_was_built_by_something_else_is_refused(tmp_path, other, how, what):
    counted().build(tmp_path)
    with pytest.raises(
        ValueError, match=rf"counted 1\.0\.0 is built already.*{what}.*raise the version.*major"
    ) as caught:
        other().build(tmp_path, **how)
    assert "--overwrite" in str(caught.value)
    other().build(tmp_path, check_versions=False, **how)
    assert len(hr.tfds.load("counted", split="train", data_dir=tmp_path)) == 3
    other().build(tmp_path, overwrite=True, **how)
    other().build(tmp_path, **how)


def test_the_same_again_is_not_built_again(tmp_path):
    counted(description="old").build(tmp_path)
    page = tmp_path / "counted/1.0.0/dataset_info.json"
    before = page.stat().st_mtime_ns
    counted(description="new").build(tmp_path)
    counted().build(tmp_path)
    assert page.stat().st_mtime_ns == before
    (tmp_path / "counted/1.0.0/.made_by.json").unlink()  # as of datasets that TFDS built
    longer().build(tmp_path)
    assert page.stat().st_mtime_ns == before


def test_sources_that_have_changed_are_told(tmp_path):
    def made():
        @hr.dataset("lines", version="1.0.0", features={"x": F.Text()}, sources={"a": str(tmp_path / "a.txt")})
        def rows(split, sources):
            yield from ({"x": line} for line in sources["a"].read_text().split())

        return rows

    (tmp_path / "a.txt").write_text("a b")
    made().build(tmp_path / "data")
    made().build(tmp_path / "data")
    (tmp_path / "a.txt").write_text("a b c")
    with pytest.raises(ValueError, match="sources that have changed"):
        made().build(tmp_path / "data")


def test_a_build_brings_the_index_of_its_folder_up_to_date(tmp_path):
    counted().build(tmp_path)
    hr.catalogue.write_index(tmp_path)
    counted(version="1.0.1").build(tmp_path)
    assert '"1.0.1"' in (tmp_path / "catalogue.json").read_text()


def test_rows_that_are_cut_short_while_their_files_are_written_are_an_error(tmp_path, monkeypatch):
    pick_text = writing.pick_text

    def after_a_cut(records, order):
        for path in tmp_path.rglob("*.chunk"):
            os.truncate(path, 5000)
        return pick_text(records, order)

    @hr.dataset("short", version="1.0.0", features={"x": F.Text()}, splits={"train": 0})
    def short(part):
        yield from ((i, {"x": str(i) * 200}) for i in range(2000))

    monkeypatch.setattr(writing, "pick_text", after_a_cut)
    with pytest.raises(staging.BuildError, match=r"\.chunk has become shorter since it was opened"):
        short.build(tmp_path, processes=1)
