"""Log lines that a client can cause again and again, written at most once in a while."""

import logging
import time
from typing import Final

INTERVAL_SECONDS: Final = 10.0


class Seldom:
    """One kind of line. The next one says how many were left out before it."""

    __slots__ = ("_interval_seconds", "_left_out", "_logger", "_next")

    def __init__(self, logger: logging.Logger, *, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._logger = logger
        self._interval_seconds = interval_seconds
        self._next = 0.0
        self._left_out = 0

    def error(self, message: str) -> None:
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return
        more = f" ({self._left_out} more of this kind before)" if self._left_out else ""
        self._logger.error("%s%s", message, more)
        self._next = now + self._interval_seconds
        self._left_out = 0
