"""How long to wait before trying again: twice as long each time, up to a limit, and never quite the same (KIP-580).

Without the variation, all clients of a broker that went away would come back at the same moment.
"""

from collections.abc import Callable
from typing import Final

from headrace.client.chance import random
from headrace.client.config import Settings

FACTOR: Final = 2.0
JITTER: Final = 0.2
_ENOUGH_DOUBLINGS: Final = 62  # beyond it every limit is reached, and floats would grow for nothing


class Backoff:
    """The waits of one kind of retry; how often it failed is the caller's to count."""

    __slots__ = ("_first_seconds", "_max_seconds", "_random")

    def __init__(self, first_ms: int, max_ms: int, *, random: Callable[[], float] = random) -> None:
        """`random` returns a number from 0 to 1, exclusive."""
        self._first_seconds = min(first_ms, max_ms) / 1000
        self._max_seconds = max_ms / 1000
        self._random = random

    def seconds(self, failures: int) -> float:
        """The wait after the failure of this number, counted from 1; 0 for none."""
        if failures <= 0:
            return 0.0
        plain = self._first_seconds * FACTOR ** min(failures - 1, _ENOUGH_DOUBLINGS)
        return min(plain, self._max_seconds) * (1 - JITTER + 2 * JITTER * self._random())


def retry_backoff(settings: Settings) -> Backoff:
    return Backoff(settings.number("retry.backoff.ms"), settings.number("retry.backoff.max.ms"))


def reconnect_backoff(settings: Settings) -> Backoff:
    return Backoff(settings.number("reconnect.backoff.ms"), settings.number("reconnect.backoff.max.ms"))
