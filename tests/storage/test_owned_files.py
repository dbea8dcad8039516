"""No interrupt between opening a file and owning it leaks its descriptor."""

import gc
import os
import pathlib
import sys
from pathlib import Path

import pytest
from tests.chaos.interrupts import Interruption
from tests.leaks import Held

from headrace.adapters.buffers import Buffer
from headrace.core.closer import Closer
from headrace.core.owned_file import Descriptor, DescriptorFile, OwnedFile, read_bytes
from headrace.execute.budget import _machine_free as machine_free
from headrace.formats.shared.files import LocalFile, head_of, read_range
from headrace.storage.files import await_writer, lock_directory, named_file, read_page, settle, whole_file, write_page


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


def read_in_one_call(path):
    data = read_bytes(path)
    assert data == read_range(str(path), 0, len(data)) and data.startswith(head_of(str(path)))


@pytest.fixture
def _few_objects():
    """What there is by now is no business of the collector's, which looks for leaks at each moment."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("_few_objects")
@pytest.mark.parametrize("work", [write_whole, write_named, read_again, lock_and_wait, settle])
def test_an_interrupt_at_any_moment_leaks_no_descriptor(work, tmp_path, monkeypatch):
    (tmp_path / "old").write_bytes(b"x")
    warned = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: warned.append(repr(about.exc_value)))
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
        assert warned == [], f"interrupted at {interruption.struck}"


def test_no_code_of_python_opens_what_a_pass_reads(tmp_path):
    """It would leave a file open, with a ResourceWarning, if Ctrl-C came while it does."""
    write_page(tmp_path / "page", {"x": 1})
    with Interruption(module=pathlib.__file__) as counting:
        read_in_one_call(tmp_path / "page")
        read_page(tmp_path / "page")
        machine_free()
    assert not {name for _, name, _ in counting.places} & {"Path.open", "Path.read_bytes", "Path.read_text"}


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
