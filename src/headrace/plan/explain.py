"""A plan as text."""

from __future__ import annotations

from headrace.plan.cardinality import INFINITE
from headrace.plan.node import Node


def tree(node: Node, indent: str = "") -> str:
    """The plan, sources last, each node with what its elements look like and how many they are."""
    count = node.cardinality
    size = f"{count:,}" if count.known else "∞" if count == INFINITE else "?"
    where = f"   {node.site}" if node.site else ""
    remark = f"   [{said}]" if (said := node.remark()) else ""
    lines = [f"{indent}{node.label()}  → {node.spec} × {size}{where}{remark}"]
    lines += [tree(child, indent + "  ") for child in node.inputs]
    return "\n".join(lines)


def chain(node: Node) -> str:
    """The plan on one line, as it was written."""
    inputs = node.inputs
    if not inputs:
        return node.label()
    if len(inputs) == 1:
        return f"{chain(inputs[0])}.{node.label()}"
    return f"{node.operation}({', '.join(chain(child) for child in inputs)})"
