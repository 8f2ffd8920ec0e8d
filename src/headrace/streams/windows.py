"""Windows over event time. A window is half open, [start, end), and tumbling ones begin at the epoch, as Kafka's do.

| window | rows of one key that belong together |
|---|---|
| `tumbling("1m")` | of one minute; each row is in one window |
| `hopping("1h", "5m")` | of one hour, a new window every five minutes; each row is in twelve windows |
| `sliding("1m")` | not more than one minute apart; a window for each different set of rows (Kafka's SlidingWindows) |
| `session("30m")` | with gaps of at most 30 minutes between them; a row between two sessions joins them |
"""

from dataclasses import dataclass

from headrace.streams.durations import Duration, duration_text, positive_ms
from headrace.streams.errors import PlanError


@dataclass(frozen=True, slots=True)
class Tumbling:
    size_ms: int

    def __str__(self) -> str:
        return f"tumbling {duration_text(self.size_ms)}"


@dataclass(frozen=True, slots=True)
class Hopping:
    size_ms: int
    hop_ms: int

    def __str__(self) -> str:
        return f"hopping {duration_text(self.size_ms)} every {duration_text(self.hop_ms)}"


@dataclass(frozen=True, slots=True)
class Sliding:
    difference_ms: int

    def __str__(self) -> str:
        return f"sliding {duration_text(self.difference_ms)}"


@dataclass(frozen=True, slots=True)
class Session:
    gap_ms: int

    def __str__(self) -> str:
        return f"session with gap {duration_text(self.gap_ms)}"


Window = Tumbling | Hopping | Sliding | Session


def tumbling(size: Duration) -> Tumbling:
    return Tumbling(positive_ms(size, what="the size of a tumbling window"))


def hopping(size: Duration, hop: Duration) -> Hopping:
    """A window of `size` every `hop`, which must not be longer: rows would fall between two windows."""
    size_ms = positive_ms(size, what="the size of a hopping window")
    hop_ms = positive_ms(hop, what="the hop of a hopping window")
    if hop_ms > size_ms:
        raise PlanError(
            f"a window of {duration_text(size_ms)} every {duration_text(hop_ms)} leaves rows out: the hop must not be "
            "longer than the size. Filter first if that is meant"
        )
    return Hopping(size_ms, hop_ms)


def sliding(difference: Duration) -> Sliding:
    """Rows that are at most `difference` apart; both ends belong to the window."""
    return Sliding(positive_ms(difference, what="the difference of a sliding window"))


def session(gap: Duration) -> Session:
    return Session(positive_ms(gap, what="the gap of a session window"))
