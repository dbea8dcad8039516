"""Explain why elements do not match: both of them, their positions, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.ragged import Ragged
from headrace.plan.display import spec_text
from headrace.plan.spec import LeafSpec, Spec, leaf_spec, same_dtype

IMAGE_RANK = 3
WIDTH = 200
"""The longest text of an element's spec in an error."""


def why_structures_differ(first: Spec, other: Spec, row: int, whole: str = "batch") -> str:
    """Return how elements differ in structure."""
    text = (
        f"the elements differ in structure: element 0 of the {whole} is {spec_text(first, WIDTH)}, "
        f"element {row} is {spec_text(other, WIDTH)}"
    )
    a, b = first.structure, other.structure
    if a is None or b is None:
        return text
    if _is_mapping(first) and _is_mapping(other):
        missing = [f"element {row} has no {key!r}" for key in a.keys if key not in b.keys]
        missing += [f"element 0 has no {key!r}" for key in b.keys if key not in a.keys]
        return f"{text}: {', '.join(missing)}" if missing else text
    if a.kind is b.kind is tuple and len(a.children) != len(b.children):
        return f"{text}: a list that a function returns is a tuple of components, np.array(...) of it is one component"
    return text


def _is_mapping(spec: Spec) -> bool:
    kind = None if spec.structure is None else spec.structure.kind
    return kind is not None and issubclass(kind, Mapping)


def why_components_differ(path: str, first: LeafSpec, other: LeafSpec, row: int) -> str:
    """Say how elements differ in shape or dtype, in one component."""
    where = f" of component{path}" if path else ""
    text = f"the elements{where} differ: {first} in element 0 of the batch, {other} in element {row}"
    known = first.dtype is not None and other.dtype is not None  # an empty array of text has none
    if known and first.dtype != other.dtype:
        return f"{text}: make them all of one dtype"
    if _are_images(first) and _are_images(other):
        return (
            f"{text}: images of one batch have one size; resize them before it, as with "
            "map(lambda image: hr.image.resize(image, (224, 224))), or give image_size= to the reader of a folder"
        )
    if first.shape and other.shape and len(first.shape) == len(other.shape):
        lengths = ", ragged_batch keeps all lengths" if first.shape[1:] == other.shape[1:] else ""
        return f"{text}: padded_batch fills up the shorter ones{lengths}"
    return f"{text}: make them all of one shape"


def _are_images(spec: LeafSpec) -> bool:
    """Whether a component looks like an image: height, width and a few channels."""
    shape = spec.shape or ()
    return len(shape) == IMAGE_RANK and shape[-1] in (1, 3, 4) and spec.dtype is not None and spec.dtype.kind in "uf"


def alike(first: LeafSpec, other: LeafSpec) -> bool:
    """Return whether two components can be stacked; text and other objects can in any case."""
    return first.shape == other.shape and (
        same_dtype(first.dtype, other.dtype) or (_holds_objects(first) and _holds_objects(other))
    )


def _holds_objects(spec: LeafSpec) -> bool:
    return spec.dtype is None or spec.dtype.kind in "USO"


def why_ragged_rows_differ(path: str, rows: Sequence[object]) -> str:
    """Components of which some are ragged, and others are not, or are of another dtype or rank."""
    kinds = [(isinstance(row, Ragged), spec.dtype, spec.shape and spec.shape[1:]) for row, spec in _specs(rows)]
    other = next(i for i, kind in enumerate(kinds) if kind != kinds[0])
    return why_components_differ(path, leaf_spec(rows[0]), leaf_spec(rows[other]), other)


def _specs(rows: Sequence[object]) -> list[tuple[Any, LeafSpec]]:
    return [(row, leaf_spec(row)) for row in rows]
