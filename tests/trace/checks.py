"""Rows of every kind, the nasty ones too, and the comparison of a traced function with the same called on each."""

from itertools import cycle, islice

import numpy as np

import headrace as hr
from headrace.plan.spec import Spec
from headrace.testing import difference, outcomes, reference_outcomes
from headrace.trace.function import Function
from headrace.trace.graph import Graph

ROWS = 41


@np.errstate(all="ignore")
def specials(dtype):
    """The values that loops treat differently, if anything does."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        edge = [limits.max, limits.min, limits.tiny, -limits.tiny, limits.smallest_subnormal, limits.eps]
        plain = [0.0, -0.0, 1, -1, 0.5, 2, 3, 255, -2.5, 1.5, 1e-3, 7]
        return np.array([*plain, np.nan, -np.nan, np.inf, -np.inf, *edge]).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, limits.max, limits.min, 2, 3, limits.max - 1, 7], dtype)
    if dtype.kind == "c":
        parts = specials("f4" if dtype.itemsize == 8 else "f8")
        return (parts + 1j * np.roll(parts, 5)).astype(dtype)
    return np.array([False, True])


def ordinary(dtype, size, seed=0):
    """Values as data have them."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return (random.normal(0, 3, size) * np.exp(random.normal(0, 2, size))).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, size).astype(bool)
    limits = np.iinfo(dtype)
    return random.integers(max(limits.min, -40), min(limits.max, 300), size).astype(dtype)


@np.errstate(all="ignore")
def rows(dtype, *shape, n=ROWS, seed=0):
    """A block of rows: ordinary values with special ones strewn in, and some rows of nothing else."""
    size = n * int(np.prod(shape))
    flat = ordinary(dtype, size, seed)
    random = np.random.default_rng(seed + 1)
    strange = specials(dtype)
    places = random.random(size) < 0.15
    flat[places] = random.choice(strange, int(places.sum()))
    block = flat.reshape(n, *shape)
    for i in range(0, n, 4):
        block[i] = np.array(list(islice(cycle(np.roll(strange, i)), int(np.prod(shape))))).reshape(shape)
    return block


def small(dtype, *shape, below=10, n=ROWS, seed=0):
    """Numbers that can be indices or classes."""
    return np.random.default_rng(seed).integers(0, below, (n, *shape)).astype(dtype)


def how(fn, ds, mode="auto"):
    """The graph of a function over a dataset's elements, or the reason against one."""
    return Function(fn, mode).graph(ds._node.spec)


def check(fn, data, expect="vectorised", build=hr.Dataset.map):
    """The engine gives, bit for bit and error for error, what the reference executor gives; and runs as expected."""
    source = hr.Dataset.from_tensor_slices(data)
    ds = build(source, fn)
    with np.errstate(all="ignore"):
        want = reference_outcomes(ds)
        got = outcomes(iter(ds))
        reason = difference(got, want)
        assert reason is None, f"{reason}\n{ds.explain()}"
        graph = ds._node.graph
        if expect == "vectorised":
            assert isinstance(graph, Graph), graph
            for _, value in want:
                assert not isinstance(value, tuple) or ds._node.spec.known
            spec = Spec.of_signature(ds.element_spec)
            for kind, value in want:
                assert kind == "error" or spec.refusal(value) is None
            kinds = list(ds._node.function._graphs.values())
            assert all(isinstance(made, Graph) for made in kinds), kinds
        else:
            assert isinstance(graph, str)
            assert expect in graph, graph
