"""Notebooks, executed by a real kernel: bars, tables, reprs, autoreload, interrupts."""

import json
import sys

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = {
    "import": "import headrace as hr, numpy as np\nD = hr.Dataset",
    "bar": "rows = list(D.range(1000).progress('reading'))",
    "unknown": "kept = list(D.range(100).filter(lambda x: x > 5).progress())",
    "statistics": "D.range(5).map(lambda x: {'x': x}).statistics()",
    "dataset": "ds = D.range(5).batch(2)\nds",
    "iterator": "it = iter(ds)\nnext(it)\nit",
    "feed": "ds.as_numpy_iterator()",
    "stats": "it.stats()",
    "explain": "ds.explain()",
    "module": (
        "%load_ext autoreload\n%autoreload 2\n"
        "import pathlib, sys\nsys.path.insert(0, '.')\n"
        "_ = pathlib.Path('steps.py').write_text('def step(x):\\n    return x + 1\\n')\n"
        "import steps\nprint([int(x) for x in D.range(3).map(steps.step)])"
    ),
    "changed": (
        "import os, time\n"
        "_ = pathlib.Path('steps.py').write_text('def step(x):\\n    return x + 10  # changed\\n')\n"
        "os.utime('steps.py', (time.time() + 10, time.time() + 10))"
    ),
    "reloaded": "print([int(x) for x in D.range(3).map(steps.step)])",
    "interrupted": (
        "import os, signal\n"
        "def slow(x):\n    if x == 50:\n        os.kill(os.getpid(), signal.SIGINT)\n    return x\n"
        "seen = []\n"
        "try:\n"
        "    for x in D.range(10**9).map(slow, mode='eager'):\n        seen.append(int(x))\n"
        "except KeyboardInterrupt:\n    print('interrupted')"
    ),
    "live view": "running = iter(D.range(400).batch(10).prefetch(2)); running",
    "running": (
        "import threading\n"
        "*_, view = [each for each in threading.enumerate() if each.name == 'headrace-live-view']\n"
        "count = len(list(running))\nview.join(60)\nprint(count, view.is_alive())"
    ),
    "afterwards": "print(len(seen) < 10**6, [int(x) for x in D.range(3).progress()])",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell shows."""
    folder = tmp_path_factory.mktemp("notebook")
    kernels = folder / "share" / "jupyter" / "kernels" / "here"
    kernels.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "h", "language": "python"}))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    patch = pytest.MonkeyPatch()
    patch.setenv("JUPYTER_PATH", str(folder / "share" / "jupyter"))
    try:
        where = {"metadata": {"path": str(folder)}}
        client = nbclient.NotebookClient(book, timeout=300, kernel_name="here", resources=where)
        client.execute()
    finally:
        patch.undo()
    return dict(zip(CELLS, [cell.outputs for cell in book.cells], strict=True))


def text_of(outputs):
    return "".join(each.get("text", "") or each.get("data", {}).get("text/plain", "") for each in outputs)


def html_of(outputs):
    return "".join(each.get("data", {}).get("text/html", "") for each in outputs)


def test_a_bar_is_one_output_that_ends_full(outputs):
    assert len(outputs["bar"]) == 1
    assert 'value="1000" max="1000"' in html_of(outputs["bar"])
    assert "reading" in html_of(outputs["bar"]) and "1,000/1,000" in html_of(outputs["bar"])
    assert "94 in" in html_of(outputs["unknown"]) and "<progress" not in html_of(outputs["unknown"])


def test_statistics_are_shown_once(outputs):
    shown = [each for each in outputs["statistics"] if each.output_type == "execute_result"]
    others = [each for each in outputs["statistics"] if each.output_type == "stream"]
    assert len(shown) == 1 and others == []
    assert "x" in html_of(shown)


def test_datasets_iterators_and_feeds_show_what_they_are(outputs):
    assert text_of(outputs["dataset"]).startswith("<Dataset range(")
    assert "epoch 0, 1 given" in text_of(outputs["iterator"])
    assert text_of(outputs["feed"]).startswith("<Iterator range(")
    assert "stage" in html_of(outputs["stats"]) and "plan" in html_of(outputs["explain"])


def test_a_function_that_is_reloaded_is_the_one_that_runs(outputs):
    assert text_of(outputs["module"]).endswith("[1, 2, 3]\n")
    assert text_of(outputs["reloaded"]).endswith("[10, 11, 12]\n")


def test_an_interrupt_ends_the_cell_and_nothing_else(outputs):
    assert text_of(outputs["interrupted"]) == "interrupted\n"
    assert text_of(outputs["afterwards"]).endswith("True [0, 1, 2]\n")


def test_the_view_of_an_iterator_follows_it_while_other_cells_run(outputs):
    assert "40 False" in text_of(outputs["running"])
    assert len(outputs["live view"]) == 1
    shown = html_of(outputs["live view"])
    assert "40 given, at its end" in shown and "<meter" in shown
