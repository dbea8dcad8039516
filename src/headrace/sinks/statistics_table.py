"""Statistics as a table of text, with bars of block characters, and of HTML, with small charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO

from headrace.sinks.summaries import ColumnStatistics

HEADINGS = ("component", "values", "missing", "min", "quartiles", "max", "mean", "std", "lengths", "most frequent")
BARS = " ▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 120, 30


def as_text(columns: Mapping[str, ColumnStatistics], rows: int) -> str:
    """For a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{rows:,} elements", title_justify="left")
    used = _used(columns)
    for heading in (*used, "histogram"):
        table.add_column(heading, no_wrap=heading in ("component", "histogram"))
    for name, column in columns.items():
        cells = _cells(name, column)
        table.add_row(*[cells[heading] for heading in used], _bars(column.histogram[0]))
    out = StringIO()
    Console(file=out, width=160, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def as_html(columns: Mapping[str, ColumnStatistics], rows: int) -> str:
    """For a notebook."""
    used = _used(columns)
    head = "".join(f"<th>{heading}</th>" for heading in (*used, "histogram"))
    lines = [f"<table><caption>{rows:,} elements</caption><tr>{head}</tr>"]
    for name, column in columns.items():
        cells = _cells(name, column)
        shown = "".join(f"<td>{escape(cells[heading])}</td>" for heading in used)
        lines.append(f"<tr>{shown}<td>{_picture(*column.histogram)}</td></tr>")
    return "\n".join([*lines, "</table>"])


def _used(columns: Mapping[str, ColumnStatistics]) -> list[str]:
    """Return the headings that some component has something under."""
    cells = [_cells(name, column) for name, column in columns.items()]
    return [heading for heading in HEADINGS if heading in HEADINGS[:3] or any(row[heading] for row in cells)]


def _cells(name: str, column: ColumnStatistics) -> dict[str, str]:
    number = column.kind == "numbers"
    frequent = ", ".join(f"{_value(value)} ×{count:,}" for value, count in column.most_frequent[:3])
    more = f" of {column.unique:,}" if column.unique is not None and column.unique > 3 else ""
    lengths = "" if column.lengths is None else " … ".join(map(_number, column.lengths))
    made = (
        name or "element",
        f"{column.count:,}",
        f"{column.missing:,}" if column.missing else "",
        _number(column.min) if number else "",
        " ".join(map(_number, column.quantiles)) if number else "",
        _number(column.max) if number else "",
        _number(column.mean),
        _number(column.std),
        lengths,
        frequent + more,
    )
    return dict(zip(HEADINGS, made, strict=True))


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _value(value: object) -> str:
    text = str(value)
    return text if len(text) <= 16 else f"{text[:15]}…"


def _bars(counts: Sequence[int]) -> str:
    most = max(counts, default=0)
    return "".join(BARS[-(-count * (len(BARS) - 1) // most)] for count in counts) if most else ""


def _picture(counts: Sequence[int], edges: Sequence[float]) -> str:
    most = max(counts, default=0)
    if not most:
        return ""
    step = WIDTH / len(counts)
    bars = []
    for i, count in enumerate(counts):
        height = HEIGHT * count / most
        said = f"{_number(float(edges[i]))} … {_number(float(edges[i + 1]))}: {count:,}"
        box = f'x="{i * step:.1f}" y="{HEIGHT - height:.1f}" width="{step * 0.9:.1f}" height="{height:.1f}"'
        bars.append(f'<rect {box} fill="#4878a8"><title>{said}</title></rect>')
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="histogram">{"".join(bars)}</svg>'
