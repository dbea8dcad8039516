"""Turn tutorials into executed notebooks: `python tools/make_notebooks.py` writes examples/notebooks/*.ipynb.

Each notebook has the text and the code of one page of docs/tutorials, and what the code printed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
NOTEBOOKS = ROOT / "examples" / "notebooks"
PAGES = ("images", "text", "resume")
SITE = "https://headrace.github.io/headrace/"
TIMEOUT_SECONDS = 600


def cells_of(page: str) -> list[tuple[str, str]]:
    """Return (`markdown` or `code`, text) of each cell of a tutorial.

    Args:
        page: Name of the page, without its ending.
    """
    text = (TUTORIALS / f"{page}.md").read_text()
    found = []
    code_and_output = r"^(```python\n.*?^```)$(?:\n\n```text\n.*?^```$)?"  # a notebook has its own output
    for part in re.split(code_and_output, text, flags=re.MULTILINE | re.DOTALL):
        code = re.fullmatch(r"```python\n(.*?)\n?```", part, re.DOTALL)
        if code:
            found.append(("code", code.group(1)))
        elif part.strip():
            found.append(("markdown", links_to_site(part.strip())))
    return found


def links_to_site(text: str) -> str:
    """Return Markdown whose links between pages lead to the documentation site."""

    def absolute(link: re.Match[str]) -> str:
        path = Path(os.path.normpath(f"tutorials/{link.group(1)}")).as_posix()
        return f"]({SITE}{path}.html{link.group(2) or ''})"

    return re.sub(r"\]\((?!\w+://)([^)#\s]+)\.md(#[^)]*)?\)", absolute, text)


def notebook(page: str) -> Any:
    """Return the notebook of a tutorial, not yet executed."""
    from nbformat import v4

    cells = []
    for number, (kind, text) in enumerate(cells_of(page)):
        make = v4.new_code_cell if kind == "code" else v4.new_markdown_cell
        cells.append(make(text, id=f"cell-{number}"))
    made = v4.new_notebook(cells=cells)
    made.metadata = {"language_info": {"name": "python"}}
    return made


def execute(made: Any) -> Any:
    """Run all cells with this Python, in an empty folder."""
    import nbclient

    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder, "share/jupyter/kernels/this")
        kernel.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "this", "language": "python"}))
        os.environ["JUPYTER_PATH"] = str(kernel.parents[1])
        work = Path(folder, "work")
        work.mkdir()
        resources = {"metadata": {"path": str(work)}}
        nbclient.NotebookClient(made, timeout=TIMEOUT_SECONDS, kernel_name="this", resources=resources).execute()
    made.metadata = {"language_info": {"name": "python"}}
    for cell in made.cells:
        cell.metadata = {}
    return made


def main() -> None:
    """Write the notebooks of all pages."""
    import nbformat

    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        nbformat.write(execute(notebook(page)), NOTEBOOKS / f"{page}.ipynb")
        print(NOTEBOOKS / f"{page}.ipynb")


if __name__ == "__main__":
    main()
