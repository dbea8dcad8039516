"""No interrupt between opening a file and owning it leaks its descriptor."""

import os

import pytest
from tests.chaos.interrupts import Interruption
from tests.leaks import Held

from headrace.core.owned_file import OwnedDirectory, OwnedFile, with_flags
from headrace.formats.shared.files import LocalFile
from headrace.storage.files import await_writer, lock_directory, named_file, settle, whole_file


def write_whole(folder):
    with whole_file(folder / "whole") as file:
        file.write(b"x")


def write_named(folder):
    (folder / "named").unlink(missing_ok=True)
    with named_file(folder / "named", "named") as file:
        file.write(b"x")


def read_again(folder):
    first = LocalFile(str(folder / "old"))
    first.again().close()
    first.close()


def lock_and_wait(folder):
    held = lock_directory(folder)
    if held is not None:
        held.release()
    await_writer(folder)


@pytest.mark.parametrize("work", [write_whole, write_named, read_again, lock_and_wait, settle])
def test_an_interrupt_at_any_line_leaks_no_descriptor(work, tmp_path):
    (tmp_path / "old").write_bytes(b"x")
    with Interruption() as counting:
        work(tmp_path)
    assert counting.lines
    for at in range(counting.lines):
        before = Held.now(tmp_path)
        interruption = Interruption(at)
        try:
            with interruption:
                work(tmp_path)
        except KeyboardInterrupt:
            assert interruption.struck
        left = Held.now(tmp_path).since(before)
        assert "descriptors" not in left, f"interrupted at {interruption.struck}: {left}"


def test_an_owned_file_is_closed_with_its_last_reference(tmp_path, recwarn):
    (tmp_path / "old").write_bytes(b"x")
    file = OwnedFile(tmp_path / "old", opener=with_flags(os.O_RDONLY))
    folder = OwnedDirectory(tmp_path)
    descriptors = [file.fileno(), folder.descriptor]
    assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)
    del file, folder
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    assert not recwarn.list
