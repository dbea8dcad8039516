"""Laws that hold for every pipeline: random ones are put through the conformance kit."""

from hypothesis import given

from headrace.testing import check_transformation, our_threads
from tests.pipelines import pipelines


@given(pipelines)
def test_any_pipeline_keeps_every_promise(ds):
    check_transformation(ds, cuts=6, limit=60)
    assert our_threads() == []
