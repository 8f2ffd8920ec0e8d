"""What the members of a group did, in the order in which it happened, and a function that finds every broken promise.

A member owns a partition from the moment it is told so until it has given it up, was told that it is lost, or is gone.
So, for each partition:

    UNPROCESSED  a record that nobody processed
    TWO_OWNERS   given to a member while another one had it
    NOT_OWNED    a record processed by a member that did not own the partition
    TOO_FAR      a commit beyond a record that nobody had processed yet
    WENT_BACK    a commit below an earlier one

A member that was thrown out, since its heartbeats did not get through, does not know it yet: others own its partitions
before it hears that they are lost. What it had is not held against anybody: only its commits are, which must not count.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import NamedTuple


class Did(Enum):
    """What a member did. COMMITS comes before its request, the others when they are done."""

    OWNS = auto()
    PROCESSED = auto()
    COMMITS = auto()
    GAVE_UP = auto()
    LOST = auto()
    IS_GONE = auto()  # of all partitions


class Event(NamedTuple):
    did: Did
    member: str
    partition: int = -1
    offset: int = -1


class Breach(Enum):
    UNPROCESSED = auto()
    TWO_OWNERS = auto()
    NOT_OWNED = auto()
    TOO_FAR = auto()
    WENT_BACK = auto()


class Violation(NamedTuple):
    breach: Breach
    partition: int
    what: str


class GroupHistory:
    """For many threads: they agree on one order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events: list[Event] = []

    def note(self, did: Did, member: str, partitions: Iterable[int] = (-1,), offset: int = -1) -> None:
        with self._lock:
            self.events += [Event(did, member, partition, offset) for partition in partitions]


def check(events: Sequence[Event], ends: Mapping[int, int], commits: Iterable[tuple[int, int]]) -> list[Violation]:
    """`ends` are the ends of the logs, which begin at 0; `commits` are partition and offset, as the broker wrote them.

    Every broken promise; nothing, if all were kept.
    """
    return [
        *_check_processed(events, ends),
        *_check_owners(events),
        *_check_reach(events),
        *_check_commits(commits),
    ]


def _check_processed(events: Sequence[Event], ends: Mapping[int, int]) -> Iterator[Violation]:
    processed = {(event.partition, event.offset) for event in events if event.did is Did.PROCESSED}
    for partition, end in ends.items():
        for offset in range(end):
            if (partition, offset) not in processed:
                yield Violation(Breach.UNPROCESSED, partition, f"offset {offset}")


def _thrown_out(events: Sequence[Event]) -> set[tuple[str, int]]:
    """Which ownerships ended by being lost: the member, and the place of the event with which it began."""
    begun: dict[tuple[str, int], int] = {}
    lost: set[tuple[str, int]] = set()
    for place, event in enumerate(events):
        if event.did is Did.OWNS:
            begun[event.member, event.partition] = place
        elif event.did is Did.LOST and (event.member, event.partition) in begun:
            lost.add((event.member, begun[event.member, event.partition]))
    return lost


def _check_owners(events: Sequence[Event]) -> Iterator[Violation]:
    thrown_out = _thrown_out(events)
    owners: dict[int, set[str]] = defaultdict(set)  # with those that do not know yet that they are out
    rightful: dict[int, str] = {}
    for place, (did, member, partition, offset) in enumerate(events):
        if did is Did.OWNS:
            owners[partition].add(member)
            if (member, place) not in thrown_out:
                if partition in rightful and rightful[partition] != member:
                    yield Violation(Breach.TWO_OWNERS, partition, f"{rightful[partition]} and {member}")
                rightful[partition] = member
        elif did is Did.PROCESSED and member not in owners[partition]:
            yield Violation(Breach.NOT_OWNED, partition, f"offset {offset} by {member}")
        elif did in (Did.GAVE_UP, Did.LOST, Did.IS_GONE):
            for gone in list(owners) if did is Did.IS_GONE else [partition]:
                owners[gone].discard(member)
                if rightful.get(gone) == member:
                    del rightful[gone]


def _check_reach(events: Sequence[Event]) -> Iterator[Violation]:
    done: dict[int, set[int]] = defaultdict(set)
    below: dict[int, int] = defaultdict(int)  # everything before it is processed
    for did, member, partition, offset in events:
        if did is Did.PROCESSED:
            done[partition].add(offset)
            while below[partition] in done[partition]:
                below[partition] += 1
        elif did is Did.COMMITS and offset > below[partition]:
            yield Violation(Breach.TOO_FAR, partition, f"{offset} by {member}, processed up to {below[partition]}")


def _check_commits(commits: Iterable[tuple[int, int]]) -> Iterator[Violation]:
    by_partition: dict[int, list[int]] = defaultdict(list)
    for partition, offset in commits:
        by_partition[partition].append(offset)
    for partition, offsets in by_partition.items():
        for before, after in pairwise(offsets):
            if after < before:
                yield Violation(Breach.WENT_BACK, partition, f"{after} after {before}")
