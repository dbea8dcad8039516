"""Ctrl-C at any line of a feed: the batch is delivered, or comes with the next call."""

import random

import pytest

from tests.chaos.interrupts import FEEDS, interrupt_next, subject_of

FRAMEWORKS = {"to_torch": "torch", "to_torch ahead": "torch", "to_jax": "jax"}
MOMENTS = 30


@pytest.mark.parametrize("name", FEEDS)
def test_an_interrupt_in_a_feed_loses_and_repeats_nothing(name):
    pytest.importorskip(FRAMEWORKS.get(name, "numpy"))
    subject = subject_of(name)
    chance = random.Random(name)
    assert sum(interrupt_next(subject, chance.randrange(subject.moments)) for _ in range(MOMENTS))
