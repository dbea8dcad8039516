"""The disk that fails: `with failing(...)` has the n-th call on files of a folder fail, come short, or be the last.

It is a library that is loaded before libc, so that it stands before Python, Arrow and the kernels alike.
"""

import contextlib
import ctypes
import mmap
import os
import shutil
import subprocess
from pathlib import Path

READ, WRITE, SYNC, NAME = 1, 2, 4, 8
CHANGES = WRITE | SYNC | NAME
NOTHING, FAIL, SHORT, KILL, INTERRUPT, SHORT_ALWAYS, FAIL_ALWAYS = range(7)
FAR = 1 << 30


class Control(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("calls", "what", "error", "left", "fired")] + [
        ("folder", ctypes.c_char * 512)
    ]


def build(folder):
    """The variables of a process that is to have such a disk; none where there is no compiler, or another system."""
    cc = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    library = Path(folder, "disk.so")
    if cc is None or os.uname().sysname != "Linux":
        return {}
    source = Path(__file__).with_name("disk.c")
    subprocess.run([cc, "-O1", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    control = Path(folder, "control")
    control.write_bytes(bytes(ctypes.sizeof(Control)))
    return {"LD_PRELOAD": str(library), "CHAOS_CONTROL": str(control)}


def _control():
    with open(os.environ["CHAOS_CONTROL"], "r+b") as file:  # noqa: PTH123
        return Control.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Control)))


def there():
    """Whether this process has such a disk."""
    return "CHAOS_CONTROL" in os.environ


@contextlib.contextmanager
def failing(folder, calls, what, number=1, error=0):
    """Have the `number`-th of these calls on files below `folder`, by any process, meet its fate."""
    control = _control()
    control.folder = os.fsencode(folder)
    control.calls, control.error, control.left, control.fired = calls, error, number, 0
    control.what = what
    try:
        yield control
    finally:
        control.what = NOTHING


def count(folder, calls, work):
    """How many such calls `work` makes."""
    with failing(folder, calls, FAIL, FAR) as control:
        work()
        return FAR - control.left
