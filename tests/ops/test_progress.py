"""progress: a bar while elements are taken."""

import headrace as hr

D = hr.Dataset


def test_the_elements_stay_as_they_are(run):
    assert run(D.range(4).progress("reading")) == [0, 1, 2, 3]
    assert len(D.range(4).progress()) == 4


def test_nothing_is_shown_where_no_terminal_is(capsys):
    assert list(D.range(3).progress("reading")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_pass_that_is_left_early_stops_its_bar():
    with iter(D.range(4).progress()) as it:
        assert next(it) == 0
