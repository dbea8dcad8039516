"""Plans whose elements are the names of the records they were made of.

`Tagger.tagged` rewrites a plan. A node after each source adds a tag to every row, and operations move tags as they move
rows: a batch stacks them, a shuffle moves them, a filter drops them with its rows. So the tags of step N are the
records of step N, whatever stands in between, and no operation needs an inverse.

Elements are carried beside the tags only below operations that look at them, such as `filter`. Functions above the last
of these are not called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

import numpy as np

from headrace.core.types import Argument, Array, Component, KeywordArguments, Nested
from headrace.distribute.distribute import Distribute
from headrace.distribute.even_shard import EvenShard
from headrace.errors import HeadraceError
from headrace.formats.shared.many_files import Files
from headrace.formats.shared.one_file import OneFile
from headrace.observe.tags import NO_SOURCE, TAG_SIZE, FirstSeen, Keys, Tagged, each_tag, keys_of
from headrace.ops.batch import Batch
from headrace.ops.bucket_by_sequence_length import Bucket
from headrace.ops.cache import Cache, MemoryStore
from headrace.ops.choose import Choose
from headrace.ops.concatenate import Concatenate
from headrace.ops.enumerate import Enumerate
from headrace.ops.filter import Deciding
from headrace.ops.flat_map import FlatMap
from headrace.ops.group_by_window import GroupByWindow
from headrace.ops.ignore_errors import IgnoreErrors
from headrace.ops.interleave import Interleave
from headrace.ops.map import Map
from headrace.ops.mix import Mix
from headrace.ops.padded_batch import PaddedBatch, Padding
from headrace.ops.random_map import RandomMap
from headrace.ops.rebatch import Rebatch
from headrace.ops.rejection_resample import RejectionResample
from headrace.ops.scan import Scan
from headrace.ops.shared.batching import Batching
from headrace.ops.shared.row_sizes import leaf_number, size_of_component
from headrace.ops.shared.unchanged_rows import PassThrough, UnchangedRows
from headrace.ops.unbatch import Unbatch
from headrace.ops.unique import Unique
from headrace.ops.zip import Zip
from headrace.plan.datasets import dataset_of
from headrace.plan.node import AnyNode, Node, function_name
from headrace.plan.spec import Probe
from headrace.plan.structure import LEAF, flatten, tuple_of
from headrace.sources.parts import PartRows, Parts
from headrace.trace.function import Function

Sources = list[tuple[Node, Keys | None]]


class Tagger:
    """Rewrites plans. `sources` are the sources that it met, with their keys; a tag has the number of one.

    `parent` is the tag of the row that a nested plan was made of. Rows that such a plan holds in memory have it too,
    because they are values of that row; records of files that it opens have tags of their own.
    """

    def __init__(self, sources: Sources | None = None, parent: Any = None, known: dict[int, Node] | None = None):
        self.sources: Sources = [] if sources is None else sources
        self._parent = parent
        self._known = known or {}
        self._made: dict[tuple[int, bool], Node] = {}

    def tagged(self, node: Node, *, values: bool = False) -> Node:
        """The plan with a tag for each element: pairs of element and tag with `values`, else tags alone."""
        key = id(node), values
        if key not in self._made:  # a node that stands in two places stays one node: its random draws depend on that
            pairs = self._known.get(id(node))
            if pairs is not None:
                self._made[key] = pairs if values else tags_of(pairs)
            else:
                made = self._rewrite(node, values)
                self._made[key] = made if made.stands_for is None else replace(made, stands_for=None)
        return self._made[key]

    def _nested(self, made: Any, parent: object, known: dict[int, Node] | None = None) -> Nested:
        """The dataset that a user's function made, with tags. All its operations stay: they share seeds by number."""
        node = made if isinstance(made, Node) else made._node
        return dataset_of(Tagger(self.sources, parent, known).tagged(node, values=True))

    @singledispatchmethod
    def _rewrite(self, node: Node, values: bool) -> Node:
        if node.inputs:
            raise HeadraceError(
                f"the records of an element cannot be followed through {node.operation} ({node.site}); ask for rows of "
                "the dataset before it"
            )
        return self._source(node, values)

    @_rewrite.register(Files)
    @_rewrite.register(OneFile)
    @_rewrite.register(Parts)
    @_rewrite.register(PartRows)
    def _source(self, node: Node, values: bool) -> Node:
        held = self._parent is not None and not isinstance(node, Files | OneFile | Parts | PartRows)
        same = (
            i for i, (known, _) in enumerate(self.sources) if (known.site, known.label()) == (node.site, node.label())
        )
        number = next(same, None)
        if number is None:
            number = len(self.sources)
            self.sources.append((node, keys_of(node)))
        return Tagged(node, number, values, self._parent if held else None, self.sources[number][1])

    @_rewrite.register(UnchangedRows)
    @_rewrite.register(EvenShard)
    @_rewrite.register(Rebatch)
    def _moved(self, node: AnyNode, values: bool) -> Node:
        made: Node = node.with_inputs((self.tagged(node.input, values=values),))
        return made

    @_rewrite.register(PassThrough)
    def _passed(self, node: AnyNode, values: bool) -> Node:
        return self.tagged(node.input, values=values)

    @_rewrite.register(Cache)
    def _cached(self, node: AnyNode, values: bool) -> Node:
        made: Node = replace(node, input=self.tagged(node.input, values=values), store=MemoryStore())
        return made

    @_rewrite.register(IgnoreErrors)
    def _sound(self, node: AnyNode, values: bool) -> Node:
        return self._only(node.with_inputs((self.tagged(node.input, values=True),)), values)

    @_rewrite.register(Unique)
    def _unique(self, node: AnyNode, values: bool) -> Node:
        return self._only(FirstSeen(self.tagged(node.input, values=True), site=node.site), values)

    def _only(self, pairs: Node, values: bool) -> Node:
        return pairs if values else tags_of(pairs)

    @_rewrite.register(Map)
    @_rewrite.register(RandomMap)
    def _mapped(self, node: AnyNode, values: bool) -> Node:
        rows = self.tagged(node.input, values=values)
        if not values:
            return rows
        fn = node.fn
        draws = isinstance(node, RandomMap)

        def on_pair(element: object, tag: object, *generator: object) -> Nested:
            return call(fn, element, *generator), tag

        changed = {"signature": None} if isinstance(node, Map) else {}
        return _calling(node, rows, "fn", on_pair, draws=draws, probe=Probe(None), **changed)

    @_rewrite.register(Deciding)
    def _decided(self, node: AnyNode, values: bool) -> Node:
        predicate = node.predicate
        made = _calling(
            node, self.tagged(node.input, values=True), "predicate", lambda element, _: call(predicate, element)
        )
        return self._only(made, values)

    @_rewrite.register(Scan)
    def _scanned(self, node: AnyNode, values: bool) -> Node:
        rows = self.tagged(node.input, values=values)
        if not values:
            return rows
        fn = node.fn

        def on_pair(state: Nested, pair: Nested) -> Nested:
            state, made = fn(state, pair[0])
            return state, (made, pair[1])

        made: Node = replace(node, input=rows, fn=on_pair, probe=Probe(None))
        return made

    @_rewrite.register(Enumerate)
    def _numbered(self, node: AnyNode, values: bool) -> Node:
        rows = self.tagged(node.input, values=values)
        if not values:
            return rows
        return _mapped(node.with_inputs((rows,)), lambda number, pair: ((number, pair[0]), pair[1]))

    @_rewrite.register(RejectionResample)
    def _resampled(self, node: AnyNode, values: bool) -> Node:
        class_func = node.class_func
        rows = self.tagged(node.input, values=True)
        made = replace(node, input=rows, class_func=lambda element, _: call(class_func, element), probe=Probe(None))
        return self._only(_mapped(made, lambda kind, pair: ((kind, pair[0]), pair[1])), values)

    @_rewrite.register(Batching)
    def _batched(self, node: AnyNode, values: bool) -> Node:
        rows = self.tagged(node.input, values=values)
        if not values:
            return Batch(rows, node.batch_size, node.drop_remainder, site=node.site)
        if isinstance(node, PaddedBatch):
            return replace(node, input=rows, padding=_for_pairs(node.padding))
        made: Node = node.with_inputs((rows,))
        return made

    @_rewrite.register(Unbatch)
    def _divided(self, node: AnyNode, values: bool) -> Node:
        rows = _mapped(self.tagged(node.input, values=True), _with_leading_axis)
        return self._only(node.with_inputs((rows,)), values)

    @_rewrite.register(Bucket)
    def _bucketed(self, node: AnyNode, values: bool) -> Node:
        length_func = node.length_func
        rows = self.tagged(node.input, values=True)
        if values:
            padding = None if node.padding is None else _for_pairs(node.padding)
            buckets: Node = replace(
                node, input=rows, length_func=lambda element, _: call(length_func, element), padding=padding
            )
            return buckets
        lengths = _mapped(rows, lambda element, tag: (call(length_func, element), tag))
        made = replace(node, input=lengths, length_func=lambda length, _: length, padding=None)
        return tags_of(made)

    @_rewrite.register(Distribute)
    def _shared(self, node: AnyNode, values: bool) -> Node:
        made: Node = node.with_inputs((self.tagged(node.input, values=values),))
        if node.uneven != "pad":
            return made
        if values:
            return _mapped(made, lambda pair, mask: ((pair[0], mask), _masked(pair[1], mask)))
        return _mapped(made, _masked)

    @_rewrite.register(Zip)
    def _zipped(self, node: AnyNode, values: bool) -> Node:
        values = values or any(looks_at_values(branch) for branch in node.branches)
        branches = tuple(self.tagged(branch, values=values) for branch in node.branches)
        structure = node.structure
        made = Zip(branches, tuple_of([LEAF] * len(branches)), node.places, site=node.site)
        if not values:
            return made

        def split(*pairs: Nested) -> Nested:
            return structure.around([pair[0] for pair in pairs]), tuple(pair[1] for pair in pairs)

        return _mapped(made, split)

    @_rewrite.register(Concatenate)
    def _joined(self, node: AnyNode, values: bool) -> Node:
        return self._branches(node, node.branches, (), values)

    @_rewrite.register(Mix)
    def _mixed(self, node: AnyNode, values: bool) -> Node:
        if not node.counts:
            return self._chosen(node, values)
        size = size_function("mix", node.length_func, node.key)
        tagged = tuple(self.tagged(branch, values=True) for branch in node.branches[:-1])
        branches = (*tagged, node.branches[-1])
        made: Node = replace(node, branches=branches, length_func=lambda element, _: size(element), key=None)
        return made if values else tags_of(made)

    @_rewrite.register(Choose)
    def _chosen(self, node: AnyNode, values: bool) -> Node:
        return self._branches(node, node.branches[:-1], node.branches[-1:], values)

    def _branches(self, node: AnyNode, branches: tuple[Node, ...], rest: tuple[Node, ...], values: bool) -> Node:
        """All branches alike: a source that stands in several must stay one node."""
        inside = values or any(looks_at_values(branch) for branch in branches)
        tagged = tuple(self.tagged(branch, values=inside) for branch in branches)
        made: Node = replace(node, branches=(*tagged, *rest))
        return made if values == inside else tags_of(made)

    @_rewrite.register(FlatMap)
    @_rewrite.register(Interleave)
    def _flattened(self, node: AnyNode, values: bool) -> Node:
        fn = node.fn

        def on_pair(element: object, tag: object) -> Nested:
            return self._nested(call(fn, element), tag)

        changed: KeywordArguments = {"template": None} if isinstance(node, FlatMap) else {"num_parallel_calls": None}
        rows = self.tagged(node.input, values=True)
        return self._only(replace(node, input=rows, fn=on_pair, probe=Probe(None), **changed), values)

    @_rewrite.register(GroupByWindow)
    def _grouped(self, node: AnyNode, values: bool) -> Node:
        key_func, reduce_func = node.key_func, node.reduce_func

        def reduce_pairs(key: Component, pairs: Nested) -> Nested:
            elements = pairs.map(lambda element, _: element)
            return self._nested(reduce_func(key, elements), None, {id(elements._node): pairs._node})

        made = replace(
            node,
            input=self.tagged(node.input, values=True),
            key_func=lambda element, _: call(key_func, element),
            reduce_func=reduce_pairs,
            probe=Probe(None),
        )
        return self._only(made, values)


