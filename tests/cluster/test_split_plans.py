"""The plan of any split keeps every promise by itself, without a cluster: what a worker runs, and runs again."""

import warnings

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.pipelines import pipelines

from headrace.cluster.splits import Fragment, find_cut, with_fixed_seeds
from headrace.plan.datasets import dataset_of
from headrace.plan.spec import Spec
from headrace.testing import check_transformation, reference_outcomes

EXAMPLES = 15 if settings.default.max_examples < 1000 else settings.default.max_examples


@settings(max_examples=EXAMPLES)
@given(ds=pipelines, splits=st.integers(2, 5), data=st.data())
def test_any_split_keeps_every_promise(ds, splits, data):
    plan = with_fixed_seeds(ds._node)
    try:
        fragment = Fragment(plan, find_cut(plan, splits), splits)
    except ValueError:
        assume(False)
    spec = Spec.of_signature(ds.element_spec)  # which comes from the first element, if functions have no spec
    assume(not any(kind == "value" and spec.refusal(value) for kind, value in reference_outcomes(ds, 0, 41)))
    split = dataset_of(fragment.split(data.draw(st.integers(0, splits - 1))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_transformation(split, cuts=3, limit=40, epochs=1)
