"""with_options: how the whole pipeline is run."""

import pytest

import headrace as hr

D = hr.Dataset


def test_options_merge_and_the_later_ones_count():
    ds = D.range(3).with_options(hr.Options(cpu_budget=2, deterministic=True)).with_options(hr.Options(cpu_budget=1))
    assert ds.options() == hr.Options(cpu_budget=1, deterministic=True)
    both = D.zip(D.range(1).with_options(hr.Options(ram_budget=5)), ds)
    assert both.options() == hr.Options(cpu_budget=1, deterministic=True, ram_budget=5)
    with pytest.raises(ValueError, match="belong to a dataset"):
        ds.options().cpu_budget = 3


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.with_options({}), TypeError, "Options"),
        (lambda d, f: hr.Options(on_error="maybe"), ValueError, "raise"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)
