"""Files that are complete or absent: their temporary names, write locks, and leftovers of killed writers."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import headrace as hr
from headrace.storage import files
from headrace.storage.files import TEMPORARY, Unfinished, clear_stale, whole_file


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_no_name_that_could_be_foreseen_until_it_is_whole(tmp_path):
    names = set()
    for _ in range(2):
        with whole_file(tmp_path / "data") as file:
            file.write(b"all")
            (name,) = [n for n in left(tmp_path) if n != "data"]
            assert name.startswith(".data.") and name.endswith(TEMPORARY) and str(os.getpid()) not in name
            names.add(name)
    assert len(names) == 2
    assert left(tmp_path) == ["data"] and (tmp_path / "data").read_bytes() == b"all"


def test_nothing_under_the_temporary_name_is_followed_or_written_to(tmp_path, monkeypatch):
    tokens = iter(["a", "b", "c"])
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: next(tokens))
    secret = tmp_path / "secret"
    secret.write_bytes(b"mine")
    (tmp_path / f".data.a{TEMPORARY}").symlink_to(secret)
    os.link(secret, tmp_path / f".data.b{TEMPORARY}")
    with secret.open("rb") as held:
        files.lock(held.fileno())  # else it would be taken for what a killed writer left, and unlinked
        with whole_file(tmp_path / "data") as file:
            file.write(b"all")
    assert secret.read_bytes() == b"mine" and (tmp_path / "data").read_bytes() == b"all"


def test_an_error_leaves_nothing(tmp_path):
    (tmp_path / "data").write_bytes(b"before")
    with pytest.raises(KeyError), whole_file(tmp_path / "data") as file:
        file.write(b"half")
        raise KeyError
    assert left(tmp_path) == ["data"] and (tmp_path / "data").read_bytes() == b"before"


def test_the_next_writer_of_a_name_clears_what_the_killed_left_and_nothing_else(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from headrace.storage.files import Unfinished, exclusive, new_folder, temporary_name
for name in ("data", "other"):
    Unfinished(Path(sys.argv[1], name)).file.write(b"half")
held = exclusive(lambda: temporary_name(Path(sys.argv[1], "data")), new_folder)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert len(left(tmp_path)) == 3
    mine = Unfinished(tmp_path / "data")  # of a writer that lives
    with whole_file(tmp_path / "data") as file:
        file.write(b"all")
    others = [name for name in left(tmp_path) if name.startswith(".other.")]
    assert left(tmp_path) == sorted([mine.temporary.name, *others, "data"]) and len(others) == 1
    mine.publish()
    assert left(tmp_path) == [*others, "data"]


def test_a_writer_whose_file_was_cleared_before_it_was_locked_makes_another(tmp_path, monkeypatch):
    lock, cleared = files.lock, []

    def late(descriptor, **how):
        if not cleared:
            cleared.append(left(tmp_path))
            monkeypatch.setattr(files, "lock", lock)
            clear_stale(tmp_path, "data")
            assert left(tmp_path) == []
        return lock(descriptor, **how)

    monkeypatch.setattr(files, "lock", late)
    with whole_file(tmp_path / "data") as file:
        file.write(b"all")
    assert cleared and left(tmp_path) == ["data"]


def test_a_directory_that_takes_no_files_is_an_error_and_no_endless_search_for_a_name(tmp_path):
    def refuse(path):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))  # as /proc does

    with pytest.raises(FileNotFoundError):
        files.exclusive(lambda: tmp_path / "data", refuse)


def test_a_large_folder_is_not_looked_through_for_each_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MANY_NAMES", 2)
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(files.os, "scandir", lambda folder: looks.append(folder) or scandir(folder))
    for i in range(10):
        with whole_file(tmp_path / str(i)) as file:
            file.write(b"all")
    assert len(looks) == 4
    assert left(tmp_path) == sorted(map(str, range(10)))


def test_a_name_as_long_as_names_can_be(tmp_path):
    name = "ü" * 127
    with whole_file(tmp_path / name) as file:
        file.write(b"all")
    assert left(tmp_path) == [name]


@pytest.fixture
def full_disk():
    """As many bytes to a file as this; a full disk behaves alike, but for the number of the error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


ROWS = hr.Dataset.range(2000).map(lambda x: {"x": x, "data": bytes(1000)})
WRITERS = {
    "write_tfrecord": lambda path: ROWS.write_tfrecord(path),
    "write_tfrecord, in turn": lambda path: ROWS.filter(lambda _: True).write_tfrecord(path, shards=2),
    "write_tfrecord, GZIP": lambda path: ROWS.map(lambda r: {"x": os.urandom(900)}).write_tfrecord(path, None, "GZIP"),
    "write_parquet": lambda path: ROWS.map(lambda r: {"x": os.urandom(900)}).write_parquet(path),
    "TFRecordWriter": lambda path: _write_all(path),
}


