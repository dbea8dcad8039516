"""No interrupt between opening a file and owning it leaks its descriptor."""

import gc
import os
from pathlib import Path

import pytest
from tests.chaos.interrupts import Interruption
from tests.leaks import Held

from headrace.adapters.buffers import Buffer
from headrace.core.closer import Closer
from headrace.core.owned_file import Descriptor, DescriptorFile, OwnedFile
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


@pytest.fixture
def _few_objects():
    """What there is by now is no business of the collector's, which looks for leaks at each moment."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_few_objects")
@pytest.mark.parametrize("work", [write_whole, write_named, read_again, lock_and_wait, settle])
def test_an_interrupt_at_any_moment_leaks_no_descriptor(work, tmp_path):
    (tmp_path / "old").write_bytes(b"x")
    with Interruption() as counting:
        work(tmp_path)
    assert counting.moments
    for at in range(counting.moments):
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
    owned = [
        OwnedFile(tmp_path / "old"),
        DescriptorFile.with_flags(tmp_path / "old", os.O_RDONLY),
        named_file(tmp_path / "new", "new"),
        Descriptor.of_path(tmp_path, os.O_RDONLY),
    ]
    descriptors = [each.fileno() for each in owned]
    assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)
    owned.clear()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    assert not recwarn.list


def test_a_descriptor_that_is_no_file_does_not_leak(tmp_path):
    before = Held.now()
    with pytest.raises(IsADirectoryError):
        DescriptorFile.with_flags(tmp_path, os.O_RDONLY)
    assert not Held.now().since(before)


def test_a_descriptor_is_closed_once(tmp_path):
    descriptor = Descriptor.of_path(tmp_path, os.O_RDONLY)
    number = descriptor.fileno()
    descriptor.close()
    with Path(tmp_path, "other").open("wb") as other:
        assert other.fileno() == number
        descriptor.close()
        del descriptor
        other.write(b"x")


@pytest.mark.parametrize("kind", [Closer, Descriptor, LocalFile, Buffer])
def test_what_an_interrupt_left_unmade_goes_without_a_word(kind):
    kind.__del__(kind.__new__(kind))
