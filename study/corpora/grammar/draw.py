"""Random draws that depend only on a stable key."""

import hashlib
from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def digest(*key: object) -> str:
    """Return the SHA-256 of a key as hexadecimal digits."""
    return hashlib.sha256("\n".join(map(str, key)).encode()).hexdigest()


class Draw:
    """A stream of draws; only `Random.random` is used, the one method whose sequence Python guarantees."""

    def __init__(self, *key: object) -> None:
        self._random = Random(int(digest(*key), 16)).random

    def below(self, n: int) -> int:
        """Return an integer from 0 to n - 1."""
        return int(self._random() * n)

    def one(self, items: Sequence[Item]) -> Item:
        """Return one of the items, all equally likely."""
        return items[int(self._random() * len(items))]

    def chance(self, probability: float) -> bool:
        """Return True with that probability."""
        return self._random() < probability
