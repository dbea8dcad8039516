"""Notebooks are tutorials as they are now, executed from top to bottom without an error or a warning."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools/make_notebooks.py"))
REMEDY = "run `python tools/make_notebooks.py`"


@pytest.fixture(params=TOOL["PAGES"])
def page(request):
    return request.param


def cells(page):
    return json.loads((TOOL["NOTEBOOKS"] / f"{page}.ipynb").read_text())["cells"]


def test_a_notebook_has_the_text_and_the_code_of_its_tutorial(page):
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in cells(page)] == TOOL["cells_of"](page), REMEDY


def test_a_notebook_was_run_in_order_without_errors_or_warnings(page):
    code = [cell for cell in cells(page) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    assert [each for each in outputs if each["output_type"] == "error" or each.get("name") == "stderr"] == []


def test_links_lead_to_the_site():
    page = TOOL["links_to_site"]("[a](../how-to/x.md#y), [b](text.md), [c](https://example.org/z.md)")
    site = TOOL["SITE"]
    assert page == f"[a]({site}how-to/x.html#y), [b]({site}tutorials/text.html), [c](https://example.org/z.md)"
