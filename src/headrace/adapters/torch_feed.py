"""What `to_torch` gives, as type checkers see it: a feed that is also one of PyTorch's iterable datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.adapters.feed import Feed

if TYPE_CHECKING:
    from torch.utils.data import IterableDataset

    class TorchFeed(Feed, IterableDataset[Any]):  # type: ignore[misc]
        """A feed that `DataLoader(feed, batch_size=None)` and trainers take. It is made where torch is imported."""

else:
    TorchFeed = Feed
