"""A plan as text and as HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from headrace.plan.capabilities import shown_inputs
from headrace.plan.cardinality import INFINITE
from headrace.plan.display import WIDTH, cut_to_width, site_text, spec_text
from headrace.plan.node import Node, walk


class Line(NamedTuple):
    """What a plan shows of one node."""

    depth: int
    label: str
    elements: str
    size: str
    site: str
    remark: str


def node_line(node: Node, depth: int) -> Line:
    """Return what a plan shows of this node: its elements, how many they are, and how it runs."""
    count = node.cardinality
    size = f"{count:,}" if count.known else "∞" if count == INFINITE else "?"
    site = site_text(node.site) if node.site else ""
    return Line(depth, node.label(), spec_text(node.spec), size, site, node.remark() or "")


def plan_lines(node: Node, depth: int = 0) -> Iterator[Line]:
    """Yield the plan, sources last."""
    yield node_line(node, depth)
    for child in shown_inputs(node):
        yield from plan_lines(child, depth + 1)


def tree(lines: Iterable[Line], indent: str = "") -> str:
    """Return the plan as text, one line a node; what does not fit stands below it."""
    return "\n".join(_text(line, indent + "  " * line.depth) for line in lines)


def _text(line: Line, indent: str) -> str:
    shown = cut_to_width(f"{indent}{line.label}", WIDTH - len(line.elements) - 20)
    if line.elements:
        shown += f"  → {line.elements} × {line.size}"
    below: list[str] = []
    for more in filter(None, (line.site, line.remark and f"[{line.remark}]")):
        if not below and len(shown) + 3 + len(more) <= WIDTH:
            shown += f"   {more}"
        else:
            hanging = indent + "    · "
            below += textwrap.wrap(
                more, WIDTH, initial_indent=hanging, subsequent_indent=" " * len(hanging), break_long_words=False
            )
    return "\n".join([shown, *below])


def chain(node: Node, width: int = WIDTH) -> str:
    """Return the plan on one line, as it was written; without the longest parameters, or without its middle, as it
    fits.
    """
    labels = {id(n): n.label() for n in walk(node)}
    text = _chain(node, labels)
    for n in sorted(walk(node), key=lambda n: -len(labels[id(n)])):
        if len(text) <= width:
            return text
        labels[id(n)] = _bare(n)
        text = _chain(node, labels)
    if len(text) <= width:
        return text
    *_, source = plan_lines(node)
    ends = f"{source.label.partition('(')[0]}(…) … {_bare(node)}"
    return ends if len(ends) <= width else cut_to_width(_bare(node), width)


def _bare(node: Node) -> str:
    return f"{node.operation}(…)" if node.label() != f"{node.operation}()" else f"{node.operation}()"


def _chain(node: Node, labels: dict[int, str]) -> str:
    inputs = shown_inputs(node)
    if not inputs:
        return labels[id(node)]
    if len(inputs) == 1:
        return f"{_chain(inputs[0], labels)}.{labels[id(node)]}"
    return f"{node.operation}({', '.join(_chain(child, labels) for child in inputs)})"


BESIDE_A_CHAIN = 44
"""The longest text of a spec if a whole plan is on the same line."""


def summary(kind: str, node: Node, more: str = "") -> str:
    """Return what a dataset or an iterator is, on one line."""
    elements = spec_text(node.spec, BESIDE_A_CHAIN)
    frame = f"<{kind}  of {elements}{more}>"
    return f"<{kind} {chain(node, WIDTH - len(frame))} of {elements}{more}>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table in HTML; the first column keeps its spaces."""
    start = '<td style="text-align:left;white-space:pre;font-family:monospace">'
    body = "".join(
        f"<tr>{start}{escape(row[0])}</td>"
        + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    titles = "".join(f'<th style="text-align:left">{escape(title)}</th>' for title in head)
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{said}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def plan_table(lines: Iterable[Line], caption: str = "") -> str:
    """Return the plan in HTML."""
    rows = [("  " * n.depth + n.label, n.elements, n.size, n.site, n.remark) for n in lines]
    return table(("operation", "elements", "how many", "added at", "runs"), rows, caption)


class Explanation(str):
    """`ds.explain()`: text that shows itself as such at a prompt, and as tables in a notebook."""

    _html: str

    def __new__(cls, text: str, html: str = "") -> Explanation:
        """Return the text, and the same in HTML."""
        made = super().__new__(cls, text)
        made._html = html
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._html
