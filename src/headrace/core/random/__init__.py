"""Random numbers that belong to rows."""

from headrace.core.random.generators import BlockGenerator, RowGenerator, row_key

__all__ = ["BlockGenerator", "RowGenerator", "row_key"]
