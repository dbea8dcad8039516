"""Spec and cardinality are the same after every rule, in all pipelines that the tests know."""

from dataclasses import dataclass

import numpy as np
import pytest
from tests.framing import framed
from tests.test_conformance import PIPELINES, files

import headrace as hr
from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.ops.take import Take
from headrace.optimize import rules
from headrace.optimize.rules import RULES, apply_rules
from headrace.plan.spec import Spec
from headrace.testing import check_transformation

D = hr.Dataset
RECORDS = [hr.io.encode_example({"x": np.full(2000, i, np.float32)}) for i in range(9)]
FEATURES = {"x": hr.io.FixedLenFeature([2000], np.float32)}


def parsed():
    """Records that are large enough to be drawn before they are parsed."""
    names = files("large", framed(RECORDS[:5]), framed(RECORDS[5:]))
    records = hr.TFRecordDataset([str(name) for name in names])
    return records.map(lambda record: hr.io.parse_single_example(record, FEATURES), num_parallel_calls=2)


MORE = {
    "draw_first": lambda: parsed().shuffle(4, seed=1).batch(2),
    "draw_as_written": lambda: parsed().shuffle(4, seed=1).cache(),
    "fuse_maps": lambda: D.range(9).map(lambda x: x + 1).map(lambda x: (x, x * 2)),
    "filter_first": lambda: (
        D.from_tensor_slices((np.arange(40), np.arange(40) / 7)).map(lambda a, b: (a, b * 2)).filter(lambda a, b: a > 3)
    ),
    "hand_over_in_lots": lambda: D.range(9).map(lambda x: int(x), num_parallel_calls=2).batch(3),
}


def changes(ds):
    """The rules that change a plan, with what they were given and what they made of it."""
    found = []
    apply_rules(ds._node, check=lambda rule, before, after: found.append((rule.__name__, before, after)))
    return found


def test_every_rule_is_among_those_that_are_checked():
    pipelines = [*PIPELINES.values(), *MORE.values()]
    seen = {name for make in pipelines for name, _, _ in changes(make())}
    assert {rule.__name__ for rule in RULES} == seen


@pytest.mark.parametrize("name", MORE)
def test_a_rule_keeps_every_promise(name):
    ds = MORE[name]()
    assert name in [rule for rule, _, _ in changes(ds)]
    check_transformation(ds, cuts=3)


@dataclass(frozen=True, eq=False)
class Liar(PassThrough):
    """Says that its elements are numbers of another kind."""

    @property
    def spec(self):
        return Spec.of(np.float32(0))


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda node: Take(node, 3) if node.operation == "range" else None, r"at range: cardinality was 5 and is 3"),
        (lambda node: Liar(node) if node.operation == "range" else None, r"element_spec was int64 and is float32"),
    ],
)
def test_the_kit_notices_a_rule_that_changes_a_promise(lie, reason, monkeypatch):
    monkeypatch.setattr(rules, "RULES", [lie])
    with pytest.raises(AssertionError, match=reason):
        check_transformation(D.range(5))
