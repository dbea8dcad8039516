"""cache(filename) and snapshot: what is kept, continued, refused and found damaged."""

import errno
import logging
import multiprocessing
import os
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.storage import files, rows
from headrace.testing import outcomes

D = hr.Dataset


@pytest.fixture
def calls():
    return []


@pytest.fixture
def counted(tmp_path, calls):
    def squares():
        return D.range(10).map(lambda x: calls.append(int(x)) or x * x).cache(tmp_path / "cache")

    return squares


def square(x):
    return x * x


def test_a_second_run_reads_the_files(counted, calls):
    first, second = list(counted()), list(counted())
    assert first == second == [x * x for x in range(10)]
    assert calls == list(range(10))


def test_a_part_is_kept_and_continued_by_the_next_run(counted, calls):
    with iter(counted()) as it:
        assert [next(it) for _ in range(3)] == [0, 1, 4]
    assert list(counted()) == [x * x for x in range(10)]
    assert calls == list(range(10))


def test_a_shuffle_that_drew_its_own_seed_is_continued_with_it(tmp_path):
    def shuffled():
        return D.range(100).shuffle(100).cache(tmp_path / "cache")

    with iter(shuffled()) as it:
        begun = [next(it) for _ in range(30)]
    whole = list(shuffled())
    assert whole[:30] == begun
    assert sorted(whole) == list(range(100))
    assert list(shuffled()) == whole


