"""Writers of every kind whose disk fails, fills up or ends them at any of their calls."""

import errno
import os
import pickle

from headrace.storage import rows
from tests.chaos import disk
from tests.chaos.pipelines import TEMPORARY, check_nothing_left
from tests.storage import kills

SIZE = 40
FATES = [
    (disk.KILL, 0),
    (disk.KILL, 0),
    (disk.INTERRUPT, 0),
    (disk.FAIL, errno.EIO),
    (disk.FAIL, errno.ENOSPC),
    (disk.FAIL_ALWAYS, errno.ENOSPC),
    (disk.SHORT_ALWAYS, 0),
]


def stopped(chance, folder):
    if not disk.there():
        return
    kills.ROWS, kills.SIZE = chance.randint(20, 120), SIZE
    rows.PART_BYTES = 20 * SIZE * 8
    kind = chance.choice(list(kills.KINDS))
    place = folder / "written"
    place.mkdir()
    writer = kills.KINDS[kind](place)
    writer.prepare()
    number = disk.count(place, disk.CHANGES, lambda: ended(writer.work))
    writer.check()
    for _ in range(chance.randint(1, 3)):
        writer.prepare()
        what, error = chance.choice(FATES)
        calls = disk.WRITE | disk.SYNC if what == disk.FAIL_ALWAYS else disk.CHANGES  # names can be removed always
        with disk.failing(place, calls, what, chance.randint(1, max(1, number)), error) as control:
            end = ended(writer.work)
        about = f"{kind}: {what=} {control.fired=} {end=}"
        assert what == disk.KILL or end != "killed", about
        if what == disk.SHORT_ALWAYS or not control.fired:
            assert end is None, about
        elif what in (disk.FAIL, disk.FAIL_ALWAYS):
            assert end is None or "Interrupt" not in end, about
            assert end is None or str(place) in end, f"which file? {about}"
            if calls != disk.CHANGES:  # files that count, and wait for a reader to have them in their places, may be
                check_nothing_left(place, TEMPORARY)
        try:
            writer.check()
            check_nothing_left(place)
        except BaseException as wrong:
            raise AssertionError(about) from wrong


def ended(work):
    """How `work`, in a process of its own, ended: None, what it raised, or that it was killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            os.write(write, pickle.dumps(f"{type(error).__name__}: {error}"))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        what = said.read()
    _, status = os.waitpid(pid, 0)
    return "killed" if status else pickle.loads(what) if what else None
