"""The plan as written and as it runs."""

from __future__ import annotations

from html import escape

from headrace.optimise.final_prefetch import WHY, with_final_prefetch
from headrace.optimise.rules import Applied, apply_rules
from headrace.plan.explain import Explanation, plan_table, tree
from headrace.plan.node import Node


def explanation(node: Node) -> Explanation:
    """Both plans, and the reason for each change."""
    applied: list[Applied] = []
    plan = apply_rules(node, applied)
    text = [f"plan:\n{tree(node, '  ')}"]
    html = [plan_table(node, "plan")]
    if applied:
        reasons = [f"{a.rule} at {a.operation}: {a.reason}" for a in applied]
        text += [f"runs as:\n{tree(plan, '  ')}", "because:", *(f"  {reason}" for reason in reasons)]
        html += [plan_table(plan, "runs as"), "because:", *(f"<br>{escape(reason)}" for reason in reasons)]
    else:
        text.append("runs as written")
        html.append("runs as written")
    if with_final_prefetch(plan) is not plan:
        said = f"and ends in {WHY}"
        text.append(said)
        html.append(f"<br>{escape(said)}")
    return Explanation("\n".join(text), "".join(html))
