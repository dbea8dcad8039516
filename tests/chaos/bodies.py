"""Functions with random bodies: traced and run on blocks they give, to the bit, what each call gives."""

import numpy as np

import headrace as hr
from headrace.testing import difference, outcomes, reference_outcomes
from tests.trace.checks import rows

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
SHAPES = [(), (), (1,), (4,), (3, 2), (2, 3, 2)]
UNARY = [
    "-{0}", "+{0}", "~{0}", "abs({0})", "np.exp({0})", "np.sqrt({0})", "np.sign({0})", "np.floor({0})", "{0}.T",
    "np.isnan({0})", "np.logical_not({0})", "{0}.astype(np.float32)", "{0}.astype('i2')", "np.float64({0})",
    "np.asarray({0})", "np.asarray({0}, np.int64)", "np.square({0})", "np.tanh({0})", "np.reshape({0}, (-1,))",
    "np.ravel({0})", "np.sum({0})", "np.mean({0})", "np.max({0})", "{0}.sum(axis=0)", "np.argmax({0})", "np.any({0})",
    "np.sort(np.ravel({0}))", "np.cumsum({0})", "np.clip({0}, 0, 5)", "np.zeros_like({0})", "np.expand_dims({0}, 0)",
    "{0}[0]", "{0}[-1]", "{0}[..., 0]", "{0}[1:]", "{0}[::-1]", "{0}[None]", "TABLE[np.sum({0}).astype(np.int64) % 20]",
    "TABLE[3] + {0}", "np.shape({0})[0]", "len({0})", "np.ndim({0})", "np.stack([{0}, {0}])",
    "np.where({0} > 1, {0}, 0)", "np.round({0}, 1)", "np.flip({0})", "np.transpose({0})", "np.diff(np.ravel({0}))",
    "{0}.copy()", "float(np.sum({0}))", "int(np.sum({0}))", "bool(np.any({0}))", "np.nan_to_num({0})", "np.prod({0})",
    "np.pad(np.ravel({0}), 1)",
]  # fmt: skip
BINARY = [
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} // {1}", "{0} % {1}", "{0} ** 2 + {1}", "{0} < {1}",
    "{0} == {1}", "{0} >= {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} << 1", "np.maximum({0}, {1})",
    "np.minimum({0}, {1})", "np.where({0} > {1}, {0}, {1})", "np.hypot({0}, {1})", "np.arctan2({0}, {1})",
    "np.concatenate([np.ravel({0}), np.ravel({1})])", "np.dot(np.ravel({0}), np.ravel({0})) + {1}", "({0}, {1})[1]",
    "np.add({0}, {1})", "np.logical_and({0}, {1})", "{0} if {1} is not None else {1}", "np.power({0}, 2) - {1}",
    "np.fmod({0}, {1})", "{{'a': {0}, 'b': {1}}}['a']",
]  # fmt: skip
CONSTANTS = [
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "3",
    "True",
    "1e-3",
    "np.float32(0.1)",
    "np.int64(5)",
    "TABLE[2]",
    "TABLE.max()",
]
TABLE = np.arange(20.0)


def expression(chance, names, depth):
    how = chance.random()
    if depth == 0 or how < 0.15:
        return chance.choice(names) if chance.random() < 0.8 else f"({chance.choice(CONSTANTS)})"
    if how < 0.6:
        return "(" + chance.choice(UNARY).format(expression(chance, names, depth - 1)) + ")"
    pair = expression(chance, names, depth - 1), expression(chance, names, depth - 1)
    return "(" + chance.choice(BINARY).format(*pair) + ")"


def body(chance, count):
    """The source of a function of this many components."""
    names = [f"x{i}" for i in range(count)]
    lines = [f"def f({', '.join(names)}):"]
    for number in range(chance.randint(0, 4)):
        how = chance.random()
        if how < 0.7:
            lines.append(f"    v{number} = {expression(chance, names, 2)}")
            names.append(f"v{number}")
        elif how < 0.8:
            lines.append(f"    {chance.choice(names)} {chance.choice('+-*')}= {expression(chance, names, 1)}")
        elif how < 0.9:
            lines.append(f"    if {expression(chance, names, 1)}:\n        {names[0]} = {expression(chance, names, 1)}")
        else:
            lines.append(f"    for i in range(2):\n        {names[0]} = {names[0]} + i")
    parts = [expression(chance, names, chance.randint(0, 3)) for _ in range(chance.randint(1, 3))]
    made = {1: parts[0], 2: "({}, {})", 3: "{{'a': {}, 'b': ({}, {})}}"}[len(parts)]
    return "\n".join([*lines, f"    return {made if len(parts) == 1 else made.format(*parts)}"])


def traced(chance, folder):
    for _ in range(25):
        n = chance.randint(1, 12)
        kinds = [(chance.choice(DTYPES), *chance.choice(SHAPES)) for _ in range(chance.randint(1, 2))]
        blocks = tuple(rows(*kind, n=n, seed=chance.randrange(99)) for kind in kinds)
        one_of(chance, body(chance, len(blocks)), blocks)


def one_of(chance, source, blocks):
    space = {"np": np, "TABLE": TABLE}
    exec(compile(source, "<body>", "exec"), space)
    fn = space["f"]
    data = blocks if len(blocks) > 1 else blocks[0]
    with np.errstate(all="ignore"):
        ds = hr.Dataset.from_tensor_slices(data)
        ds = ds.map(fn, num_parallel_calls=chance.choice([None, 2]))
        reason = difference(outcomes(iter(ds)), reference_outcomes(ds))
    shapes = [(b.dtype.str, b.shape) for b in blocks]
    assert reason is None, f"{reason}\n{shapes}\n{source}"
