"""The examples run, and the README's code does what it says."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_an_example_runs(path, capsys):
    pytest.importorskip("sklearn")
    runpy.run_path(str(path), run_name="__main__")
    assert "accuracy 0.9" in capsys.readouterr().out


def test_the_readme_runs_from_top_to_bottom(capsys):
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks) >= 4
    assert "map failed on element 2" in capsys.readouterr().out
