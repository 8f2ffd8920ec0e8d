"""Was a topic copied exactly once? A pure function that finds every broken promise.

Copiers read records of a source, and write a `Copy` of each into the same partition of a target, in transactions that
also commit how far they have read. So, for each partition, of what the target shows to readers of what is committed:

    LOST         a record of the source without a copy
    DOUBLED      a record with two copies
    INVENTED     a copy of a record that the source does not have
    REORDERED    a copy before that of an earlier record
    ABORTED      a copy of a transaction that was aborted
    HALF         a copy whose transaction shows fewer than it had
    UNSTEADY     something that one reader saw and another one did not
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import NamedTuple, Self


class Copy(NamedTuple):
    """A record of the target."""

    offset: int  # of the record that was copied
    transaction: str
    size: int  # copies in the transaction
    is_aborted: bool  # the copier knew, when it wrote, that it would abort

    def encode(self) -> str:
        return f"{self.offset} {self.transaction} {self.size} {int(self.is_aborted)}"

    @classmethod
    def decode(cls, value: bytes) -> Self:
        offset, transaction, size, is_aborted = value.decode().split()
        return cls(int(offset), transaction, int(size), is_aborted == "1")


class Breach(Enum):
    LOST = auto()
    DOUBLED = auto()
    INVENTED = auto()
    REORDERED = auto()
    ABORTED = auto()
    HALF = auto()
    UNSTEADY = auto()


class Violation(NamedTuple):
    breach: Breach
    partition: int
    what: str


Copies = Mapping[int, Sequence[Copy]]  # by partition, as a reader saw them


def check(ends: Mapping[int, int], seen: Copies, seen_before: Copies) -> list[Violation]:
    """`ends` are those of the source; `seen` is the target afterwards, and `seen_before` while it was written.

    Every broken promise; nothing, if all were kept.
    """
    shown = Counter(copy.transaction for copies in seen.values() for copy in copies)
    found: list[Violation] = []
    for partition, end in ends.items():
        copies = seen.get(partition, ())
        found += _check_records(partition, end, [copy.offset for copy in copies])
        found += _check_transactions(partition, copies, shown)
        if list(copies) != list(seen_before.get(partition, ())):
            found.append(
                Violation(Breach.UNSTEADY, partition, f"{len(copies)} and {len(seen_before[partition])} copies")
            )
    return found


def _check_records(partition: int, end: int, offsets: Sequence[int]) -> Iterator[Violation]:
    counts = Counter(offsets)
    for offset in range(end):
        if offset not in counts:
            yield Violation(Breach.LOST, partition, f"offset {offset}")
    for offset, count in counts.items():
        if count > 1:
            yield Violation(Breach.DOUBLED, partition, f"offset {offset}, {count} times")
        if not 0 <= offset < end:
            yield Violation(Breach.INVENTED, partition, f"offset {offset} of {end}")
    for before, after in pairwise(offsets):
        if after < before:
            yield Violation(Breach.REORDERED, partition, f"offset {after} after {before}")


def _check_transactions(partition: int, copies: Sequence[Copy], shown: Mapping[str, int]) -> Iterator[Violation]:
    for copy in copies:
        if copy.is_aborted:
            yield Violation(Breach.ABORTED, partition, f"offset {copy.offset} of {copy.transaction}")
        if shown[copy.transaction] < copy.size:
            what = f"{shown[copy.transaction]} of {copy.size} copies of {copy.transaction}"
            yield Violation(Breach.HALF, partition, what)


def by_partition(copies: Sequence[tuple[int, Copy]]) -> dict[int, list[Copy]]:
    found: dict[int, list[Copy]] = defaultdict(list)
    for partition, copy in copies:
        found[partition].append(copy)
    return found