LOOK_AT_VALUES = (Deciding, IgnoreErrors, Unique, RejectionResample, Unbatch, Bucket, FlatMap, Interleave)


def looks_at_values(node: Node) -> bool:
    """Whether some operation of a plan decides by values which rows there are."""
    return isinstance(node, (*LOOK_AT_VALUES, GroupByWindow)) or any(map(looks_at_values, node.inputs))


def call(fn: Callable[..., object], element: object, *more: object) -> Nested:
    """Call a user's function on an element as operations do: a tuple gives several arguments."""
    return fn(*element, *more) if type(element) is tuple else fn(element, *more)


def size_function(operation: str, fn: Callable[..., object] | None, key: object) -> Callable[[Any], Any]:
    """What tells the size of one element, for an operation that was given a function or the key of a component."""
    if fn is not None:
        return lambda element: call(fn, element)

    def size(element: Nested) -> Component:
        structure, leaves = flatten(element)
        return size_of_component(leaves[leaf_number(operation, structure, key)])

    return size


def tags_of(pairs: Node) -> Node:
    """The tags of pairs of elements and tags."""
    return _mapped(pairs, lambda _, tag: tag)


def _mapped(node: Node, fn: Callable[..., object]) -> Node:
    return dataset_of(node).map(fn)._node


