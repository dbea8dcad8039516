"""Elements as lists of Python's numbers, for a trainer that wants nothing else."""

from typing import Any

import numpy as np

from headrace import extend


class ListFeed(extend.Feed):
    """A dataset as plain lists: `for batch in ListFeed(ds)`, an epoch each time, saved by `state_dict()`."""

    def make_target(self) -> extend.Target:
        return Lists()


class Lists(extend.PlainTarget):
    """What the consumer gets instead of arrays."""

    name = "ListFeed"

    def deliver(self, element: Any) -> Any:
        structure, leaves = extend.flatten(element)
        return structure.pack(np.asarray(leaf).tolist() for leaf in leaves)
