"""Every Python block of the documentation runs, from top to bottom of its page, in a folder of its own."""

import contextlib
import importlib
import importlib.util
import inspect
import io
import re
import runpy
import warnings
from pathlib import Path

import pytest
import yaml

import headrace as hr

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDERS = ("get-started", "tutorials", "how-to", "coming-from")
PAGES = [
    DOCS / f"{name}.md" for name in ("concepts", "device", "faq", "images", "index", "performance", "shards", "tables")
]
PAGES += sorted(path for folder in FOLDERS for path in (DOCS / folder).glob("*.md"))
MIN_HOW_TO_PAGES = 25
NEEDS = {"train-boosted-trees": ("xgboost", "lightgbm"), "batch-graphs": ("torch_geometric",)}
"""Packages that a page imports besides those that other tests need."""


def blocks(page):
    """Code, first line and output of each Python block; blocks that are indented belong to notes and lists."""
    text = page.read_text()
    pattern = r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        yield match.group(1), text.count("\n", 0, match.start()) + 1, match.group(2)


def looks_like(shown, printed):
    """Whether a page shows what its code prints; `…` stands for anything, such as a time."""
    return re.fullmatch(re.escape(shown).replace("…", ".*?"), printed, re.DOTALL) is not None


WITH_CODE = [page for page in PAGES if any(blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for package in NEEDS.get(page.stem, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    names = {"__name__": "docs"}
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # a reader sees warnings; they are no errors
        for code, line, shown in blocks(page):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + code, str(page), "exec"), names)
            assert shown is None or looks_like(shown, printed.getvalue()), (line, printed.getvalue())
    names.clear()  # drops the iterators, which ends their threads


def test_there_are_many_how_to_pages():
    pages = {path.stem for path in (DOCS / "how-to").glob("*.md")} - {"index"}
    linked = set(re.findall(r"\]\(([\w-]+)\.md\)", (DOCS / "how-to/index.md").read_text()))
    assert pages == linked
    assert len(pages) >= MIN_HOW_TO_PAGES


@pytest.fixture(scope="module")
def generated():
    """The pages that MkDocs gets from a hook: path in the documentation, and text."""
    return runpy.run_path(str(ROOT / "tools/docs_reference.py"))["pages"]()


def test_the_reference_documents_every_public_name(generated):
    text = "\n".join(generated.values())
    homes = [("hr", hr)]
    modules = [name for name in hr.__all__ if inspect.ismodule(getattr(hr, name))]
    homes += [(f"hr.{name}", importlib.import_module(f"headrace.{name}")) for name in modules]
    names = {f"{home}.{name}" for home, module in homes for name in module.__all__} - {f"hr.{name}" for name in modules}
    names -= {"hr.checkpoint.orbax"}
    names |= {"hr.checkpoint.orbax.FeedSave", "hr.checkpoint.orbax.FeedRestore"}
    names |= {f"hr.Dataset.{name}" for name in dir(hr.Dataset) if not name.startswith("_")}
    assert {name for name in names - {"hr.Dataset"} if f'"{name}"' not in text and f"`{name}`" not in text} == set()


def test_the_page_of_the_command_line_names_every_command(generated):
    for command in ("inspect", "verify", "convert", "doctor", "selftest", "cache ls", "dataset build"):
        assert f"## `headrace {command}`" in generated["cli.md"]


def targets(entry):
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from targets(each)


def test_the_navigation_holds_every_page_once(generated):
    text = re.sub(r"!!python\S*", "", (ROOT / "mkdocs.yml").read_text())
    shown = list(targets(yaml.safe_load(text)["nav"]))
    assert len(shown) == len(set(shown))
    from_root = runpy.run_path(str(ROOT / "tools/docs_hooks.py"))["FROM_ROOT"]
    assert all((ROOT / name).is_file() for name in from_root.values())
    written = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md") if p.parent.name not in ("decisions", "datasets")}
    assert set(shown) == written | set(generated) | set(from_root)


def test_links_between_pages_lead_somewhere(generated):
    elsewhere = {*generated, "architecture.md", "changelog.md", "contributing.md"}
    broken = []
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            path = (page.parent / target).resolve()
            inside = str(path.relative_to(DOCS)) if path.is_relative_to(DOCS) else ""
            if "://" not in target and not path.exists() and inside not in elsewhere:
                broken.append(f"{page.relative_to(DOCS)}: {target}")
    assert broken == []


def test_the_charts_show_the_table():
    charts = runpy.run_path(str(ROOT / "tools/benchmark_charts.py"))
    lines = charts["rows"]((DOCS / "benchmarks.md").read_text())
    assert len(lines) > 10
    for theme, colors in charts["THEMES"].items():
        assert (DOCS / f"benchmarks-{theme}.svg").read_text() == charts["chart"](lines, colors)


SITE_CHECK = runpy.run_path(str(ROOT / "tools/check_site.py"))


def test_the_check_of_the_site_finds_broken_links_and_requests_to_other_hosts(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#top">b</a><img src="c.png" alt="a picture">')
    (tmp_path / "b.html").write_text(
        '<h1 id="start">B</h1><a href="a.html#top">a</a><a href="https://example.org">e</a><a href="c.html">c</a>'
        '<script src="https://example.org/x.js"></script><a href="x" data-md-component="source"></a><img src="a.html">'
    )
    assert sorted(SITE_CHECK["problems"](tmp_path)) == [
        "a.html: no such file: c.png",
        "a.html: no such heading: b.html#top",
        "b.html: an image without a description: a.html",
        "b.html: fetched from another host: https://api.github.com (statistics of the repository)",
        "b.html: fetched from another host: https://example.org/x.js",
        "b.html: no such file: c.html",
        "b.html: no such file: x",
    ]
