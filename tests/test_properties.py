"""Laws that hold for every pipeline: random ones are put through the conformance kit."""

from hypothesis import given, settings

from headrace.testing import check_transformation, our_threads
from tests.pipelines import pipelines, unordered


@given(pipelines)
def test_any_pipeline_keeps_every_promise(ds):
    check_transformation(ds, cuts=6, limit=60)
    assert our_threads() == []


@settings(max_examples=60)
@given(unordered)
def test_any_order_of_delivery_loses_and_repeats_nothing(ds):
    check_transformation(ds, cuts=4, limit=60, ordered=False)
