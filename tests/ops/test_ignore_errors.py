"""ignore_errors: the elements that could be made."""

import pytest

import headrace as hr

D = hr.Dataset


def inverse(x):
    return 6 // int(x)


def test_elements_that_fail_are_left_out(run):
    assert run(D.range(4).map(inverse).ignore_errors()) == [6, 3, 2]


def test_only_errors_before_it_are_left_out(run):
    with pytest.raises(hr.ElementError, match="division"):
        run(D.range(4).ignore_errors().map(inverse))


def test_how_many_are_left_is_not_known_before():
    assert D.range(4).ignore_errors().cardinality() == hr.UNKNOWN_CARDINALITY


def test_what_is_left_out_can_be_logged(caplog):
    assert list(D.range(2).map(inverse).ignore_errors(log_warning=True)) == [6]
    assert "division" in caplog.text
