"""A value that is carried from element to element: the state of scan and reduce."""

from __future__ import annotations

import base64

import numpy as np

from headrace.columns.block import leaf
from headrace.core.types import Component, JsonObject, JsonValue, Nested
from headrace.errors import SpecError, StateError
from headrace.plan.spec import leaf_spec
from headrace.plan.structure import LEAF, Structure, flatten, tuple_of


class Carried:
    """A carried value. It is stored in states, as JSON. Users never get the arrays kept here."""

    __slots__ = ("_leaves", "_operation", "_structure")

    def __init__(self, operation: str, structure: Structure, leaves: list[Component]) -> None:
        self._operation = operation
        self._structure = structure
        self._leaves = leaves

    @classmethod
    def start(cls, operation: str, value: object) -> Carried:
        """Return the initial state that a user gave."""
        structure, leaves = flatten(value)
        return cls(operation, structure, [_keep(v) for v in leaves])

    @property
    def value(self) -> Nested:
        """The state for the user's function, which may write to it."""
        return self._structure.pack(v.copy() if isinstance(v, np.ndarray) else v for v in self._leaves)

    def next(self, value: Nested) -> Carried:
        """Return the state after one more element, of the same structure and dtypes; shapes may change, as
        in tf.data.
        """
        structure, leaves = flatten(value)
        if structure != self._structure:
            raise SpecError(f"the state of {self._operation} was {self._structure}, and became {structure}")
        made = [_keep(v) for v in leaves]
        for path, old, new in zip(structure.paths, self._leaves, made, strict=True):
            if not leaf_spec(old).like(leaf_spec(new)):
                what = f"component{path} of the state" if path else "the state"
                raise SpecError(f"{what} of {self._operation} was {leaf_spec(old)}, and became {leaf_spec(new)}")
        return Carried(self._operation, structure, made)

    def to_json(self) -> list[JsonValue]:
        """Return the leaves as JSON values; the structure belongs to the operation."""
        return [_plain(v) for v in self._leaves]

    @classmethod
    def from_json(cls, data: object) -> Carried:
        """Return what `to_json` gave, of no structure yet."""
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise StateError(f"the state is damaged: {data!r:.80} are no values")
        try:
            return cls("", tuple_of([LEAF] * len(data)), [_restore(item) for item in data])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the state is damaged: {error}") from None

    def like(self, other: Carried) -> Carried:
        """Return a saved state as one of this operation."""
        if len(other._leaves) != self._structure.leaves:
            raise StateError(f"the state is damaged: {len(other._leaves)} values carried, not {self._structure.leaves}")
        return Carried(self._operation, self._structure, other._leaves)


def _keep(value: object) -> Component:
    made = leaf(value)
    return made.copy() if isinstance(made, np.ndarray) else made


def _plain(value: object) -> JsonValue:
    if isinstance(value, str):
        return {"str": value}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"a state that holds {type(value).__name__} cannot be saved")
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def _restore(plain: JsonObject) -> Component:
    if "str" in plain:
        return plain["str"]
    if "bytes" in plain:
        return base64.b64decode(plain["bytes"])
    array = np.frombuffer(base64.b64decode(plain["data"]), plain["dtype"]).reshape(plain["shape"])
    return array.copy() if array.ndim else array[()]
