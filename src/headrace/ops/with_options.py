"""Set the options of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.options import NONE, Options
from headrace.plan.capabilities import ReadsFiles, provides
from headrace.plan.node import TUNING, Node, rebuild, walk

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def with_options(
    self: Dataset[Element],
    options: Options | None = None,
    name: str | None = None,
    *,
    frozen: Mapping[str, object] | None = None,
) -> Dataset[Element]:
    """Return the same elements, run with these options.

    `frozen=it.tuning()` has AUTOTUNE repeat what it found in that pass.

    Args:
        options: Options for the whole pipeline.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        frozen: Result of an iterator's `tuning()`, to use instead of searching again.

    Returns:
        A new dataset.

    >>> ds = hr.Dataset.range(3).with_options(hr.Options(deterministic=False))
    >>> ds.batch(2).options().deterministic
    False
    """
    if options is None and frozen is not None:
        options = Options()
    if frozen is not None and isinstance(options, Options):
        options = replace(options, frozen=frozen)
    if not isinstance(options, Options):
        raise TypeError(f"with_options takes hr.Options, not {options!r}")
    made = self._then(WithOptions, options.fixed_copy(), name=name)
    return made.ignore_errors() if options.on_error == "skip" else made


def options(self: Dataset) -> Options:
    """Return the options of this pipeline.

    They cannot be changed: `with_options` gives a dataset with others.

    >>> hr.Dataset.range(3).options() == hr.Options()
    True
    """
    return merge_options(self._node)


def merge_options(node: Node) -> Options:
    """Return the options of a plan: those of its inputs, the first before the others, and then its own."""
    if not any(isinstance(each, WithOptions) for each in walk(node)):
        return NONE
    below = reduce(lambda a, b: b.merge(a), (merge_options(child) for child in node.inputs), NONE)
    return below.merge(node.options) if isinstance(node, WithOptions) else below


def for_pass(plan: Node) -> Node:
    """The plan of one pass, which learns of its files by itself."""
    options = merge_options(plan)
    return rebuild(plan, lambda node: node.for_pass(options) if provides(node, ReadsFiles) else node)


@dataclass(frozen=True, eq=False)
class WithOptions(PassThrough):
    """The input itself; the executor looks for the options."""

    follows_device = True

    options: Options = field(metadata=TUNING)

    @property
    def operation(self) -> str:
        return "with_options"
