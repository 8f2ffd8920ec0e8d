"""What the broker says about a disk that takes no writes: one sentence when it begins, and one when it is over.

A full disk refuses the writes of thousands of clients to thousands of logs. Each client gets its error; an operator
needs to hear of it once. A log that has failed for good is another matter, and is named by itself: only a restart
brings it back.
"""

import logging
from typing import Final

from headrace.log.log import Log

_LOG: Final = logging.getLogger(__name__)


class WriteTrouble:
    """`is_on` is for those who write often: only while it is, `ended` has something to do."""

    __slots__ = ("_failed", "_refusing", "is_on")

    def __init__(self) -> None:
        self._refusing: set[Log] = set()  # they take writes again when there is room
        self._failed: set[Log] = set()  # they never do
        self.is_on = False

    def refused(self, log: Log, error: Exception) -> None:
        """A write was refused by the disk."""
        if log.failure is not None:
            self._refusing.discard(log)
            if log not in self._failed:
                self._failed.add(log)
                _LOG.error("%s", log.failure)
        else:
            if not self._refusing:
                _LOG.error("writes are refused, reads go on: %s", error)
            self._refusing.add(log)
        self.is_on = bool(self._refusing)

    def ended(self, log: Log) -> None:
        """The log takes writes, or is gone."""
        if log in self._refusing:
            self._refusing.remove(log)
            self.is_on = bool(self._refusing)
            if not self.is_on:
                _LOG.info("writes succeed again")

    def gone(self, log: Log) -> None:
        self.ended(log)
        self._failed.discard(log)
