"""What the broker says about a disk that takes no writes: one sentence when it begins, and one when it is over.

A full disk refuses the writes of thousands of clients to thousands of logs. Each client gets its error; an operator
needs to hear of it once. A disk that is nearly full takes small writes and refuses large ones: then it is told again
only after a while. A log that has failed for good is another matter, and is named by itself: only a restart brings it
back.
"""

import logging
import time
from typing import Final

from headrace.log.log import Log

_LOG: Final = logging.getLogger(__name__)
QUIET_SECONDS: Final = 10.0  # after it was told that writes are refused


class WriteTrouble:
    """`is_on` is for those who write often: only while it is, `ended` has something to do."""

    __slots__ = ("_failed", "_is_told", "_quiet_until", "_refusing", "is_on")

    def __init__(self) -> None:
        self._refusing: set[Log] = set()  # they take writes again when there is room
        self._failed: set[Log] = set()  # they never do
        self._is_told = False
        self._quiet_until = 0.0
        self.is_on = False

    def refused(self, log: Log, error: Exception) -> None:
        """A write was refused by the disk."""
        if log.failure is not None:
            self.ended(log)
            if log not in self._failed:
                self._failed.add(log)
                _LOG.error("%s", log.failure)
            return
        self._refusing.add(log)
        self.is_on = True
        now = time.monotonic()
        if not self._is_told and now >= self._quiet_until:
            self._is_told = True
            self._quiet_until = now + QUIET_SECONDS
            _LOG.error("writes are refused, reads go on: %s", error)

    def ended(self, log: Log) -> None:
        """The log takes writes, or is gone."""
        self._refusing.discard(log)
        if self.is_on and not self._refusing:
            self.is_on = False
            if self._is_told:
                self._is_told = False
                _LOG.info("writes succeed again")

    def gone(self, log: Log) -> None:
        self.ended(log)
        self._failed.discard(log)
