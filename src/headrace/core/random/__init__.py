"""Random numbers that belong to rows: a keyed generator for each row, or for a block of them.

Import them from here. They know path keys and arrays; they know no plan and no operation.
"""

from headrace.core.random.generators import BlockGenerator, RowGenerator, row_key

__all__ = ["BlockGenerator", "RowGenerator", "row_key"]
