"""Hooks of MkDocs: generated pages, pages of the repository's root, and links that leave the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "https://github.com/headrace/headrace/blob/main/"
FROM_ROOT = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "code_of_conduct.md": "CODE_OF_CONDUCT.md",
}
"""Pages of the documentation that are files of the repository's root."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are generated, and those of the repository's root."""
    sys.path.insert(0, str(ROOT / "tools"))
    from docs_reference import pages
    from mkdocs.structure.files import File

    texts = {**pages(), **{page: (ROOT / name).read_text() for page, name in FROM_ROOT.items()}}
    for path, text in texts.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links so that they work on the site as they do in the repository."""
    if page.file.src_uri in FROM_ROOT:
        markdown = re.sub(r"\]\(docs/", "](", markdown)
    for target, name in FROM_ROOT.items():
        markdown = re.sub(rf"\]\((?:\.\./)*{re.escape(name)}", f"]({_up(page)}{target}", markdown)
    return re.sub(r"\]\((?:\.\./)*((?:src|tests|examples|benchmarks)/[^)]*)\)", rf"]({SOURCE}\1)", markdown)


def _up(page: Any) -> str:
    return "../" * page.file.src_uri.count("/")
