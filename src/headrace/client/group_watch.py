"""Is the user still there? A member that asks for no records for max.poll.interval.ms is taken to be stuck."""

import time

from headrace.client.consumer_inbox import Inbox
from headrace.client.consumer_progress import Progress


class UserWatch:
    """The user's side calls `touch`; a user that waits for records, or takes them one by one, is there as well."""

    __slots__ = ("_inbox", "_mark", "_progress", "_seen", "interval")

    def __init__(self, inbox: Inbox, progress: Progress, interval: float) -> None:
        """`interval` is in seconds."""
        self._inbox = inbox
        self._progress = progress
        self._mark: object = None
        self._seen = time.monotonic()
        self.interval = interval

    def touch(self) -> None:
        """From the user's thread."""
        self._seen = time.monotonic()

    def seconds_away(self) -> float:
        """How long the user has not been seen. To be asked now and then, since it looks what has changed since."""
        now = time.monotonic()
        mark = self._progress.mark()
        if self._inbox.is_waited_for or mark != self._mark:
            self._mark = mark
            self._seen = now
        return now - self._seen

    def seconds_left(self) -> float:
        return self.interval - self.seconds_away()
