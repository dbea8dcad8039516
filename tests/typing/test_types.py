"""Types of elements survive a pipeline, as mypy sees it."""

import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr

PROGRAM = Path(__file__).with_name("user_program.py")


@pytest.mark.slow
def test_types_are_inferred_and_mistakes_are_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import headrace as hr\n\n\n"
        "def double(x: bytes) -> int:\n    return 2 * len(x)\n\n\n"
        "for number in hr.TFRecordDataset('a').map(double).shuffle(3):\n    number.upper()\n"
    )
    options = ["--no-incremental", "--follow-imports=silent", "--ignore-missing-imports", "--strict"]
    command = [sys.executable, "-m", "mypy", *options, str(PROGRAM), str(wrong)]  # at once: most of it reads headrace
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROGRAM.parents[2])
    if "No module named mypy" in done.stderr:
        pytest.skip("mypy is not installed")
    (found,) = [line for line in done.stdout.splitlines() if f"{PROGRAM.name}:" in line or "wrong.py:" in line]
    assert "wrong.py:9" in found and '"int" has no attribute "upper"' in found


def test_datasets_can_be_subscripted_at_run_time():
    def rows() -> hr.Dataset[int]:
        return hr.Dataset.range(3)

    assert list(rows()) == [0, 1, 2]
    assert isinstance(rows(), hr.Dataset)
