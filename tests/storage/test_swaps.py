"""Files that replace others: all of them or none, whenever the writer is stopped, and nothing else is touched."""

import contextlib
import os
import secrets
import shutil
import signal
import threading
from pathlib import Path

import pytest

import headrace as hr
from headrace.storage import swaps
from headrace.storage.files import TEMPORARY, write_page
from headrace.storage.locks import HeldLock
from headrace.storage.shelf import Shelf
from headrace.storage.structures import Types
from headrace.storage.swaps import SWAP, NewFiles


def write(folder, shards, factor, **options):
    ds = hr.Dataset.range(20).map(lambda x: {"x": x * factor})
    return ds.write_tfrecord(folder / "t", shards=shards, overwrite=True, **options)


def read(folder):
    return [int(row["x"]) for row in hr.Dataset.from_tfrecord(folder / "t-*.tfrecord")]


def shards(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".tfrecord")


class Stopped(BaseException):
    """What stands for a kill: nothing may be done after it."""


def stopped_at(monkeypatch, step):
    """Have the writer stopped at the step-th of all that it does to names; returns how many there were."""
    count = [0]

    def counted(real):
        def call(*args, **kwargs):
            if count[0] == step:
                raise Stopped
            count[0] += 1
            return real(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
    monkeypatch.setattr(shutil, "rmtree", counted(shutil.rmtree))
    return count


def killed_at(folder, step, **new):
    """Whether a writer got as far as this step, where it dies as by a kill."""
    pid = os.fork()
    if pid == 0:
        monkeypatch = pytest.MonkeyPatch()
        stopped_at(monkeypatch, step)
        try:
            write(folder, factor=2, **new)
        except Stopped:
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


OLD, NEW = list(range(20)), list(range(0, 40, 2))


@pytest.mark.parametrize(("before", "after"), [(3, 3), (2, 4), (4, 1), (1, 1), (None, 3)])
def test_a_kill_at_every_step_leaves_all_or_none(tmp_path, before, after):
    step, seen = 0, []
    while True:
        folder = tmp_path / str(step)
        folder.mkdir()
        if before:
            write(folder, before, 1)
        if not killed_at(folder, step, shards=after):
            break
        there = shards(folder)
        ends = {name.partition("-of-")[2] for name in there}
        if before != after:
            assert len(ends) <= 1, "files of both generations side by side"
        if before is None and not (list(folder.glob(f".*{SWAP}")) or there):
            seen.append(None)  # not even begun
        else:
            seen.append(read(folder))
            assert seen[-1] in (OLD, NEW)
            count = before if seen[-1] == OLD else after
            assert shards(folder) == [f"t-{i:05d}-of-{count:05d}.tfrecord" for i in range(count)]
            assert not list(folder.glob(f".*{SWAP}"))
        write(folder, 2, 2)
        assert read(folder) == NEW and not list(folder.glob(f".*{TEMPORARY}"))
        step += 1
    assert read(tmp_path / str(step)) == NEW
    assert NEW in seen and (OLD if before else None) in seen, "kills fell on both sides of the moment that counts"


@pytest.mark.parametrize("suffix", ["tfrecord", "parquet"])
def test_an_interrupt_while_names_change_finishes_first(tmp_path, monkeypatch, suffix):
    ds = hr.Dataset.range(20).map(lambda x: {"x": x})
    writer = hr.Dataset.write_tfrecord if suffix == "tfrecord" else hr.Dataset.write_parquet
    writer(ds, tmp_path / "t", shards=2)
    replace, hit = Path.replace, []

    def interrupted(self, target):
        if Path(target).name.endswith(f"-of-00003.{suffix}") and not hit:
            hit.append(target)
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer(ds, tmp_path / "t", shards=3, overwrite=True)
    names = sorted(p.name for p in tmp_path.iterdir() if p.is_file())
    assert hit and names == [f"t-{i:05d}-of-00003.{suffix}" for i in range(3)]


def pending(folder):
    """A folder whose files were being replaced when the writer was killed."""
    write(folder, 2, 1)
    step = 0
    while not list(folder.glob(f".*{SWAP}")):
        assert killed_at(folder, step, shards=3)
        step += 1
    return folder


def test_an_interrupt_after_all_names_have_changed_is_an_interrupt(tmp_path, monkeypatch):
    write(tmp_path, 2, 1)
    release = HeldLock.release

    def interrupted(held):
        monkeypatch.setattr(HeldLock, "release", release)
        raise KeyboardInterrupt

    finish = swaps._finish

    def finished(swap):
        finish(swap)
        monkeypatch.setattr(HeldLock, "release", interrupted)

    monkeypatch.setattr(swaps, "_finish", finished)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 3, 2)
    assert read(tmp_path) == [2 * x for x in range(20)]


