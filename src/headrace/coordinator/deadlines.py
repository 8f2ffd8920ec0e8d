"""When something must happen: session time-outs, rebalance time-outs, expiry.

A heap with lazy deletion: setting a deadline again, which every heartbeat does, replaces it in a dict and costs no
search in the heap. Stale entries are dropped when they come to the top, and when they are the greater part of the heap.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SMALL: Final = 64  # a heap so short is not worth tidying


class Deadlines(Generic[Key]):
    """At most one deadline for each key."""

    __slots__ = ("_at_ms", "_count", "_heap")

    def __init__(self) -> None:
        self._at_ms: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._count = 0  # keeps keys that are due at the same time in the order of setting, and uncompared

    def __len__(self) -> int:
        return len(self._at_ms)

    def __contains__(self, key: Key) -> bool:
        return key in self._at_ms

    def set(self, key: Key, at_ms: int) -> None:
        """Due at `at_ms`, and no longer at the time it was due before."""
        current = self._at_ms.get(key)
        self._at_ms[key] = at_ms
        # A deadline that moves into the future is found again when its old entry comes to the top.
        if current is None or at_ms < current:
            self._push(key, at_ms)

    def cancel(self, key: Key) -> None:
        self._at_ms.pop(key, None)
        if len(self._heap) > _SMALL and len(self._heap) > 2 * len(self._at_ms):
            self._tidy()

    def shift(self, by_ms: int) -> None:
        """All of them are due so much later, or earlier."""
        self._at_ms = {key: at_ms + by_ms for key, at_ms in self._at_ms.items()}
        self._tidy()

    @property
    def next_ms(self) -> int | None:
        """When the next one is due; None if there is none."""
        while self._heap:
            at_ms, _, key = self._heap[0]
            due_ms = self._at_ms.get(key)
            if due_ms == at_ms:
                return at_ms
            heappop(self._heap)
            if due_ms is not None and due_ms > at_ms:
                self._push(key, due_ms)
        return None

    def pop_due(self, now_ms: int) -> Key | None:
        """One that is due, which is then forgotten."""
        next_ms = self.next_ms
        if next_ms is None or next_ms > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._at_ms[key]
        return key

    def _push(self, key: Key, at_ms: int) -> None:
        self._count += 1
        heappush(self._heap, (at_ms, self._count, key))

    def _tidy(self) -> None:
        self._heap = [(at_ms, number, key) for number, (key, at_ms) in enumerate(self._at_ms.items())]
        self._count = len(self._heap)
        heapify(self._heap)
