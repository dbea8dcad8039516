"""A file's identity is its content, not its location or modification time."""

import os
import pickle
import shutil
import time

import numpy as np
import pytest

from headrace.formats.shared.files import FileList, common_folder, file_identity, open_path
from headrace.remote import identity as identities
from headrace.remote.identity import SAMPLE_BYTES, SAMPLES, Token

SIZES = [0, 1, SAMPLE_BYTES, SAMPLE_BYTES * SAMPLES, SAMPLE_BYTES * SAMPLES + 1, 1_000_000]


def put(path, data):
    path.write_bytes(data)
    return str(path)


def old(path):
    """As if it had been written long ago, so that it is remembered which file it is."""
    past = time.time() - 1000
    os.utime(path, (past, past))


@pytest.mark.parametrize("size", SIZES)
def test_a_copy_is_the_same_file(tmp_path, size):
    data = np.random.default_rng(size).bytes(size)
    path = put(tmp_path / "a", data)
    (tmp_path / "folder").mkdir()
    copy = shutil.copy(path, tmp_path / "folder" / "b")
    os.utime(copy, (1, 1))
    assert file_identity(path) == file_identity(str(copy)) == file_identity(f"file://{copy}")
    if size:
        other = put(tmp_path / "c", bytes([data[0] ^ 1]) + data[1:])
        assert file_identity(other) != file_identity(path)
        assert file_identity(put(tmp_path / "d", data[:-1] + bytes([data[-1] ^ 1]))) != file_identity(path)
    assert file_identity(put(tmp_path / "e", data + b"\0")) != file_identity(path)


def test_a_file_that_is_written_again_is_looked_at_again(tmp_path, monkeypatch):
    path = put(tmp_path / "a", b"one")
    first = file_identity(path)
    put(tmp_path / "a", b"two")  # most likely at the same tick of the disk's clock
    assert file_identity(path) != first
    now = time.time()
    monkeypatch.setattr(identities.time, "time", lambda: now + 60)
    seen = file_identity(path)
    put(tmp_path / "a", b"six")
    os.utime(path, ns=(0, (tmp_path / "a").stat().st_mtime_ns))
    assert file_identity(path) != seen


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path, monkeypatch):
    path = put(tmp_path / "a", b"one")
    now = time.time()
    monkeypatch.setattr(identities.time, "time", lambda: now + 60)
    first = file_identity(path)
    monkeypatch.setattr(identities, "_content", None)
    assert file_identity(path) == first


def test_what_is_no_file_has_no_content(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert file_identity(str(tmp_path / "pipe")).stamp == file_identity(str(tmp_path)).stamp == ""
    with pytest.raises(FileNotFoundError):
        file_identity(str(tmp_path / "nothing"))


class TestTokens:
    def token(self, path):
        file = open_path(path)
        token = file.token
        file.close()
        return token

    def test_are_those_of_the_file(self, tmp_path):
        path = put(tmp_path / "a", b"one")
        assert self.token(path).to_json() == file_identity(path).token
        assert pickle.loads(pickle.dumps(self.token(path))).to_json() == file_identity(path).token

    def test_are_those_of_the_file_that_was_opened_while_it_is_open(self, tmp_path):
        path = put(tmp_path / "a", b"one")
        want = file_identity(path).token
        file = open_path(path)
        token = file.token
        (tmp_path / "a").rename(tmp_path / "b")
        put(tmp_path / "a", b"two")
        assert token.to_json() == want
        file.close()
        assert token.to_json() == want

    @pytest.mark.parametrize("later", [lambda path: path.unlink(), lambda path: path.write_bytes(b"other")])
    def test_of_a_file_that_is_gone_are_no_other_files(self, tmp_path, later):
        path = put(tmp_path / "a", b"one")
        token = self.token(path)
        later(tmp_path / "a")
        assert token.to_json() == Token.GONE


class TestLists:
    def test_are_told_by_what_the_files_hold_in_order(self, tmp_path):
        for folder in ("x", "y"):
            (tmp_path / folder).mkdir()
            for name in "abc":
                put(tmp_path / folder / (folder + name), name.encode())
        here = [str(tmp_path / "x" / f"x{n}") for n in "abc"]
        there = [str(tmp_path / "y" / f"y{n}") for n in "abc"]
        assert str(FileList(here)) == str(FileList(there))
        assert str(FileList(here)) != str(FileList(here[::-1]))
        assert str(FileList(here)) != str(FileList(here[:2]))
        assert str(FileList([*here, "missing"])) != str(FileList([*here, here[0]]))

    def test_of_many_files(self, tmp_path):
        names = [put(tmp_path / f"{i}", b"%d" % i) for i in range(100)]
        assert str(FileList(names)) == str(FileList([f"file://{n}" for n in names]))
        put(tmp_path / "50", b"xx")
        assert str(FileList(names)) != str(FileList([*names[:50], names[51], *names[51:]]))

    def test_in_one_folder(self):
        assert common_folder(["/a/b/c", "/a/b/cd"]) == "/a/b/"
        assert common_folder(["s3://a/x", "s3://b/y"]) == "s3://"
        assert common_folder(["a", "ab"]) == common_folder([]) == ""
