"""Any pipeline that can be split keeps every promise on a cluster: order, errors, ids, states, closing."""

import warnings

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headrace.testing import check_transformation, our_threads
from tests.pipelines import pipelines

EXAMPLES = 40


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, *settings.default.suppress_health_check],
)
@given(
    ds=pipelines,
    splits=st.integers(1, 5),
    cycle_length=st.sampled_from([None, 2]),
    block_length=st.sampled_from([None, 1, 3]),
    mode=st.sampled_from(["distributed_epoch", "distributed_epoch", "parallel_epochs"]),
)
def test_any_pipeline_keeps_every_promise_on_a_cluster(workers, ds, splits, cycle_length, block_length, mode):
    try:
        made = ds.distribute_over(workers, splits, mode, cycle_length=cycle_length, block_length=block_length)
    except ValueError:
        assume(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_transformation(made, cuts=3, limit=40, epochs=1)
    assert our_threads() == []
