"""Every ufunc, operator, cast and reduction, on every dtype and rank: a block against its rows, to the bit."""

import operator

import numpy as np
import pytest
from tests.trace.checks import rows

from headrace.plan.spec import Spec, TensorSpec
from headrace.trace.graph import Graph
from headrace.trace.tracing import trace

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "F", "D"]
SHAPES = [(), (1,), (5,), (33,), (3, 7), (2, 3, 4)]
UFUNCS = sorted({fn for name in dir(np) if isinstance(fn := getattr(np, name), np.ufunc)}, key=lambda f: f.__name__)


def flat(value):
    return list(value) if isinstance(value, tuple | list) else [value]


def compare(fn, *blocks):
    """Run `fn` on the blocks as a graph, if it makes one, and on each row; returns whether it did."""
    spec = Spec.of_signature(tuple(TensorSpec(b.shape[1:], b.dtype) for b in blocks))
    with np.errstate(all="ignore"):
        graph = trace(fn, spec, exact=True)
        if not isinstance(graph, Graph):
            return graph
        want = []
        try:
            want = [fn(*[b[i].copy() if b.ndim > 1 else b[i] for b in blocks]) for i in range(len(blocks[0]))]
        except Exception as error:
            with pytest.raises(type(error)):
                graph.run(blocks, len(blocks[0]))
            return graph
        made = graph.run([b.copy() for b in blocks], len(blocks[0]))
    for column, results in zip(made, zip(*map(flat, want), strict=True), strict=True):
        for i, result in enumerate(results):
            row = np.asarray(column[i])
            assert (row.dtype, row.shape) == (np.asarray(result).dtype, np.shape(result)), (graph.summary, i)
            ours, theirs = row.tobytes(), np.asarray(result).tobytes()
            assert ours == theirs, (graph.summary, i, [b[i] for b in blocks], row, result)
    return graph


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_every_ufunc(ufunc):
    if ufunc.signature is not None:
        pytest.skip("not elementwise")
    for dtype in DTYPES:
        for shape in SHAPES:
            blocks = [rows(dtype, *shape, seed=i) for i in range(ufunc.nin)]
            compare(lambda *xs: ufunc(*xs), *blocks)
            if ufunc.nin == 2 and shape:
                compare(lambda a, b: ufunc(a, b), blocks[0], rows(dtype, seed=7))
                compare(lambda a: ufunc(a, 3), blocks[0])


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt, operator.eq, divmod,
]  # fmt: skip
CONSTANTS = [0, 1, 2, 3, -1, 0.5, 255, 1e-3, -0.0, True, np.float32(0.1), np.int64(5)]


@pytest.mark.parametrize("op", BINARY, ids=lambda f: f.__name__)
def test_every_operator_with_constants_on_either_side(op):
    for dtype in DTYPES:
        for shape in [(), (1,), (9,), (3, 4)]:
            block = rows(dtype, *shape)
            for constant in CONSTANTS:
                compare(lambda x, c=constant: op(x, c), block)
                compare(lambda x, c=constant: op(c, x), block)


@pytest.mark.parametrize("op", BINARY, ids=lambda f: f.__name__)
def test_every_operator_on_two_components(op):
    for a in DTYPES:
        for b in ("i8", "f4", "f8", a):
            for shape in [(), (6,)]:
                compare(op, rows(a, *shape), rows(b, *shape, seed=3))


IN_PLACE = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"]


@pytest.mark.parametrize("name", IN_PLACE)
def test_every_in_place_operator(name):
    op = getattr(operator, name)

    def change(x, y):
        return op(x, y)

    for dtype in DTYPES:
        for shape in [(), (6,), (2, 3)]:
            compare(change, rows(dtype, *shape), rows(dtype, *shape, seed=5))
            compare(lambda x: change(x, 3), rows(dtype, *shape))


@pytest.mark.parametrize("target", DTYPES)
def test_every_cast(target):
    for source in DTYPES:
        for shape in SHAPES:
            compare(lambda x: x.astype(target), rows(source, *shape))
            compare(lambda x: np.dtype(target).type(x), rows(source, *shape))
            compare(lambda x: np.asarray(x, target), rows(source, *shape))


REDUCTIONS = ["sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmax", "argmin"]
LARGE_SHAPES = [(127,), (128, 3), (300, 30), (16, 16, 3), (9001,), (1, 40), (40, 1)]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_reduction_over_every_axis(name):
    fn = getattr(np, name)
    for dtype in ("?", "u1", "i4", "i8", "f2", "f4", "f8", "D"):
        for shape in [*SHAPES[1:], *LARGE_SHAPES]:
            block = rows(dtype, *shape, n=13) if "9001" not in str(shape) else rows(dtype, *shape, n=4)
            for axis in [None, *range(-len(shape), len(shape))]:
                compare(lambda x, axis=axis: fn(x, axis=axis), block)
                compare(lambda x, axis=axis: getattr(x, name)(axis=axis, keepdims=True), block)
            if len(shape) > 2 and "arg" not in name:
                compare(lambda x: fn(x, axis=(0, 1)), block)
                compare(lambda x: fn(x, axis=(0, 2)), block)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "sort", "argsort", "diff"])
def test_every_running_function(name):
    fn = getattr(np, name)
    for dtype in DTYPES:
        for shape in [(1,), (33,), (3, 7), (500,)]:
            block = rows(dtype, *shape, n=9)
            compare(lambda x: fn(x), block)
            compare(lambda x: fn(x, axis=0), block)


@pytest.mark.parametrize("shapes", [((5,), (5, 4)), ((3, 5), (5, 4)), ((3, 5), (5,)), ((5,), (5,)), ((64,), (64, 33))])
def test_every_product_of_matrices(shapes):
    for dtype in ("i4", "f4", "f8"):
        table = rows(dtype, *shapes[1], n=1, seed=9)[0]
        block = rows(dtype, *shapes[0])
        compare(lambda x, table=table: x @ table, block)
        compare(lambda x, table=table: np.dot(x, table), block)
        compare(lambda a, b: a @ b, block, rows(dtype, *shapes[1], seed=4))
        compare(lambda a, table=table: np.tensordot(a, table, 1), block)
        compare(lambda a: np.einsum("...,...->...", a, a), block)
