"""Triton kernels made of expressions: each reads pixels where they are, computes all channels, and writes the result.

Imported only by `Machine.fused`, on a GPU. Every operation is rounded to its dtype, and products and sums one by one
(`enable_fp_fusion=False`), so that the results are those of PyTorch's operations to the bit.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import triton
import triton.language as tl

from headrace.core.types import DType, LibraryObject, TorchTensor
from headrace.device.expression import BOOL, COMPARISONS, DTYPES, Expression, pixel, schedule
from headrace.device.pixels import Pixels

if TYPE_CHECKING:
    from headrace.device.machine import Machine

BLOCK = 512
"""Pixels that one program computes at a time."""
MAX_PIXELS = 65_535 * BLOCK
"""Of an image: the second axis of a grid has no more programs."""
TYPES = {dtype: f"tl.{dtype.name}" for dtype in DTYPES}

HEAD = """
def kernel(flat, geometry, out, {tables}block: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    here = geometry + image * 7
    width = tl.load(here + 5).to(tl.int32)
    count = tl.load(here + 4).to(tl.int32) * width
    pixel = tl.program_id(1) * block + tl.arange(0, block)
    inside = pixel < count
    y, x = (pixel // width).to(tl.int64), (pixel % width).to(tl.int64)
    at = flat + tl.load(here) + y * tl.load(here + 1) + x * tl.load(here + 2)
    deep = tl.load(here + 3)
"""
INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
NAN = "propagate_nan=tl.PropagateNan.ALL"


def fits(pixels: Pixels, expression: Expression) -> bool:
    """Return whether a kernel computes this expression of these images."""
    sizes = pixels.shapes[:, 0] * pixels.shapes[:, 1]
    alike = len(pixels) > 0 and bool((pixels.shapes[:, 2] == pixels.shapes[0, 2]).all())
    return alike and sizes.min() > 0 and sizes.max() <= MAX_PIXELS and _known(expression)


@lru_cache(maxsize=1024)
def _known(expression: Expression) -> bool:
    inner = all(one.dtype in TYPES or (one.dtype == BOOL and one.args) for one, _ in schedule(expression))
    return inner and expression.dtype in TYPES


def compute(machine: Machine, pixels: Pixels, expression: Expression, tables: Sequence[TorchTensor]) -> Pixels:
    """Return the expression of all images, one behind the other."""
    shapes = pixels.shapes.copy()
    shapes[:, 2] = expression.channels
    sizes = shapes.prod(1)
    dtype = getattr(machine.torch, expression.dtype.name)
    out = machine.torch.empty(int(sizes.sum()), dtype=dtype, device=machine.device)
    _run(machine, pixels, expression, tables, out, _programs(pixels), sums=False)
    return Pixels.packed(out, shapes)


def sums(machine: Machine, pixels: Pixels, expression: Expression, tables: Sequence[TorchTensor]) -> TorchTensor:
    """Return the sum of each channel of each image: int64 of integers, float64 of floats.

    Programs write parts, which are added in order: runs are equal to the bit.
    """
    dtype = machine.torch.int64 if expression.dtype.kind in "iu" else machine.torch.float64
    programs = _programs(pixels)
    parts = machine.torch.empty((len(pixels), programs, expression.channels), dtype=dtype, device=machine.device)
    _run(machine, pixels, expression, tables, parts, programs, sums=True)
    return parts.sum(1)


def try_out(machine: Machine) -> None:
    """Compile and run a kernel. Raise whatever keeps Triton from it, such as a version without these operations."""
    images = Pixels.of(machine.torch.zeros((1, 1, 1, 1), dtype=machine.torch.uint8, device=machine.device))
    compute(machine, images, (pixel(np.uint8, 1).cast(np.float32) / 255).clamp(0.0, 1.0), [])


def _programs(pixels: Pixels) -> int:
    return -(-int((pixels.shapes[:, 0] * pixels.shapes[:, 1]).max()) // BLOCK)


def _run(
    machine: Machine, pixels: Pixels, expression: Expression, tables: Sequence[TorchTensor], out: TorchTensor,
    programs: int, *, sums: bool,
) -> None:  # fmt: skip
    kernel, positions = _kernel(expression, sums)
    needed = [tables[i] for i in positions]
    grid = len(pixels), programs
    kernel[grid](pixels.flat, pixels.geometry(machine), out, *needed, BLOCK, enable_fp_fusion=False)


@lru_cache(maxsize=256)
def _kernel(expression: Expression, sums: bool) -> tuple[LibraryObject, list[int]]:
    """Return the kernel of an expression, and the positions of the tables that it reads."""
    steps = [one for one, _ in schedule(expression)]
    positions = sorted({int(one.value[0]) for one in steps if one.op == "table"})
    names: dict[Expression, list[str]] = {}
    lines = HEAD.format(tables="".join(f"t{i}, " for i in positions)).splitlines()
    for number, one in enumerate(steps):
        args = [names[arg] for arg in one.args]
        names[one] = [f"v{number}_{c}" for c in range(one.channels)]
        for c, name in enumerate(names[one]):
            made = _text(one, c, [each[c % len(each)] for each in args], args)
            lines.append(f"    {name} = {made}")
    lines += _sums(expression, names[expression]) if sums else _stores(names[expression])
    return _compiled("\n".join(lines) + "\n"), positions


def _stores(names: list[str]) -> list[str]:
    to = f"    to = out + (tl.load(here + 6) + pixel) * {len(names)}"
    return [to, *(f"    tl.store(to + {c}, {name}, mask=inside)" for c, name in enumerate(names))]


def _sums(expression: Expression, names: list[str]) -> list[str]:
    whole = expression.dtype.kind in "iu"
    small = whole and expression.dtype.itemsize <= 2
    within = "tl.int32" if small else "tl.int64" if whole else "tl.float64"
    to = f"    to = out + (image * tl.num_programs(1) + tl.program_id(1)) * {len(names)}"
    parts = [f"tl.sum(tl.where(inside, {name}.to({within}), 0))" for name in names]
    return [to, *(f"    tl.store(to + {c}, {part})" for c, part in enumerate(parts))]


def _text(one: Expression, channel: int, args: list[str], every: list[list[str]]) -> str:
    """Return a channel of an expression in Triton's language, of the same channel of its arguments or of every one."""
    if one.op == "pixel":
        return f"tl.load(at + {channel} * deep, mask=inside, other=0)"
    if one.op == "table":
        position, per_image = one.value
        return f"tl.load(t{position} + {f'image * {one.channels} + ' if per_image else ''}{channel})"
    if one.op == "number":
        return _number(one.value[0], one.dtype)
    if one.op == "channel":
        return every[0][int(one.value[0])]
    if one.op == "stack":
        return every[channel][0]
    if one.op == "where":
        return f"tl.where({', '.join(args)})"
    kind = one.args[0].dtype
    if one.op == "cast":
        return _cast(args[0], kind, one.dtype)
    if one.op in ("amax", "amin"):
        made = every[0][0]
        for other in every[0][1:]:
            made = f"tl.{'maximum' if one.op == 'amax' else 'minimum'}({made}, {other}, {NAN})"
        return made
    if one.op == "clamp":
        low, high = (_number(limit, kind) for limit in one.value)
        return f"tl.minimum(tl.maximum({args[0]}, {low}, {NAN}), {high}, {NAN})"
    if kind == np.float16 and one.op not in COMPARISONS:  # as PyTorch computes
        made = _arithmetic(one, [f"{arg}.to(tl.float32)" for arg in args], np.dtype(np.float32))
        return f"({made}).to(tl.float16)"
    return _arithmetic(one, args, kind)


def _arithmetic(one: Expression, args: list[str], dtype: DType) -> str:
    if one.op in INFIX:
        return f"{args[0]} {INFIX[one.op]} {args[1]}"
    if one.op == "true_divide":
        return f"tl.div_rn({args[0]}, {args[1]})" if dtype == np.float32 else f"{args[0]} / {args[1]}"
    if one.op in ("maximum", "minimum"):
        return f"tl.{one.op}({args[0]}, {args[1]}, {NAN})"
    if one.op == "nan_to_zero":
        return f"tl.where({args[0]} == {args[0]}, {args[0]}, 0)"
    if one.op == "shifted":
        return f"{args[0]} >> {one.value[0]}"
    if one.op == "neg":
        return f"{args[0]} * -1" if dtype.kind == "f" else f"0 - {args[0]}"
    return f"tl.{one.op}({args[0]})"


def _cast(arg: str, have: DType, wanted: DType) -> str:
    """Return a cast by the steps that PyTorch takes."""
    if have.kind == "f" and wanted.kind in "iu" and wanted.itemsize < 4:
        arg = f"{arg}.to(tl.int32)"
    if wanted == np.float16:
        arg = f"{arg}.to(tl.float32)"
    return f"{arg}.to({TYPES[wanted]})"


def _number(text: str | int, dtype: DType) -> str:
    finite = str(text).strip("-") not in ("inf", "nan")
    return f"tl.full((), {text if finite else f'float({text!r})'}, {TYPES[dtype]})"


def _compiled(source: str) -> LibraryObject:
    """Return the kernel of a text, which Triton reads again by the name of its file."""
    name = f"<headrace kernel {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    scope: dict[str, Any] = {"tl": tl, "__name__": __name__}
    exec(compile(source, name, "exec"), scope)
    return triton.jit(scope["kernel"])
