"""The meaning of `from_generator`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.reference.base import Place, Row, element_of, rows
from headrace.sources.generator import Generator, conform


@rows.register
def _(node: Generator, at: Place) -> Iterator[Row]:
    iterator = None
    number = 0
    while True:
        try:
            if iterator is None:
                iterator = iter(node.generator(*node.args))
            value = next(iterator)
        except StopIteration as stop:
            if iterator is None:
                yield Row((at.path, number), node.error(stop, number))
            else:
                node.note_end(number)
            return
        except Exception as error:
            yield Row((at.path, number), node.error(error, number))
            if iterator is None:
                return
        else:
            try:
                yield Row((at.path, number), element_of(*conform(value, node.signature)))
            except Exception as error:
                yield Row((at.path, number), node.error(error, number))
        number += 1
        node.history.gave_elements = True
