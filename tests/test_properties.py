"""Laws that hold for every pipeline: random ones are put through the conformance kit."""

from hypothesis import given, settings

from headrace.testing import check_transformation, our_threads
from tests.pipelines import pipelines, remainders, unordered

PARTS = 4
"""So many tests share the examples: each is short, and they run side by side."""


def keep_every_promise(name):
    def test(ds):
        check_transformation(ds, cuts=6, limit=60)
        assert our_threads() == []

    test.__name__ = name  # another name, other examples
    return settings(max_examples=settings.default.max_examples // PARTS)(given(pipelines)(test))


test_any_pipeline_keeps_every_promise_a = keep_every_promise("a")
test_any_pipeline_keeps_every_promise_b = keep_every_promise("b")
test_any_pipeline_keeps_every_promise_c = keep_every_promise("c")
test_any_pipeline_keeps_every_promise_d = keep_every_promise("d")


@settings(max_examples=60)
@given(unordered)
def test_any_order_of_delivery_loses_and_repeats_nothing(ds):
    check_transformation(ds, cuts=4, limit=60, ordered=False)
    assert our_threads() == []


@settings(max_examples=150)
@given(remainders)
def test_no_failure_is_lost_in_rows_that_are_dropped(ds):
    check_transformation(ds, cuts=6, limit=60)
    assert our_threads() == []
