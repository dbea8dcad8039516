"""The page that lists TensorFlow's names says what holds for the installed TensorFlow."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_datasets")
pytestmark = pytest.mark.tensorflow

TOOL = Path(__file__).parents[2] / "tools/tf_names.py"


def test_the_page_lists_every_name_with_its_status():
    tool = runpy.run_path(str(TOOL))
    assert tool["PAGE"].read_text() == tool["table"](), "run: python tools/tf_names.py"


def test_names_that_are_said_to_be_here_are_here():
    status = runpy.run_path(str(TOOL))["status"]
    assert status("hr.Dataset", "map") == ("same", "")
    assert status("hr.experimental", "save") == ("other name", "`hr.Dataset.save`")
    assert status("hr", "NumpyIterator") == ("other name", "`hr.Iterator`")
    assert status("hr.image", "sobel_edges")[0] == "not here"