def _write_all(path):
    with hr.io.TFRecordWriter(path) as writer:
        for _ in range(2000):
            writer.write(bytes(1000))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_named_with_the_path_and_leaves_nothing(tmp_path, writer, full_disk):
    full_disk(100_000)
    with pytest.raises(OSError, match="out/data") as caught:
        (tmp_path / "out").mkdir()
        WRITERS[writer](tmp_path / "out" / "data")
    full_disk(resource.RLIM_INFINITY)
    assert caught.value.errno == errno.EFBIG
    assert left(tmp_path / "out") == []


def test_too_many_open_files_are_named_with_the_path(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        with pytest.raises(OSError, match=r"Too many open files: '.*/data-00\d+\.tfrecord'"):
            ROWS.filter(lambda _: True).write_tfrecord(tmp_path / "data", shards=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert left(tmp_path) == []


def test_a_save_to_a_full_disk_is_named_and_keeps_what_was_there(tmp_path, full_disk):
    hr.Dataset.range(3).save(tmp_path / "saved")
    full_disk(100_000)
    with pytest.raises(hr.StorageError, match="saved cannot be written: File too large; what it held is untouched"):
        ROWS.save(tmp_path / "saved")
    full_disk(resource.RLIM_INFINITY)
    assert list(hr.Dataset.load(tmp_path / "saved")) == [0, 1, 2]
    assert len(list((tmp_path / "saved").glob("rows-*"))) == 1


def test_a_cache_on_a_full_disk_serves_its_input_and_says_where(tmp_path, full_disk, caplog):
    full_disk(100_000)
    assert len(list(ROWS.cache(tmp_path / "cache"))) == 2000
    full_disk(resource.RLIM_INFINITY)
    assert f"{tmp_path / 'cache'} cannot be written (File too large)" in caplog.text
    assert not [name for name in left(tmp_path / "cache") if name.endswith((TEMPORARY, ".arrow"))]


def test_a_read_only_directory_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/data'"):
        hr.io.TFRecordWriter(tmp_path / "nowhere" / "data")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file/data"):
        hr.io.TFRecordWriter(tmp_path / "file" / "data")


def test_a_damaged_page_is_named(tmp_path):
    path = Path(tmp_path, "page")
    sealed = [files.seal_page(page) for page in (b"[1]", b"{", b"[" * 9999)]
    for text in (b"", b"{}", b'{"crc":0,"page":}\n', *sealed):
        path.write_bytes(text)
        with pytest.raises(hr.StorageError, match=r"page is (damaged|no page)"):
            files.read_page(path)
    files.write_page(path, {"a": [1]})
    assert files.read_page(path) == {"a": [1]}


class TestFoldersWithoutALock:
    """Of two writers at once, one must not remove the folder that the other is just making."""

    def folder(self, tmp_path):
        made = tmp_path / f".t.0123{TEMPORARY}"
        made.mkdir()
        return made

    def test_one_that_gets_its_lock_meanwhile_stays(self, tmp_path, monkeypatch):
        folder, rmdir = self.folder(tmp_path), Path.rmdir

        def lock_first(path):  # the writer was quicker
            (path / files.LOCK).touch()
            rmdir(path)

        monkeypatch.setattr(Path, "rmdir", lock_first)
        files.remove_stale(folder)
        assert left(folder) == [files.LOCK]

    def test_an_empty_one_goes(self, tmp_path):
        files.remove_stale(self.folder(tmp_path))
        assert left(tmp_path) == []

    def test_what_is_left_of_one_that_was_being_removed_goes(self, tmp_path):
        (self.folder(tmp_path) / "0").write_bytes(b"x")
        clear_stale(tmp_path)
        assert left(tmp_path) == []


def test_writers_at_once_all_succeed(tmp_path):
    code = """
        import sys
        import headrace as hr
        for _ in range(8):
            hr.Dataset.range(50).map(lambda x: {"x": x}).write_tfrecord(sys.argv[1], shards=2, overwrite=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "t")]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 2
    assert sorted(row["x"] for row in hr.Dataset.from_tfrecord(tmp_path / "t-*")) == list(range(50))
    assert left(tmp_path) == [".headrace", "t-00000-of-00002.tfrecord", "t-00001-of-00002.tfrecord"]
