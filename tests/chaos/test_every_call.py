"""A disk that fails at each call of every writer, and at each read of every reader."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.files import KINDS
from tests.storage import kills

MAPPED = {"records", "records, indexed", "examples", "fixed length", "samples"}
"""Small files of these are mapped, and no call reads them."""

pytestmark = pytest.mark.xdist_group("every call")


@pytest.fixture(scope="module")
def said():
    command = [sys.executable, "-m", "tests.chaos.every_call"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    if "not tried" in done.stdout:
        pytest.skip(done.stdout)
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", kills.KINDS)
def test_a_writer_leaves_the_old_or_the_new_and_the_next_run_succeeds(said, kind):
    assert failed_calls(said, kind) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_raises_and_goes_on_with_the_very_next_row(said, kind):
    assert (failed_calls(said, kind) == 0) == (kind in MAPPED)


def failed_calls(said, kind):
    found = re.search(rf"^{re.escape(kind)}: (\d+) calls failed$", said, re.MULTILINE)
    assert found, said
    return int(found[1])