def _calling(
    node: AnyNode, rows: Node, name: str, fn: Callable[..., object], *, draws: bool = False, **changed: Argument
) -> Node:
    """The operation with another function, called on the thread that asks for its rows."""
    mode = getattr(node, "mode", "auto")
    mode = "eager" if mode == "process" else mode
    fn.__name__ = function_name(getattr(node, name))
    if hasattr(node, "num_parallel_calls"):
        changed.update(num_parallel_calls=None, mode=mode)
    changed.update({"input": rows, name: fn, "function": Function(fn, mode, draws=draws)})
    made: Node = replace(node, **changed)
    return made


def _for_pairs(padding: Padding) -> Padding:
    """Padding that leaves tags alone."""
    shapes = None if padding.shapes is None else (padding.shapes, None)
    values = padding.values
    if values is not None and flatten(values)[0] != LEAF:
        values = (values, None)
    return Padding(shapes, values)


def _with_leading_axis(element: object, tags: object) -> Nested:
    """A tag for each row of a batched element; all tags for each row if the function changed their number."""
    _, leaves = flatten(element)
    rows = len(leaves[0])

    def spread(tag: Array) -> Array:
        if tag.ndim > 1 and len(tag) == rows:
            return tag
        return np.broadcast_to(tag, (rows, *tag.shape)).copy()

    return element, each_tag(tags, spread)


def _masked(tags: object, mask: Array) -> Nested:
    """Tags without a source for rows that only fill up a batch."""

    def blank(tag: Array) -> Array:
        kept = np.reshape(mask, np.shape(mask) + (1,) * (tag.ndim - np.ndim(mask)))
        return np.where(kept, tag, np.full(TAG_SIZE, NO_SOURCE))

    return each_tag(tags, blank)
