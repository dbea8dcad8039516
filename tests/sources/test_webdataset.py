"""WebDataset's tar files, read, written, indexed and damaged."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tests.image.pictures import picture

import headrace as hr


def tar(path, members, form=tarfile.GNU_FORMAT):
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
                continue
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return str(path)


def members(start, stop):
    for i in range(start, stop):
        yield f"./train/{i:04d}.jpg", hr.image.encode_jpeg(picture(8 + i % 3, 9, seed=i))
        yield f"./train/{i:04d}.cls", str(i % 5).encode()
        yield f"./train/{i:04d}.caption.TXT", f"number {i}".encode()


@pytest.fixture
def shards(tmp_path):
    return [
        tar(tmp_path / "a.tar", [("./train", None), *members(0, 7)]),
        tar(tmp_path / "b.tar", members(7, 12), tarfile.PAX_FORMAT),
    ]


def test_files_that_are_called_alike_are_a_sample(shards):
    ds = hr.WebDataset(shards)
    rows = list(ds)
    assert len(rows) == 12
    assert rows[3].keys() == {"__key__", "jpg", "cls", "caption.txt"}
    assert rows[3]["__key__"] == "train/0003"
    assert rows[3]["cls"] == 3
    assert rows[3]["caption.txt"] == "number 3"
    np.testing.assert_array_equal(rows[3]["jpg"], hr.image.decode_jpeg(hr.image.encode_jpeg(picture(8, 9, seed=3))))
    assert ds.element_spec["cls"] == hr.TensorSpec((), np.int64)
    assert ds.element_spec["jpg"] == hr.TensorSpec((None, None, None), np.uint8)


def test_fields_and_decoders_can_be_chosen(shards):
    raw = next(iter(hr.WebDataset(shards, fields=["cls"], decode=False)))
    assert raw == {"__key__": "train/0000", "cls": b"0"}
    own = next(iter(hr.WebDataset(shards, fields=["cls", "caption.txt"], decode={"txt": len, "cls": lambda b: b})))
    assert own == {"__key__": "train/0000", "cls": b"0", "caption.txt": 8}


@pytest.mark.parametrize("block", [None, 600, 5000])
def test_however_much_is_read_at_a_time(shards, block):
    plain = [row["__key__"] for row in hr.WebDataset(shards, decode=False, buffer_size=block)]
    assert plain == [f"train/{i:04d}" for i in range(12)]
    turns = [row["__key__"] for row in hr.WebDataset(shards, decode=False, buffer_size=block, num_parallel_reads=2)]
    assert sorted(turns) == plain


def test_an_index_makes_samples_addressable(shards):
    ds = hr.WebDataset(shards, index=True)
    assert len(ds) == 12
    assert ds[-1]["caption.txt"] == "number 11"
    assert [int(row["cls"]) for row in ds[5:9]] == [0, 1, 2, 3]
    shuffled = [row["__key__"] for row in ds.shuffle(seed=1)]
    assert sorted(shuffled) == [f"train/{i:04d}" for i in range(12)] != shuffled
    twice = hr.Dataset.from_tensor_slices(np.zeros(2, np.int64)).map(lambda i: ds[int(i)]["__key__"], mode="eager")
    assert list(twice) == ["train/0000"] * 2


def test_a_state_goes_on_at_the_same_sample(shards):
    ds = hr.WebDataset(shards, decode=False)
    with ds.iterator() as it:
        for _ in range(5):
            next(it)
        state = it.state()
    assert [row["__key__"] for row in ds.iterator(state=state)] == [f"train/{i:04d}" for i in range(5, 12)]


def test_the_naive_reader_gives_the_same(shards):
    from headrace.testing import check_transformation

    check_transformation(hr.WebDataset(shards, decode=False))
    check_transformation(hr.WebDataset(shards, decode=False, num_parallel_reads=2).batch(2))


def test_a_sample_that_lacks_a_file_is_one_error(tmp_path):
    path = tar(
        tmp_path / "x.tar", [("a.cls", b"1"), ("a.txt", b"x"), ("b.cls", b"2"), ("c.txt", b"z"), ("c.cls", b"3")]
    )
    ds = hr.WebDataset(path)
    with pytest.raises(hr.ElementError, match="sample 'b' has no 'txt': there are 'cls'"):
        list(ds)
    assert [int(row["cls"]) for row in ds.ignore_errors()] == [1, 3]
    assert [int(row["cls"]) for row in hr.WebDataset(path, on_error="skip")] == [1, 3]


def test_damage_is_an_error_in_its_place(shards, tmp_path):
    data = bytearray((tmp_path / "a.tar").read_bytes())
    (tmp_path / "cut.tar").write_bytes(data[: len(data) // 2])
    ds = hr.WebDataset([str(tmp_path / "cut.tar"), shards[1]], decode=False, fields=["cls"])
    rows = list(ds.ignore_errors())
    assert [row["__key__"] for row in rows[-5:]] == [f"train/{i:04d}" for i in range(7, 12)]
    with pytest.raises(hr.ElementError, match="ends within a member"):
        list(ds)
    (tmp_path / "no.tar").write_bytes(b"no archive at all " * 100)
    with pytest.raises(ValueError, match="is this a tar file"):
        hr.WebDataset(str(tmp_path / "no.tar"))
    with pytest.raises(hr.ElementError, match="is this a tar file"):
        list(hr.WebDataset(str(tmp_path / "no.tar"), fields=["cls"]))


def test_names_of_any_length_and_gzip_are_read(tmp_path):
    import gzip

    long = "d" * 90 + "/" + "k" * 150
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = tar(tmp_path / f"{form}.tar", [(f"{long}.cls", b"1"), (f"{long}2.cls", b"2")], form)
        assert [row["__key__"] for row in hr.WebDataset(path)] == [long, long + "2"]
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress((tmp_path / f"{tarfile.GNU_FORMAT}.tar").read_bytes()))
    assert [int(r["cls"]) for r in hr.WebDataset(str(tmp_path / "x.tar.gz"), compression_type="GZIP")] == [1, 2]


def test_what_is_written_is_read_again_by_all(tmp_path):
    images = [picture(8, 9, seed=i) for i in range(10)]

    def row(i):
        return {
            "__key__": f"{i:03d}",
            "png": images[i],
            "cls": i,
            "txt": f"t{i}",
            "npy": np.arange(i),
            "bin": b"\0" * i,
        }

    ds = hr.Dataset.range(10).map(row, mode="eager")
    files = ds.write_webdataset(tmp_path / "out", shards=3)
    assert [f.rsplit("/", 1)[1] for f in files] == [f"out-0000{i}-of-00003.tar" for i in range(3)]
    again = hr.WebDataset(files)
    assert len(again) == 10
    for i, made in enumerate(again):
        np.testing.assert_array_equal(made["png"], images[i])
        np.testing.assert_array_equal(made["npy"], np.arange(i))
        assert (made["cls"], made["txt"], made["bin"]) == (i, f"t{i}", b"\0" * i)
    with tarfile.open(files[0]) as archive:
        names = archive.getnames()
    assert names[:5] == ["000.bin", "000.cls", "000.npy", "000.png", "000.txt"]
    more = ds.write_webdataset(tmp_path / "more", shards=3)
    assert [Path(f).read_bytes() for f in files] == [Path(f).read_bytes() for f in more]


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(TypeError, match="a sample needs a __key__"):
        hr.Dataset.range(3).map(lambda i: {"cls": i}).write_webdataset(tmp_path / "x")
    with pytest.raises(ValueError, match="would not be read back"):
        hr.Dataset.range(3).map(lambda i: {"__key__": "a.b", "cls": i}).write_webdataset(tmp_path / "x")
    with pytest.raises(TypeError, match="make bytes of it"):
        hr.Dataset.range(3).map(lambda i: {"__key__": "a", "cls": 0.5}).write_webdataset(tmp_path / "x")
    assert not list(tmp_path.glob("x*"))


def test_any_byte_changed_is_read_or_told(tmp_path):
    from headrace.formats.shared.format import ScanHints, ScannedRows
    from headrace.formats.webdataset.format import TarSamples

    path = tar(tmp_path / "x.tar", [(f"{i}.{e}", b"x" * (i * 100)) for i in range(6) for e in ("cls", "txt")])
    data = np.fromfile(path, np.uint8)
    rng = np.random.default_rng(0)
    form = TarSamples("", ("cls", "txt"))
    for _ in range(500):
        hurt = data.copy()
        for _ in range(3):
            hurt[rng.integers(len(hurt))] = rng.integers(256)
        hurt = hurt[: rng.integers(len(hurt) + 1)]
        for final in (False, True):
            found = form.scan(hurt, ScanHints(final=final))
            assert 0 <= found.used <= len(hurt)
            assert sum(p.rows for p in found.parts if isinstance(p, ScannedRows)) <= 6
        form.starts(hurt, final=True)


CUT = "ends without the empty blocks that end a tar archive"


def unfinished(path, rows=20):
    """The first `rows` samples of an archive, without what follows them."""
    whole = Path(tar(path, [(f"{i:02d}.{ending}", b"%d" % i) for i in range(20) for ending in ("cls", "txt")]))
    whole.write_bytes(whole.read_bytes()[: rows * 2048])
    return str(whole)


def compressed(path):
    import gzip

    made = Path(path + ".gz")
    made.write_bytes(gzip.compress(Path(path).read_bytes()))
    return str(made)


def in_a_store(path):
    fsspec = pytest.importorskip("fsspec")
    url = f"memory://cut-short/{path.replace('/', '-')}"
    with fsspec.open(url, "wb") as file:
        file.write(Path(path).read_bytes())
    return url


READ = {
    "all": lambda path, **how: len(list(hr.WebDataset(path, ["cls"], **how))),
    "batches": lambda path, **how: sum(len(b["cls"]) for b in hr.WebDataset(path, ["cls"], **how).batch(1)),
    "in small windows": lambda path, **how: len(list(hr.WebDataset(path, ["cls"], buffer_size=3000, **how))),
    "one thread": lambda path, **how: len(
        list(hr.WebDataset(path, ["cls"], **how).with_options(hr.Options(cpu_budget=1)))
    ),
    "skip": lambda path, **how: 12 + len(list(hr.WebDataset(path, ["cls"], **how).skip(12))),
}


@pytest.mark.parametrize("how", READ)
@pytest.mark.parametrize("place", [str, compressed, in_a_store])
def test_an_archive_that_was_cut_between_two_samples_gives_one_warning(tmp_path, how, place):
    path = place(unfinished(tmp_path / "cut.tar", 12))
    more = {"compression_type": "GZIP"} if place is compressed else {}
    with pytest.warns(hr.PipelineWarning, match=CUT) as caught:
        assert READ[how](path, **more) == 12
    assert len(caught) == 1 and "cut.tar" in str(caught[0].message)
    assert READ[how](path, **more) == 12


def test_an_archive_that_was_cut_within_a_large_file_gives_a_warning(tmp_path):
    content = [(f"{i:04d}.bin", bytes(100_000)) for i in range(100)]
    path = Path(tar(tmp_path / "large.tar", content))
    path.write_bytes(path.read_bytes()[: 64 * (512 + 100_352)])  # on several threads
    with pytest.warns(hr.PipelineWarning, match=CUT):
        assert len(list(hr.WebDataset(str(path)))) == 64


def test_the_warning_is_an_error_if_warnings_are(tmp_path):
    with hr.WebDataset(unfinished(tmp_path / "cut.tar", 12), ["cls"]).iterator() as it:
        for _ in range(2):
            with pytest.raises(hr.PipelineWarning, match=CUT):
                while True:
                    next(it)


@pytest.mark.parametrize("index", [True, "beside"])
def test_an_index_of_an_archive_that_was_cut_gives_a_warning(tmp_path, monkeypatch, index):
    path = unfinished(tmp_path / "cut.tar", 12)
    for _ in range(2):  # the index is made, and found
        monkeypatch.setattr("headrace.errors._warned", set())
        with pytest.warns(hr.PipelineWarning, match=CUT):
            assert hr.WebDataset(path, ["cls"], index=index)[11]["cls"] == 11


def test_an_archive_that_was_cut_within_padding_is_an_error(tmp_path):
    path = Path(unfinished(tmp_path / "cut.tar", 12))
    for lacking in (1, 500):
        path.write_bytes(path.read_bytes()[: 12 * 2048 - lacking])
        ds = hr.WebDataset(str(path), ["cls"])
        with pytest.raises(hr.ElementError, match="ends within the padding of its last member"):
            list(ds)
        assert len(list(ds.ignore_errors())) == len(list(hr.WebDataset(str(path), ["cls"], on_error="skip"))) == 12
        with pytest.raises(hr.ElementError, match="ends within the padding"):
            hr.WebDataset(str(path), ["cls"], index=True)


def test_an_empty_archive_gives_a_warning_and_one_that_is_whole_does_not(tmp_path):
    (tmp_path / "empty.tar").touch()
    with pytest.warns(hr.PipelineWarning, match=CUT):
        assert list(hr.WebDataset(str(tmp_path / "empty.tar"), ["cls"])) == []
    whole = Path(tar(tmp_path / "whole.tar", [(f"{i}.cls", b"1") for i in range(3)]))
    joined = tmp_path / "joined.tar"
    joined.write_bytes(whole.read_bytes() * 2)
    none = tar(tmp_path / "none.tar", [])
    one_block = tmp_path / "one.tar"
    one_block.write_bytes(whole.read_bytes()[: 3 * 1024 + 512])
    assert len(list(hr.WebDataset([str(whole), str(joined), none, str(one_block)], ["cls"]))) == 12
    ds = hr.WebDataset([str(whole), str(joined)], ["cls"])
    for rows in range(10):  # a state may be at the end of a file
        with ds.iterator() as it:
            for _ in range(rows):
                next(it)
            state = it.state()
        assert len(list(ds.iterator(state=state))) == 9 - rows
