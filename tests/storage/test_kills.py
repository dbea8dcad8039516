"""A kill at any moment harms nothing: a few of them here, as many as you like by `make kills`."""

import subprocess
import sys
from pathlib import Path


def test_the_run_after_a_kill_has_exactly_the_right_elements():
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run([sys.executable, script, "--kills", "8"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "every next run was right" in done.stdout
