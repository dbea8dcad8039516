"""Functions that give something else at each call are found, and named when a state is taken."""

import datetime
import functools
import os
import random
import secrets
import time
import uuid
import warnings
from random import choice

import numpy as np
import pytest
import torch
from numpy.random import default_rng

import headrace as hr
from headrace.identity.nondeterminism import nondeterminism

RNG = np.random.default_rng(0)


def helper(x):
    return x + np.random.rand()


class Augment:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, x):
        return x + self.rng.normal()

    def noisy(self, x):
        return x + self.rng.normal()

    def plain(self, x):
        return x + 1


def with_import(x):
    import random as chance

    return x + chance.random()


def with_default(x, rng=random.Random(3)):  # noqa: B008
    return x + rng.random()


DRAWS = {
    "np.random": (lambda x: x + np.random.normal(), "np.random.normal"),
    "random": (lambda x: x + random.random(), "random.random"),
    "a name of random": (lambda x: choice([x, 2]), "choice"),
    "a generator without a seed": (lambda x: x + default_rng().normal(), "default_rng"),
    "another without a seed": (lambda x: x + np.random.RandomState().rand(), "np.random.RandomState"),
    "a global generator": (lambda x: x + RNG.normal(), "RNG"),
    "a clock": (lambda x: x + time.time(), "time.time"),
    "now": (lambda x: x + datetime.datetime.now().second, "datetime.datetime.now"),
    "the system": (lambda x: os.urandom(3), "os.urandom"),
    "uuid": (lambda x: str(uuid.uuid4()), "uuid.uuid4"),
    "secrets": (lambda x: secrets.token_hex(), "secrets.token_hex"),
    "torch": (lambda x: x + torch.rand(()), "torch.rand"),
    "another of torch": (lambda x: torch.randint(0, 9, (2,)), "torch.randint"),
    "a helper": (lambda x: helper(x) * 2, "np.random.rand"),
    "an inner function": (lambda x: sorted([x], key=lambda y: y + random.random()), "random.random"),
    "a method": (Augment().noisy, "self.rng"),
    "an object": (Augment(), "self.rng"),
    "a partial": (functools.partial(lambda rng, x: x + rng.random(), random.Random(3)), "a Random"),
    "an import": (with_import, "chance.random"),
    "a default": (with_default, "a Random as a default"),
}
KEYED = {
    "nothing": lambda x: x + 1,
    "a seed from the element": lambda x: x + np.random.default_rng(int(x)).normal(),
    "a state from the element": lambda x: x + np.random.RandomState(int(x)).rand(),
    "a Random from the element": lambda x: x + random.Random(int(x)).random(),
    "sleep": lambda x: time.sleep(0) or x,
    "the global one, seeded": lambda x: np.random.seed(int(x)) or x + np.random.rand(),
    "torch, seeded": lambda x: torch.manual_seed(int(x)) and torch.rand(()),
    "a generator of torch": lambda x: torch.rand((), generator=torch.Generator().manual_seed(int(x))),
    "an array of torch": lambda x: torch.ones(3) * x,
    "a method": Augment().plain,
    "a module alone": lambda x: (np.random, x)[1],
    "an array": lambda x: np.abs(x),
    "a class of Python's": int,
}


@pytest.mark.parametrize("kind", DRAWS)
def test_what_a_function_draws_from_is_named(kind):
    fn, name = DRAWS[kind]
    assert nondeterminism(fn) == name


@pytest.mark.parametrize("kind", KEYED)
def test_what_is_keyed_by_the_element_is_left_alone(kind):
    assert nondeterminism(KEYED[kind]) is None


def test_a_state_warns_once_and_names_random_map():
    ds = hr.Dataset.range(3).map(lambda x: x + np.random.rand())
    with iter(ds) as it:
        next(it)
        with pytest.warns(hr.PipelineWarning, match=rf"{__file__}.*np\.random\.rand.*random_map") as caught:
            it.state()
        assert len(caught) == 1
    with warnings.catch_warnings(), iter(ds) as it:
        warnings.simplefilter("error")
        it.state()


def _draws(x):
    return x + RNG.normal()


@pytest.mark.parametrize("fn", [lambda x: x + RNG.normal(), lambda x: _draws(x)])
def test_a_generator_among_the_globals_is_named_though_globals_are_bound(fn):
    with iter(hr.Dataset.range(3).map(fn)) as it, pytest.warns(hr.PipelineWarning, match="uses RNG"):
        it.state()


@pytest.mark.parametrize("made", ["filter", "flat_map", "from_generator"])
def test_so_do_those_of_other_operations(made):
    def rows():
        yield random.random()

    ds = {
        "filter": lambda: hr.Dataset.range(3).filter(lambda x: random.random() < 2),
        "flat_map": lambda: hr.Dataset.range(3).flat_map(lambda x: hr.Dataset.range(random.randrange(3))),
        "from_generator": lambda: hr.Dataset.from_generator(rows, output_signature=hr.TensorSpec((), "float64")),
    }[made]()
    with iter(ds) as it, pytest.warns(hr.PipelineWarning, match="random_map"):
        it.state()


def test_a_pass_without_a_state_and_random_map_say_nothing(recwarn):
    list(hr.Dataset.range(3).map(lambda x: x + np.random.rand()))
    with iter(hr.Dataset.range(3).random_map(lambda x, rng: x + rng.normal(), seed=1)) as it:
        next(it)
        it.state()
    assert not recwarn.list
