"""The meaning of `rebatch`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle, islice

from headrace.errors import ElementError
from headrace.ops.rebatch import Rebatch, no_rows, spec_of_rows
from headrace.plan.spec import Spec
from headrace.reference.base import Place, Row, element_of, fold_id, parts_of, rows
from headrace.reference.batch import stack_elements
from headrace.reference.groups import first_error
from headrace.reference.ragged_batch import stack_ragged


@rows.register
def _(node: Rebatch, at: Place) -> Iterator[Row]:
    read = [0]
    numbered = enumerate(rows(node.input, at), 1)
    source: Iterator[Row] = (row for read[0], row in numbered)
    last: Row | None = None
    for number, size in enumerate(cycle(node.sizes)):
        if size:
            group = list(islice(source, size))
            if not group or (len(group) < size and node.drop_remainder):
                return at.drop(group)
            made = first_error(group)
            if made is None:
                values = [row.value for row in group]
                made = stack_ragged(node.input, values) if node.ragged else stack_elements(node, values, read[0])
            last = group[-1]
            yield Row(fold_id(group[0].id, 3), made)
            if len(group) < size:
                return
            continue
        spec = spec_of_rows(node)
        if not spec.complete:
            if last is None:
                last = next(source, None)
                if last is None:
                    return
                source = chain([last], source)
            if isinstance(last.value, ElementError):
                yield Row((at.path, number), last.value)
                continue
            spec = Spec.of_leaves(*parts_of(last.value)).without_sizes()
        assert spec.structure is not None
        yield Row(fold_id((at.path, number), 4), element_of(spec.structure, no_rows(spec)))
