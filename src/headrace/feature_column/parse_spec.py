"""How to parse tf.Examples for columns."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.feature_column.column import FeatureColumn
from headrace.io.feature import Feature


def make_parse_example_spec(feature_columns: Iterable[FeatureColumn]) -> dict[str, Feature]:
    """Return the features of these columns for `hr.io.parse_example`.

    Numbers are FixedLenFeatures, ids are made of VarLenFeatures. If each record has exactly one value, a
    FixedLenFeature is parsed faster.

    Args:
        feature_columns: Feature columns.

    >>> hr.feature_column.make_parse_example_spec([hr.feature_column.numeric_column("age")])
    {'age': FixedLenFeature(shape=(1,), dtype=dtype('float32'), default_value=None)}
    """
    found: dict[str, Feature] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise TypeError(f"make_parse_example_spec takes feature columns, not {column!r}")
        for key, feature in column.parse_example_spec.items():
            if key in found and found[key] != feature:
                raise ValueError(
                    f"feature {key!r} is needed in two ways, {found[key]} and {feature}, by {column.name!r} and another"
                )
            found[key] = feature
    return found
