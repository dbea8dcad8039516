"""The plan as written and as it runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape

from headrace.execute.budget import cpus
from headrace.ops.with_options import merge_options
from headrace.optimize.rules import Choice
from headrace.physical.lower import NestedPlans, lower_pass
from headrace.physical.nested import nested_plans
from headrace.plan.display import WIDTH
from headrace.plan.explain import Explanation, Line, node_line, plan_lines, plan_table, tree
from headrace.plan.node import Node


def explanation(node: Node, *, physical: bool = True) -> Explanation:
    """Return the logical plan and, if `physical`, the plan that runs with the reason for each choice."""
    written = list(plan_lines(node))
    text = f"plan:\n{tree(written, '  ')}"
    html = plan_table(written, "plan")
    if not physical:
        return Explanation(text, html)
    choices: list[Choice] = []
    threads = merge_options(node).cpu_budget or cpus()
    runs = list(physical_lines(lower_pass(node, threads, choices), threads))
    reasons = [reason for choice in choices for reason in _wrapped(str(choice))]
    text += f"\nruns as:\n{tree(runs, '  ')}"
    html += plan_table(runs, "runs as")
    if reasons:
        text += "\nbecause:\n" + "\n".join(reasons)
        html += "because:" + "".join(f"<br>{escape(str(choice))}" for choice in choices)
    return Explanation(text, html)


def physical_lines(node: Node, threads: int, depth: int = 0) -> Iterator[Line]:
    """Yield a physical plan, sources last, and under each operation the plans that it opens while it runs."""
    yield node_line(node, depth)
    nested = nested_plans(node)
    if nested is not None:
        yield Line(depth + 1, f"{nested.title}:", "", "", "", nested.remark)
        if nested.plan is not None:
            inside = NestedPlans(threads)(nested.plan).plan
            yield from map(_without_file, physical_lines(inside, threads, depth + 2))
    for child in node.inputs:
        yield from physical_lines(child, threads, depth + 1)


def _without_file(line: Line) -> Line:
    """Return a plan line that stands for those of many files, without the parameters of one file."""
    return line._replace(label=f"{line.label.partition('(')[0]}(…)", site="")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False)
