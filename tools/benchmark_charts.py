"""Draw the table of docs/benchmarks.md as bar charts for light and dark pages: `python tools/benchmark_charts.py`."""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
THEMES = {
    "light": {"text": "#1f2328", "muted": "#57606a", "bar": "#3f51b5", "line": "#d0d7de"},
    "dark": {"text": "#e6edf3", "muted": "#9da7b3", "bar": "#8c9eff", "line": "#3d444d"},
}
WIDTH, ROW, LEFT, RIGHT, TOP = 860, 34, 390, 80, 46


def rows(page: str) -> list[tuple[str, str, float]]:
    """Return (what, against, ratio) of each line of the table."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 4 and re.fullmatch(r"[\d.,]+×", cells[3]):
            found.append((cells[0], cells[1], float(cells[3].rstrip("×").replace(",", ""))))
    return found


def chart(lines: list[tuple[str, str, float]], colors: dict[str, str]) -> str:
    """Return an SVG with one bar per line, on a logarithmic axis."""
    height = TOP + ROW * len(lines) + 20
    top = math.ceil(math.log10(max(ratio for _, _, ratio in lines)))

    def x(ratio: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(max(ratio, 1)) / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13">',
        "<title>Throughput of headrace as a multiple of other libraries</title>",
        f'<text x="{LEFT}" y="18" fill="{colors["muted"]}">times as fast (logarithmic)</text>',
    ]
    for power in range(top + 1):
        at = x(10**power)
        parts.append(f'<line x1="{at}" y1="{TOP - 8}" x2="{at}" y2="{height - 16}" stroke="{colors["line"]}"/>')
        label = f"{10**power:,}×"
        parts.append(f'<text x="{at}" y="{TOP - 13}" text-anchor="middle" fill="{colors["muted"]}">{label}</text>')
    for i, (what, against, ratio) in enumerate(lines):
        y = TOP + ROW * i
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 11}" text-anchor="end" fill="{colors["text"]}">{escape(what)}</text>'
        )
        small = f'font-size="11" fill="{colors["muted"]}"'
        parts.append(f'<text x="{LEFT - 10}" y="{y + 24}" text-anchor="end" {small}>{escape(against)}</text>')
        parts.append(
            f'<rect x="{LEFT}" y="{y + 3}" width="{x(ratio) - LEFT:.1f}" height="18" rx="3" fill="{colors["bar"]}"/>'
        )
        parts.append(f'<text x="{x(ratio) + 6:.1f}" y="{y + 17}" fill="{colors["text"]}">{ratio:,g}×</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Write one chart per theme."""
    lines = rows((DOCS / "benchmarks.md").read_text())
    for theme, colors in THEMES.items():
        (DOCS / f"benchmarks-{theme}.svg").write_text(chart(lines, colors))


if __name__ == "__main__":
    main()