@pytest.mark.parametrize(
    "reader",
    [
        lambda folder: hr.TFRecordDataset([folder / f"t-{i:05d}-of-00003.tfrecord" for i in range(3)]),
        lambda folder: hr.Dataset.list_files(str(folder / "t-*.tfrecord"), shuffle=False).flat_map(hr.TFRecordDataset),
        lambda folder: hr.Dataset.list_files(str(folder / "*"), shuffle=False).filter(
            lambda name: name.endswith("tfrecord")
        ),
        lambda folder: hr.Dataset.list_files(f"{folder.parent}/*/t-*.tfrecord", shuffle=False),
        lambda folder: hr.Dataset.from_tfrecord(f"file://{folder}/t-*.tfrecord"),
    ],
)
def test_every_reader_finishes_what_a_killed_writer_began(tmp_path, reader):
    folder = tmp_path / "data"
    folder.mkdir()
    assert len(list(reader(pending(folder)))) in (20, 3)
    assert shards(folder) == [f"t-{i:05d}-of-00003.tfrecord" for i in range(3)]
    assert read(folder) == NEW


def test_a_reader_waits_for_a_writer_that_is_at_it(tmp_path, monkeypatch):
    write(tmp_path, 2, 1)
    replace, seen = Path.replace, []

    def meanwhile(self, target):
        if not seen and target.parent == tmp_path:  # names are being changed
            seen.append(os.fork())
            if seen[0] == 0:
                try:
                    os._exit(0 if read(tmp_path) == NEW else 1)
                finally:
                    os._exit(2)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    write(tmp_path, 3, 2, index=False)
    assert os.waitpid(seen[0], 0)[1] == 0


def test_a_swap_that_another_finished_meanwhile_and_did_not_clear_away_is_done(tmp_path, monkeypatch):
    folder = pending(tmp_path)
    (swap,) = folder.glob(f".*{SWAP}")
    lock = swaps.lock

    def late(descriptor, **how):
        swap.rename(folder / f".t.tfrecord.0{TEMPORARY}")  # as if a writer were killed then
        monkeypatch.setattr(swaps, "lock", lock)
        return lock(descriptor, **how)

    monkeypatch.setattr(swaps, "lock", late)
    swaps.finish_swap(swap)
    assert not swap.exists()


def test_a_swap_that_was_made_by_hand_touches_nothing_but_its_own_files(tmp_path):
    write(tmp_path, 1, 1)
    (tmp_path / "precious.tfrecord").write_bytes(b"mine")
    folder = tmp_path / f".t.tfrecord{SWAP}"
    for files, stem in [
        ({"../x": 1}, "t"),
        ({"precious.tfrecord": 1}, "t"),
        ({"t-00000-of-00001.tfrecord/../../x": 1}, "t"),
        ({}, "t"),
        ({"t-00000-of-00001.tfrecord": 1}, "../t"),
        ({"u-00000-of-00001.tfrecord": 1}, "u"),
        ("t-00000-of-00001.tfrecord", "t"),
    ]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "lock").touch()
        write_page(folder / swaps.LIST, {"stem": stem, "suffix": ".tfrecord", "files": files})
        with pytest.raises(hr.StorageError, match=r"hrswap is no swap of headrace's; remove it"):
            read(tmp_path)
    shutil.rmtree(folder)
    assert read(tmp_path) == OLD and (tmp_path / "precious.tfrecord").read_bytes() == b"mine"


def test_a_swap_that_lost_a_file_is_named(tmp_path):
    folder = pending(tmp_path)
    (swap,) = folder.glob(f".*{SWAP}")
    next(swap.glob("*.tfrecord")).unlink()
    with pytest.raises(hr.StorageError, match=r"hrswap is damaged: t-0000\d-of-00003\.tfrecord is not there"):
        read(folder)


def test_files_in_a_store_are_not_replaced(tmp_path):
    ds = hr.Dataset.range(4).map(lambda x: {"x": x})
    ds.write_tfrecord("memory://swaps/t", shards=2)
    with pytest.raises(FileExistsError, match="a store cannot replace 2 files all at once: remove them first"):
        ds.write_tfrecord("memory://swaps/t", shards=3, overwrite=True)
    assert len(list(hr.TFRecordDataset([f"memory://swaps/t-0000{i}-of-00002.tfrecord" for i in range(2)]))) == 4


def test_a_folder_is_removed_though_others_still_write_there(tmp_path):
    def write_on(place):
        with contextlib.suppress(FileNotFoundError):
            while not closed.is_set():
                (place / secrets.token_hex(8)).touch()

    for _ in range(20):
        closed = threading.Event()
        new = NewFiles(tmp_path, "t", ".tfrecord")
        writers = [threading.Thread(target=write_on, args=[new.place / name]) for name in "ab"]
        for name, writer in zip("ab", writers, strict=True):
            (new.place / name).mkdir()
            writer.start()
        new.close()
        closed.set()
        for writer in writers:
            writer.join(300)
        assert list(tmp_path.iterdir()) == []


def test_rows_are_kept_in_no_folder_that_its_owner_has_removed(tmp_path):
    with pytest.raises(FileNotFoundError):
        Shelf(tmp_path / "gone" / "rows", Types(plainly=True)).acquire(parents=False)
    assert list(tmp_path.iterdir()) == []
