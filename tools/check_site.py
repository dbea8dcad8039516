"""Check the pages that MkDocs built: `python tools/check_site.py [site]`; `make docs` runs it.

It reports links to files and headings that do not exist, anything that a page would fetch from another host, and images
without a description. Links to other hosts are not followed. The exit status is 1 if something was found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
UNLINKED_TARGETS = {"__skip"}  # the theme's link past the navigation
NOT_FETCHED = {"canonical", "prev", "next", "alternate", "edit"}


class Page(HTMLParser):
    """What one page contains.

    Attributes:
        anchors: Names that links may lead to.
        links: Targets of links.
        fetched: What a browser loads with the page: scripts, styles, images.
        undescribed: Sources of images without a description.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.undescribed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in NOT_FETCHED:
            self.fetched.append(values.get("href", ""))
        elif values.get("src"):
            self.fetched.append(values["src"])
        if tag == "img" and not values.get("alt"):
            self.undescribed.append(values.get("src", ""))
        if values.get("data-md-component") == "source":
            self.fetched.append("https://api.github.com (statistics of the repository)")


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each problem of the pages in a folder.

    Args:
        site: The folder that MkDocs wrote.

    Yields:
        The page and what is wrong.
    """
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":  # shown under any address, so that its links are absolute
            continue
        yield from (f"{name}: an image without a description: {source}" for source in page.undescribed)
        for target in [*page.links, *page.fetched]:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                if target in page.fetched and url.scheme != "data":
                    yield f"{name}: fetched from another host: {target}"
                continue
            to = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not to.exists():
                yield f"{name}: no such file: {target}"
            elif url.fragment and to in pages and unquote(url.fragment) not in pages[to].anchors | UNLINKED_TARGETS:
                yield f"{name}: no such heading: {target}"


def main() -> None:
    """Check a site and exit with 1 if something is wrong."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    found = list(problems(site))
    pages = sum(1 for _ in site.rglob("*.html"))
    print("\n".join(found) or f"{pages} pages: no broken link, no request to another host")
    sys.exit(bool(found) or not pages)


if __name__ == "__main__":
    main()
