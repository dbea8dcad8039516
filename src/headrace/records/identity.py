"""Which file it is."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Identity(NamedTuple):
    """What tells whether a file is still the one it was."""

    size: int | None
    stamp: str

    @property
    def token(self) -> int:
        """All of it in one number."""
        digest = hashlib.blake2b(f"{self.size} {self.stamp}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "little")