def test_a_failure_is_kept_in_its_place(tmp_path):
    def failing():
        return D.range(4).map(lambda x: 1 // (x - 2)).cache(tmp_path / "cache")

    for _ in range(2):
        it = iter(failing())
        assert [int(next(it)), int(next(it))] == [-1, -1]
        with pytest.raises(hr.ElementError, match="map failed on element 2") as caught:
            next(it)
        assert caught.value.ordinal == 2
        assert list(it) == [1]


@pytest.mark.parametrize("kind", ["memory", "file", "snapshot"])
@pytest.mark.parametrize("fault", [OSError(errno.EIO, "no"), ConnectionResetError("gone"), MemoryError()], ids=repr)
def test_a_fault_that_may_pass_is_not_kept(tmp_path, kind, fault):
    ill = []

    def read(x):
        if x in ill:
            raise fault
        return x

    source = D.range(10).map(read, mode="eager")
    ds = {
        "memory": source.cache,
        "file": lambda: source.cache(tmp_path / "rows"),
        "snapshot": lambda: source.snapshot(tmp_path / "rows"),
    }[kind]()
    ill.append(4)
    first, second = iter(ds), iter(ds)
    assert [kind for kind, _ in outcomes(first, 5)] == ["value"] * 4 + ["error"]
    state = first.state()
    ill.clear()
    assert [value for _, value in outcomes(second)] == list(range(10))
    assert [value for _, value in outcomes(first)] == [5, 6, 7, 8, 9]
    assert list(ds.iterator(state=state)) == [5, 6, 7, 8, 9]
    ill += range(10)
    assert list(ds) == list(range(10)), "all is kept by now"


def test_a_row_by_number_that_is_not_there_just_now_is_its_own_error():
    ill = [4]

    def read(x):
        if x in ill:
            raise OSError(errno.EIO, "no")
        return x

    ds = D.range(10).map(read, mode="eager").cache()
    with pytest.raises(hr.ElementError, match="map failed on element 4"):
        ds[6]
    ill.clear()
    assert ds[6] == 6


def test_a_cache_of_another_pipeline_is_refused_saying_why(tmp_path):
    list(D.range(5).map(square).cache(tmp_path / "c"))
    with pytest.raises(hr.StorageError, match=r"operation 1 was range\(start=0, stop=5\), here it is range.*Delete"):
        list(D.range(6).map(square).cache(tmp_path / "c"))
    with pytest.raises(hr.StorageError, match=r"the function of operation 2, map\(fn\), has changed"):
        list(D.range(5).map(lambda x: x + 1).cache(tmp_path / "c"))


def times(k, x):
    return x * k


def plus(k, x):
    return x + k


class By:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


class ByMore(By):
    def __call__(self, x):
        return x * self.k + 1


def scaled(k):
    return lambda x: x * k


def tabled(table):
    return lambda x: table[x]


def inner(k):
    return lambda x: D.range(x).map(lambda y: y * k)


SAME, OTHER = np.arange(3), np.arange(3)[::-1]
PAIRS = {
    "a partial of another": (lambda: D.range(3).map(partial(times, 2)), lambda: D.range(3).map(partial(plus, 2))),
    "another partial": (lambda: D.range(3).map(partial(times, 2)), lambda: D.range(3).map(partial(times, 3))),
    "another method of Python's": (lambda: texts().map(str.upper), lambda: texts().map(str.title)),
    "another object": (lambda: D.range(3).map(By(2)), lambda: D.range(3).map(By(3))),
    "another class": (lambda: D.range(3).map(By(2)), lambda: D.range(3).map(ByMore(2))),
    "a method of another object": (lambda: D.range(3).map(By(2).__call__), lambda: D.range(3).map(By(3).__call__)),
    "another closure": (lambda: D.range(3).map(scaled(2)), lambda: D.range(3).map(scaled(3))),
    "another captured array": (lambda: D.range(3).map(tabled(SAME)), lambda: D.range(3).map(tabled(OTHER))),
    "other values": (lambda: D.from_tensor_slices(SAME), lambda: D.from_tensor_slices(OTHER)),
    "other text": (lambda: D.from_tensor_slices(["a", "b"]), lambda: D.from_tensor_slices(["b", "a"])),
    "another element": (lambda: D.from_tensors(SAME), lambda: D.from_tensors(OTHER)),
    "another table": (lambda: D.from_arrow(pa.table({"a": SAME})), lambda: D.from_arrow(pa.table({"a": OTHER.copy()}))),
    "another generator": (lambda: generated(lambda: iter([1, 2])), lambda: generated(lambda: iter([1, 3]))),
    "other arguments": (lambda: generated(iter, [1, 2]), lambda: generated(iter, [1, 3])),
    "another dataset inside": (lambda: D.range(3).flat_map(inner(1)), lambda: D.range(3).flat_map(inner(2))),
    "another initial state": (
        lambda: D.range(3).scan(0, lambda s, x: (s + x, s)), lambda: D.range(3).scan(1, lambda s, x: (s + x, s))
    ),
    "another predicate": (lambda: D.range(9).filter(lambda x: x > 2), lambda: D.range(9).filter(lambda x: x > 3)),
    "another map-style dataset": (lambda: D.from_torch([1, 2, 3]), lambda: D.from_torch([1, 2, 4])),
}  # fmt: skip


def texts():
    return D.from_tensor_slices(["ab", "cd"])


def generated(fn, *args):
    return D.from_generator(fn, args=args, output_signature=hr.TensorSpec((), "int64"))


@pytest.mark.parametrize("name", PAIRS)
def test_a_cache_is_of_one_function_and_of_the_same_data(tmp_path, name):
    one, two = PAIRS[name]
    first = [repr(e) for e in one().cache(tmp_path / "c")]
    assert [repr(e) for e in one().cache(tmp_path / "c")] == first
    with pytest.raises(hr.StorageError, match=r"another pipeline: .*(the function of .* has changed|has other data)"):
        list(two().cache(tmp_path / "c"))
    for pipeline in (one, two):
        want = [repr(e) for e in pipeline()]
        assert [repr(e) for e in pipeline().snapshot(tmp_path / "s")] == want
        assert [repr(e) for e in pipeline().snapshot(tmp_path / "s")] == want
    assert len(list((tmp_path / "s").iterdir())) == 2


def test_a_cache_over_a_saved_dataset_is_of_its_rows_wherever_they_lie(tmp_path):
    D.range(5).save(tmp_path / "one")
    list(D.load(tmp_path / "one").cache(tmp_path / "c"))
    (tmp_path / "one").rename(tmp_path / "two")
    assert list(D.load(tmp_path / "two").cache(tmp_path / "c")) == [0, 1, 2, 3, 4]
    D.range(1, 6).save(tmp_path / "two")
    with pytest.raises(hr.StorageError, match=r"operation 1 was load\(.*, here it is load"):
        list(D.load(tmp_path / "two").cache(tmp_path / "c"))


def test_a_cache_behind_names_of_files_is_of_what_they_hold_wherever_they_lie(tmp_path):
    def pipeline(folder):
        names = D.list_files(str(tmp_path / folder / "*"), shuffle=False)
        return names.flat_map(hr.TextLineDataset).cache(tmp_path / "c")

    (tmp_path / "one").mkdir()
    for name in "ab":
        (tmp_path / "one" / name).write_text(f"{name}\n")
    assert list(pipeline("one")) == ["a", "b"]
    (tmp_path / "one").rename(tmp_path / "two")
    assert list(pipeline("two")) == ["a", "b"]
    (tmp_path / "two" / "a").write_text("c\n")
    with pytest.raises(hr.StorageError, match=r"operation 1, list_files\(.*\), has other data"):
        list(pipeline("two"))


@pytest.mark.parametrize("kind", ["cache", "snapshot"])
def test_what_is_complete_needs_its_files_no_more(tmp_path, kind):
    (tmp_path / "lines").write_text("a\nb\n")

    def pipeline(fn=str.upper):
        return getattr(hr.TextLineDataset(str(tmp_path / "lines")).map(fn), kind)(tmp_path / "stored")

    want = list(pipeline())
    (tmp_path / "lines").unlink()
    assert list(pipeline()) == want == ["A", "B"]
    with pytest.raises((hr.StorageError, hr.ElementError), match=r"has changed|No such file"):
        list(pipeline(str.lower))
    other = getattr(hr.TextLineDataset(str(tmp_path / "others")).map(str.upper), kind)(tmp_path / "stored")
    with pytest.raises((hr.StorageError, hr.ElementError), match=r"here it is|No such file"):
        list(other)


def test_what_is_not_complete_needs_its_files(tmp_path):
    (tmp_path / "lines").write_text("a\nb\n")
    with iter(hr.TextLineDataset(str(tmp_path / "lines")).snapshot(tmp_path / "s")) as it:
        next(it)
    (tmp_path / "lines").unlink()
    with pytest.raises(hr.ElementError, match="No such file"):
        list(hr.TextLineDataset(str(tmp_path / "lines")).snapshot(tmp_path / "s"))


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture
def full(tmp_path):
    def pipeline():
        return D.from_tensor_slices({"x": np.arange(3000).reshape(1000, 3), "s": ["ab"] * 1000}).cache(tmp_path / "c")

    list(pipeline())
    return pipeline, tmp_path / "c"


def test_no_flipped_bit_is_served(full):
    pipeline, folder = full
    good = [repr(e) for e in pipeline()]
    data = next(folder.glob("*.arrow"))
    size = data.stat().st_size
    for path, spots in [(data, range(5, size, size // 40)), (next(folder.glob("0*.json")), range(0, 290, 27))]:
        for spot in spots:
            flip(path, spot)
            with pytest.raises(hr.StorageError, match=f"{path.stem}.*(damaged|checksum|page|bytes).*. Delete"):
                list(pipeline())
            flip(path, spot)
    assert [repr(e) for e in pipeline()] == good


def test_a_truncated_file_is_named(full):
    pipeline, folder = full
    data = next(folder.glob("*.arrow"))
    os.truncate(data, 1000)
    with pytest.raises(hr.StorageError, match=r"000000000000.arrow has 1000 bytes; it was written with \d+. Delete"):
        list(pipeline())
    data.unlink()
    with pytest.raises(hr.StorageError, match=r"000000000000\.arrow is missing"):
        list(pipeline())


def test_a_file_that_is_cut_short_while_it_is_read_is_an_error_and_not_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "BATCH_ROWS", 100)
    D.range(1000).save(tmp_path)
    it = iter(D.load(tmp_path).map(lambda x: x, mode="eager"))
    assert [int(next(it)) for _ in range(30)] == list(range(30))
    os.truncate(next(tmp_path.glob("rows-*/*.arrow")), 0)
    with pytest.raises(hr.StorageError, match=r"\.arrow has become shorter since it was opened"):
        list(it)


def test_a_damaged_part_of_an_unfinished_cache_is_made_again(counted, calls, tmp_path, caplog):
    with iter(counted()) as it:
        next(it), next(it)
    flip(next((tmp_path / "cache").glob("0*.json")), 20)
    assert list(counted()) == [x * x for x in range(10)]
    assert "made again" in caplog.text
    assert calls == [0, 1, *range(10)]


def test_what_a_killed_writer_left_is_cleared_away(counted, tmp_path):
    with iter(counted()) as it:
        next(it)
    folder = tmp_path / "cache"
    (folder / "000000000001.arrow").write_bytes(b"half")
    (folder / ".000000000007.arrow.0123456789abcdef.hrtmp").write_bytes(b"half")
    assert list(counted()) == [x * x for x in range(10)]
    assert not list(folder.glob(".*"))


def test_a_second_writer_reads_its_input_itself_and_harms_nothing(counted, calls, caplog):
    first = iter(counted())
    assert next(first) == 0
    assert list(counted()) == [x * x for x in range(10)]
    assert "being written by another process" in caplog.text
    assert list(first) == [x * x for x in range(1, 10)]
    calls.clear()
    assert list(counted()) == [x * x for x in range(10)]
    assert calls == []


def _read(path, queue):
    queue.put([int(x) for x in D.range(2000).map(square).cache(path)])


def test_many_processes_at_once_all_get_the_right_elements(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_read, args=(tmp_path / "c", queue)) for _ in range(3)]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    assert results == [[x * x for x in range(2000)]] * 3
    assert [int(x) for x in D.range(2000).map(square).cache(tmp_path / "c")] == results[0]


def test_a_full_disk_does_not_stop_the_pass_and_later_there_is_room(tmp_path, monkeypatch, caplog):
    def pipeline():
        return D.range(20).map(lambda x: np.full(1000, x)).cache(tmp_path / "c")

    monkeypatch.setattr(rows, "PART_BYTES", 20_000)
    whole, written = files.whole_file, []

    def no_room(path):
        written.append(path)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(path)

    monkeypatch.setattr("headrace.storage.runs.whole_file", no_room)
    with caplog.at_level(logging.WARNING):
        assert [int(x[0]) for x in pipeline()] == list(range(20))
    assert "No space left on device" in caplog.text
    kept = len(list((tmp_path / "c").glob("*.arrow")))
    assert 0 < kept < 7
    monkeypatch.setattr("headrace.storage.runs.whole_file", whole)
    assert [int(x[0]) for x in pipeline()] == list(range(20))
    assert (tmp_path / "c" / "complete.json").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hr.StorageError, match="is a file; rows are stored in a directory"):
        list(D.range(3).cache(tmp_path / "file"))
    with pytest.raises(hr.StorageError, match="cannot be written: Not a directory"):
        list(D.range(3).cache(tmp_path / "file" / "below"))


def test_a_forked_child_leaves_the_writing_to_its_parent(tmp_path):
    ds = D.range(50).map(square).cache(tmp_path / "c")
    it = iter(ds)
    head = [next(it) for _ in range(10)]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(write, "wb") as pipe:
            pipe.write(bytes(",".join(str(int(x)) for x in ds), "ascii"))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert [int(x) for x in pipe.read().split(",")] == [x * x for x in range(50)]
    os.waitpid(pid, 0)
    assert head + list(it) == [x * x for x in range(50)] == list(D.range(50).map(square).cache(tmp_path / "c"))


def open_files():
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_files_are_only_open_while_a_pass_is(tmp_path):
    ds = D.range(50).cache(tmp_path / "c")
    before = open_files()
    it = iter(ds)
    next(it)
    it.close()
    assert open_files() == before
