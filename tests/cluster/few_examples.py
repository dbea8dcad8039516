"""How pipelines are tried on a cluster: fewer of them than elsewhere, since each takes workers."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.pipelines import pipelines

few_examples = settings(
    max_examples=20 if settings.default.max_examples < 1000 else settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, *settings.default.suppress_health_check],
)
ways = {
    "ds": pipelines,
    "splits": st.integers(1, 5),
    "cycle_length": st.sampled_from([None, 2]),
    "mode": st.sampled_from(["distributed_epoch", "distributed_epoch", "parallel_epochs"]),
    "shared": st.booleans(),
}
"""Of any pipeline, how it is split."""
