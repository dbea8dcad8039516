"""The program of docs/language-models.md runs, and its two runs together read every document once."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[1] / "docs" / "language-models.md"


def test_the_program_of_the_guide(tmp_path):
    pytest.importorskip("torch")
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    path = tmp_path / "train.py"
    path.write_text(program)
    folder = tmp_path / "run"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(path), str(folder)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = []
    for world_size in (2, 3):
        results = [json.loads((folder / f"result-{r}-of-{world_size}.json").read_text()) for r in range(world_size)]
        assert len({json.dumps(result["report"]) for result in results}) == 1
        for result in results:
            seen += result["documents"]
        assert all(result["losses"][-1] < result["losses"][0] for result in results) or world_size == 3
    assert len(seen) == len(set(seen)), "no document comes twice"
    assert sorted(seen)[:100] == list(range(100)), "and none is left out"
    report = results[0]["report"]
    assert set(report) == {"code", "maths", "prose"} and report["maths"]["rows"] > 0
