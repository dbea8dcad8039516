"""Archives: files of a tar are found however it is compressed, and damage is an error."""

import gzip
import io
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

import headrace as hr
from headrace.datasets.formats.archives import archive_files, files_of_tar_in
from headrace.datasets.formats.inflated import Checkpoints, InflatedFile, checkpoints_of, keeping_checkpoints

FILES = {"a/one.bin": bytes(range(256)) * 9000, "a/two.bin": b"x" * 3_000_000, "a/.hidden": b"no", "three": b"end"}


def tar(mode):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        for name, content in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
def test_files_of_a_tar(tmp_path, mode):
    (tmp_path / "x.tar").write_bytes(tar(mode))
    found = {name: file.read() for name, file in archive_files(tmp_path / "x.tar")}
    assert found == {name: data for name, data in FILES.items() if "hidden" not in name}
    assert [name for name, _ in archive_files(tmp_path / "x.tar", lambda name: name == "three")] == ["three"]


def test_files_of_a_tar_in_a_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("home/x.tar.gz", tar("w:gz"))
    found = {name: file.read() for name, file in files_of_tar_in(tmp_path / "x.zip", "home/x.tar.gz")}
    assert found == {name: data for name, data in FILES.items() if "hidden" not in name}
    with pytest.raises(hr.StorageError, match=r"x\.zip has no file other\.tar"):
        list(files_of_tar_in(tmp_path / "x.zip", "other.tar"))


def test_a_gzip_file_of_several_members_and_going_back():
    data = gzip.compress(b"abc" * 1000) + gzip.compress(b"") + gzip.compress(b"def") + bytes(100)
    whole = b"abc" * 1000 + b"def"
    file = io.BufferedReader(InflatedFile(io.BytesIO(data)), 64)
    assert file.read() == whole
    for at in (2998, 5, 0, 3001):
        assert file.seek(at) == at
        assert file.read(7) == whole[at : at + 7]
    assert file.seek(5000) == len(whole)
    assert file.read(1) == b""


def test_a_gzip_file_that_is_cut_off_or_damaged(tmp_path):
    data = tar("w:gz")
    for spoiled, error in (
        (data[:-9], EOFError),
        (data[: len(data) // 2], EOFError),
        (data[:-8] + bytes([data[-8] ^ 1]) + data[-7:], zlib.error),
    ):
        with pytest.raises(error):
            InflatedFile(io.BytesIO(spoiled)).readall()
    (tmp_path / "x.tar").write_bytes(data[: len(data) // 2])
    with pytest.raises(EOFError, match="ends before its end mark"):
        sum(len(file.read()) for _, file in archive_files(tmp_path / "x.tar"))


@pytest.mark.parametrize("spacing", [1, 900, 70_000])
def test_known_places_change_no_byte(spacing):
    rng = np.random.default_rng(3)
    whole = rng.integers(97, 101, 400_000, np.uint8).tobytes()
    data = gzip.compress(whole[:150_000]) + gzip.compress(whole[150_000:])
    checkpoints = Checkpoints(spacing)
    for _ in range(2):
        file = io.BufferedReader(InflatedFile(io.BytesIO(data), checkpoints), 512)
        for at in rng.integers(0, len(whole), 60).tolist():
            file.seek(at)
            assert file.read(700) == whole[at : at + 700]
    assert InflatedFile(io.BytesIO(data), checkpoints).readall() == whole


def test_a_second_reader_inflates_only_what_it_reads(tmp_path, monkeypatch):
    (tmp_path / "x.tar.gz").write_bytes(tar("w:gz"))
    inflated = [0]
    readinto = InflatedFile.readinto

    def counting(self, buffer):
        made = readinto(self, buffer)
        inflated[-1] += made
        return made

    monkeypatch.setattr(InflatedFile, "readinto", counting)
    monkeypatch.setattr(Checkpoints.__init__, "__defaults__", (200_000,))
    with keeping_checkpoints():
        for name in ("a/one.bin", "three"):
            found = {path: file.read() for path, file in archive_files(tmp_path / "x.tar.gz", name.__eq__)}
            assert found == {name: FILES[name]}
            inflated.append(0)
        assert checkpoints_of(tmp_path / "x.tar.gz") is not None
    assert checkpoints_of(tmp_path / "x.tar.gz") is None
    assert inflated[0] > sum(map(len, FILES.values()))
    assert inflated[1] < inflated[0] / 2


def test_checkpoints_are_kept_as_long_as_any_build_runs(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"abc"))
    first, second = keeping_checkpoints(), keeping_checkpoints()
    first.__enter__()
    second.__enter__()
    kept = checkpoints_of(path)
    first.__exit__(None, None, None)
    assert checkpoints_of(path) is kept is not None
    second.__exit__(None, None, None)
    assert checkpoints_of(path) is None
