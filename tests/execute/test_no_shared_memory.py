"""Memory shared with worker processes that cannot grow: an error, never a signal that ends the process."""

import errno
import os
import resource
import subprocess
import sys

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
FULL_DISK = """
import os, sys
import numpy as np
from headrace.errors import WorkerError
from headrace.execute.processes.shared_values import Shared
memory = Shared(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT))
memory.write([np.ones(1 << 16)])
try:
    memory.write([np.ones(1 << 20)])
except WorkerError as error:
    print(error)
print(int(memory.lend(0, np.float64, (1 << 16,)).sum()))
"""


def test_a_full_disk_below_shared_memory_is_an_error(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        command = [sys.executable, "-c", FULL_DISK, tmp_path / "memory"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert done.returncode == 0, done
    assert "no shared memory for the 8388608 bytes" in done.stdout and done.stdout.endswith("\n65536\n")


def large(x):
    if x == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    return np.full(1 << 19, x)


def test_an_answer_for_which_there_is_no_memory_ends_the_pass_with_the_reason():
    reason = pytest.raises(hr.WorkerError, match=r"no shared memory for the \d+ bytes.*smaller batches")
    with iter(D.range(4).map(large, mode="process", num_parallel_calls=1)) as it, reason:
        list(it)


def test_a_request_for_which_there_is_no_memory_is_an_error(monkeypatch):
    rows = D.from_tensor_slices(np.zeros((4, 1 << 16))).map(lambda x: x.sum(), mode="process", num_parallel_calls=1)

    def full(fd, start, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with iter(rows) as it, pytest.raises(hr.WorkerError, match="No space left on device"):
        next(it)
    monkeypatch.undo()
    assert list(rows) == [0.0] * 4


def test_memory_grows_without_fallocate(monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    rows = np.arange(3 << 17).reshape(3, 1 << 17)
    sums = D.from_tensor_slices(rows).map(lambda x: x.sum(), mode="process", num_parallel_calls=1)
    assert list(sums) == rows.sum(1).tolist()
