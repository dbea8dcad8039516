"""A kill at any moment harms nothing: a few of them here, as many as you like by `make kills`."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.kills import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_process_after_a_kill_finds_all_or_nothing(kind):
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, script, "--kills", "5", "--kind", kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "every next run was right" in done.stdout
