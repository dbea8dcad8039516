"""Records to elements, and what of them is wanted: `SkipDecoding` and `PartialDecoding`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.columns import values as column_values
from headrace.columns.kind import Column
from headrace.core.types import AnyFunction, Arguments, Attribute, Nested, Reduced
from headrace.errors import what_there_is
from headrace.image.codecs import MAX_PIXELS
from headrace.io.binary import bytes_column
from headrace.io.parse import Plan, plan
from headrace.plan.structure import Structure
from headrace.tfds.feature import FeatureConnector, FeaturesDict, SequenceFeature
from headrace.tfds.layout import FeatureLayout, InnerDataset, Tree, flat_layouts, layout_tree, tree_spec
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    from headrace.tfds.feature import FeatureLike


@dataclass(frozen=True)
class SkipDecoding:
    """For `decoders={"image": hr.tfds.decode.SkipDecoding()}`: the bytes as stored in the record."""


@dataclass(frozen=True)
class PartialDecoding:
    """For `decoders=hr.tfds.decode.PartialDecoding({"image": True, "boxes": {"label"}})`: these features and no others.

    Other features are not even parsed. `decoders` apply to those that are read.
    """

    features: FeatureLike
    decoders: Nested = None


Chooser: TypeAlias = AnyFunction


@dataclass(frozen=True)
class CustomDecoder:
    """A function of the stored value and the feature that replaces the default decoding."""

    fn: AnyFunction
    args: Arguments = ()
    kwargs: tuple[tuple[str, Any], ...] = ()


def make_decoder(fn: Callable[..., object] | None = None, **_: object) -> AnyFunction:
    """Make a function `fn(stored, feature)` a decoder: `decoders={"image": my_decoder()}`.

    >>> @hr.tfds.decode.make_decoder
    ... def first_byte(stored, feature):
    ...     return stored[0]
    >>> _ = hr.Dataset.range(3).map(lambda x: {"name": str(x)}).write_tfds(folder, "names")
    >>> ds = hr.tfds.load("names", split="train", data_dir=folder, decoders={"name": first_byte()})
    >>> list(ds)[2]
    {'name': np.int64(50)}
    """
    if fn is None:
        return make_decoder
    decorated = fn
    return lambda *args, **kwargs: CustomDecoder(decorated, args, tuple(kwargs.items()))


class RecordDecoder:
    """Makes elements of records: of all the features, or of some of them."""

    _headrace_constant = True

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __repr__(self) -> str:
        return f"RecordDecoder({self.tree!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordDecoder) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> Reduced:
        return RecordDecoder, (self.tree,)

    @cached_property
    def _flat(self) -> tuple[Structure, list[FeatureLayout]]:
        return flat_layouts(self.tree)

    @property
    def layouts(self) -> list[FeatureLayout]:
        """Of all components."""
        return self._flat[1]

    @cached_property
    def parse(self) -> Plan:
        """What reads records."""
        stored = {name: feature for layout in self.layouts for name, feature in layout.stored().items()}
        return plan(stored, single=True)

    @property
    def spec(self) -> Nested:
        """What elements look like."""
        return tree_spec(self.tree)

    @property
    def costly(self) -> bool:
        """Whether threads are worth their while."""
        return any(layout.costly for layout in self.layouts)

    @property
    def nests(self) -> bool:
        """Whether elements hold datasets."""
        return any(isinstance(layout, InnerDataset) for layout in self.layouts)

    def columns(self, records: Column) -> Column:
        """Return the components of many records, as columns in the structure of an element."""
        found = self.parse.fixed_columns(records)
        return self._flat[0].pack(layout.column(found, len(records)) for layout in self.layouts)

    def element(self, record: bytes) -> Nested:
        """Return the element of one record."""
        found = self.parse.fixed_columns(bytes_column([record]))
        return self._flat[0].pack(next(iter(column_values(layout.column(found, 1)))) for layout in self.layouts)


@traced_operation(
    spec=lambda record, decoder: decoder.spec,  # noqa: ARG005
    block=lambda record, decoder: decoder.columns,  # noqa: ARG005
)
def decode_record(record: bytes, decoder: RecordDecoder) -> Nested:
    """Return the element of one record; in a traced function, of all records of a block at once."""
    return decoder.element(record)


def record_decoder(
    features: FeatureConnector, decoders: Nested = None, keys: object = None, max_pixels: int | None = MAX_PIXELS
) -> RecordDecoder:
    """Return what decodes records of these features, as decoders say; `keys` are a structure of names to choose."""
    wanted = features
    if isinstance(decoders, PartialDecoding):
        wanted = choose_features(features, decoders.features)
        decoders = decoders.decoders
    check_decoders(wanted, decoders)
    tree = layout_tree(wanted, skip=decoders, max_pixels=max_pixels)
    return RecordDecoder(tree if keys is None else choose_keys(tree, keys))


def choose_keys(tree: Tree, keys: Nested) -> Tree:
    """Return the parts of a tree in the structure of `keys`, whose leaves are names such as `a` or `a/b`."""
    if isinstance(keys, tuple):
        return tuple(choose_keys(tree, key) for key in keys)
    if isinstance(keys, Mapping):
        return {name: choose_keys(tree, key) for name, key in keys.items()}
    if keys in tree:
        return tree[keys]
    found = tree
    for part in keys.split("/"):
        if not isinstance(found, dict) or part not in found:
            raise ValueError(f"supervised keys name {keys!r}: {what_there_is(keys, tree)}")
        found = found[part]
    return found


def choose_features(features: FeatureConnector, wanted: object, path: str = "") -> FeatureConnector:
    """Return the features that are wanted: a nested dict of True, a set or list of names, or features themselves."""
    if wanted is True or (isinstance(wanted, FeatureConnector) and not isinstance(wanted, Mapping)):
        return features
    if isinstance(features, SequenceFeature):
        made = object.__new__(type(features))
        made.__dict__ |= features.__dict__ | {"feature": choose_features(features.feature, wanted, path)}
        return made
    if not isinstance(features, FeaturesDict):
        raise ValueError(f"feature {path!r} has no parts to choose from, as {wanted!r} does")
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise TypeError(f"PartialDecoding takes a nested dict, or a set of names, not {wanted!r}")
    chosen = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted, True)
    for name in chosen:
        if name not in features:
            raise ValueError(f"there is no feature {f'{path}/{name}'.strip('/')!r}: {what_there_is(name, features)}")
    kept = {
        name: choose_features(features[name], part, f"{path}/{name}".strip("/"))
        for name, part in chosen.items()
        if part
    }
    return FeaturesDict(kept)


def check_decoders(features: FeatureConnector, decoders: Nested, path: str = "") -> None:
    """Check that decoders are nested like the features, with SkipDecoding at the leaves."""
    if decoders is None or isinstance(decoders, SkipDecoding | CustomDecoder):
        return
    if not isinstance(decoders, Mapping):
        raise TypeError(
            f"decoders are SkipDecoding(), PartialDecoding(…) or made by make_decoder, in dicts, not {decoders!r}"
        )
    inner = features
    while isinstance(inner, SequenceFeature):
        inner = inner.feature
    for name, decoder in decoders.items():
        known = inner if isinstance(inner, FeaturesDict) else {}
        if name not in known:
            raise ValueError(
                f"decoders name {f'{path}/{name}'.strip('/')!r}, which is no feature: {what_there_is(name, known)}"
            )
        check_decoders(known[name], decoder, f"{path}/{name}")


__all__ = ["PartialDecoding", "SkipDecoding", "make_decoder"]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.tfds.decode", name)
