"""Any pipeline that can be split keeps every promise on a cluster: order, errors, ids, states, closing."""

import warnings

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.cluster.few_examples import few_examples, ways

from headrace.execute.state import first_unseeded
from headrace.plan.spec import Spec
from headrace.testing import check_transformation, our_threads, reference_outcomes


@few_examples
@given(
    **ways,
    block_length=st.sampled_from([None, 1, 3]),
)
def test_any_pipeline_keeps_every_promise_on_a_cluster(workers, ds, splits, cycle_length, block_length, mode, shared):
    how = {"cycle_length": cycle_length, "block_length": block_length}
    how["shared"] = shared and first_unseeded(ds._node) is None
    try:
        made = ds.distribute_over(workers, splits, mode, **how)
    except ValueError:
        assume(False)
    spec = Spec.of_signature(ds.element_spec)  # which comes from the first element, if functions have no spec
    assume(not any(kind == "value" and spec.refusal(value) for kind, value in reference_outcomes(ds, 0, 41)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_transformation(made, cuts=3, limit=40, epochs=1)
    assert our_threads() == []
