"""Tests that need a process of their own: pytest once more, on a file that the outer run does not collect."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*paths, **environment):
    """Fail with what the inner run says if it fails; it must have run something."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--doctest-modules", *paths],
        cwd=ROOT,
        env={**os.environ, "HEADRACE_INSIDE": "1", "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no tests ran" not in done.stdout
