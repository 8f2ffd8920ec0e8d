"""What producers were promised, beside what a log holds: a pure function that finds every broken promise.

A history is what several producers did to the partitions of a topic, and what was read back at the end. Each producer
sends values to a partition in an order, again and again until they are acknowledged. Values are unique. So, for each
partition:

    MISSING     acknowledged, and not there (unless the log begins behind it, or compaction may have taken it)
    MOVED       acknowledged at one offset, and there at another
    TWICE       acknowledged at two offsets
    DOUBLED     there more than once
    INVENTED    there, and nobody sent it
    REORDERED   there before what the same producer sent earlier
    SKIPPED     not there, though what the same producer sent later is
    UNORDERED   offsets do not grow
    GAP         offsets are missing
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import NamedTuple


class Breach(Enum):
    MISSING = auto()
    MOVED = auto()
    TWICE = auto()
    DOUBLED = auto()
    INVENTED = auto()
    REORDERED = auto()
    SKIPPED = auto()
    UNORDERED = auto()
    GAP = auto()


class Violation(NamedTuple):
    breach: Breach
    partition: int
    what: str


class Entry(NamedTuple):
    """A record of the log."""

    offset: int
    value: bytes
    key: bytes | None = None


@dataclass
class History:
    # By producer and partition, in the order of sending:
    attempted: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    # By partition: what producers were told. An offset of None is an acknowledgement that does not say where.
    acknowledged: dict[int, list[tuple[int | None, bytes]]] = field(default_factory=lambda: defaultdict(list))
    read: dict[int, list[Entry]] = field(default_factory=dict)
    log_start: dict[int, int] = field(default_factory=dict)  # records before it were deleted, as somebody asked
    keys: Mapping[bytes, bytes] | None = None  # of a compacted topic: the key of each value


def check(history: History) -> list[Violation]:
    """Every broken promise; nothing, if all were kept."""
    return [violation for partition in sorted(history.read) for violation in _check_partition(history, partition)]


def _check_partition(history: History, partition: int) -> Iterator[Violation]:
    entries = history.read[partition]
    yield from _check_offsets(history, partition, entries)
    sent = {name: values for (name, place), values in history.attempted.items() if place == partition}
    yield from _check_values(partition, entries, sent)
    yield from _check_acknowledged(history, partition, entries)
    for name, values in sent.items():
        yield from _check_order(history, partition, name, values, entries)


def _check_offsets(history: History, partition: int, entries: Sequence[Entry]) -> Iterator[Violation]:
    expected = history.log_start.get(partition, 0)
    for entry in entries:
        if entry.offset < expected:
            yield Violation(Breach.UNORDERED, partition, f"offset {entry.offset}, expected {expected}")
        elif entry.offset > expected and history.keys is None:
            yield Violation(Breach.GAP, partition, f"offset {entry.offset}, expected {expected}")
        expected = entry.offset + 1


def _check_values(partition: int, entries: Sequence[Entry], sent: Mapping[str, Sequence[bytes]]) -> Iterator[Violation]:
    known = {value for values in sent.values() for value in values}
    for value, count in Counter(entry.value for entry in entries).items():
        if count > 1:
            yield Violation(Breach.DOUBLED, partition, f"{value!r} {count} times")
        if value not in known:
            yield Violation(Breach.INVENTED, partition, f"{value!r}")


def _check_acknowledged(history: History, partition: int, entries: Sequence[Entry]) -> Iterator[Violation]:
    places = {entry.value: entry.offset for entry in entries}
    last_of_key = {entry.key: entry.offset for entry in entries}
    told: dict[bytes, int] = {}
    for offset, value in history.acknowledged.get(partition, []):
        if offset is None:
            if value not in places and history.keys is None and not history.log_start.get(partition):
                yield Violation(Breach.MISSING, partition, f"{value!r}, acknowledged without an offset")
            continue
        if told.setdefault(value, offset) != offset:
            yield Violation(Breach.TWICE, partition, f"{value!r} at {told[value]} and at {offset}")
        if offset < history.log_start.get(partition, 0):
            continue
        if value in places:
            if places[value] != offset:
                yield Violation(Breach.MOVED, partition, f"{value!r} at {places[value]}, promised at {offset}")
            continue
        # Compaction may take a record only if a later one with the same key is there.
        key = None if history.keys is None else history.keys[value]
        if key is None or last_of_key.get(key, -1) < offset:
            yield Violation(Breach.MISSING, partition, f"{value!r}, acknowledged at {offset}")


def _check_order(
    history: History, partition: int, name: str, values: Sequence[bytes], entries: Sequence[Entry]
) -> Iterator[Violation]:
    position = {value: index for index, value in enumerate(values)}
    there = [position[entry.value] for entry in entries if entry.value in position]
    for before, after in pairwise(there):
        if after < before:
            yield Violation(Breach.REORDERED, partition, f"{values[before]!r} before {values[after]!r} of {name}")
    if there and history.keys is None:
        first = min(there) if history.log_start.get(partition) else 0
        for index in sorted(set(range(first, max(there))) - set(there)):
            yield Violation(Breach.SKIPPED, partition, f"{values[index]!r} of {name}")
