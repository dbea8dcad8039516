"""Files that shrink while they are mapped: their rows, then an error; never the end of the process."""

import subprocess
import sys


def test_files_that_shrink_by_many_pages_while_they_are_read(tmp_path):
    command = [sys.executable, "-W", "ignore", "-m", "tests.sources.shrunken", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[-4:]) == (0, "all\n"), f"{done.stdout[-200:]}\n{done.stderr[-2000:]}"
