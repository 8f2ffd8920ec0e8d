"""How fast somebody is, as Kafka reckons it: a rate over windows of time, and a bucket of tokens. It only computes.

Clients plan by `throttle_time_ms`, so the numbers are Kafka's, with their peculiarities:

* A rate is the sum of all windows divided by the time since the oldest of them began, but never by less than all
  windows but one. So a client may spend `number - 1` windows' worth at once before it is slowed down, and at the
  beginning ten idle seconds count as if they had passed.
* A window begins with the first thing that falls into it, not at a full second. A window is forgotten when nothing has
  fallen into it for as long as all windows last, so one more than `number` of them may be there.
* A bucket holds at most `number` windows' worth of tokens, and may be emptied below zero: the one who empties it is
  served, the next one waits (KIP-599).

Both remember when they were last used, so that whoever keeps many can forget those of clients that went away.
"""

from typing import Final, NamedTuple

MAX_THROTTLE_MS: Final = 2**31 - 1  # what the field of an answer holds: 24 days
_SECOND_MS: Final = 1000


class Windows(NamedTuple):
    """`quota.window.num` and `quota.window.size.seconds`."""

    number: int = 11
    size_ms: int = 1000

    @property
    def span_ms(self) -> int:
        return self.number * self.size_ms

    @property
    def credit_seconds(self) -> float:
        """How many seconds' worth may be spent at once by somebody who was idle before."""
        return (self.number - 1) * self.size_ms / _SECOND_MS


DEFAULT_WINDOWS: Final = Windows()


class _Window:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """What was recorded, per second."""

    __slots__ = ("_current", "_ring", "_windows", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self.used_ms = 0
        self._windows = windows
        self._ring: list[_Window] = []  # one more than `number` of them at most; the current one is somewhere inside
        self._current = 0

    def record(self, value: float, *, now_ms: int) -> None:
        """Add to the window of now. A negative value takes back what was recorded before."""
        ring = self._ring
        if not ring:
            ring.append(_Window(now_ms))
        window = ring[self._current]
        if now_ms - window.start_ms >= self._windows.size_ms:
            self._current = (self._current + 1) % (self._windows.number + 1)
            if self._current == len(ring):
                ring.append(_Window(now_ms))
            window = ring[self._current]
            window.begin(now_ms)
        window.total += value
        window.last_ms = self.used_ms = now_ms

    def throttle_ms(self, limit: float, *, now_ms: int) -> int:
        """How long to be silent until the rate is `limit` again; 0 if it is not above."""
        rate, elapsed_ms = self.measure(now_ms=now_ms)
        return 0 if rate <= limit else _rounded((rate - limit) / limit * elapsed_ms)

    def measure(self, *, now_ms: int) -> tuple[float, int]:
        """The rate, and the milliseconds over which it was taken."""
        number, size_ms = self._windows
        expired_ms = now_ms - number * size_ms
        total, oldest_ms = 0.0, now_ms
        for window in self._ring:
            if not expired_ms < window.last_ms <= now_ms:  # a window of the future: the clock was set back
                window.begin(now_ms)
            total += window.total
            oldest_ms = min(oldest_ms, window.start_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = number - 1 - elapsed_ms // size_ms
        elapsed_ms = max(elapsed_ms + max(missing, 0) * size_ms, 1)
        return total / (elapsed_ms / _SECOND_MS), elapsed_ms


class TokenBucket:
    """Tokens come at the limit's rate, up to a burst; whoever finds it below zero has to wait."""

    __slots__ = ("_tokens", "_windows", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self.used_ms = 0  # long ago: at its first use it is full
        self._windows = windows
        self._tokens = 0.0

    def record(self, value: float, limit: float, *, now_ms: int) -> None:
        self._fill(limit, now_ms)
        self._tokens -= value

    def throttle_ms(self, limit: float, *, now_ms: int) -> int:
        """How long until it is not below zero any more."""
        self._fill(limit, now_ms)
        return 0 if self._tokens >= 0 else _rounded(-self._tokens / limit * _SECOND_MS)

    def _fill(self, limit: float, now_ms: int) -> None:
        burst = self._windows.span_ms / _SECOND_MS * limit
        elapsed_ms = max(0, now_ms - self.used_ms)
        self._tokens = min(burst, self._tokens + elapsed_ms / _SECOND_MS * limit)
        self.used_ms = now_ms


def _rounded(milliseconds: float) -> int:
    """Halves go up, as in Java."""
    return MAX_THROTTLE_MS if milliseconds >= MAX_THROTTLE_MS else int(milliseconds + 0.5)
