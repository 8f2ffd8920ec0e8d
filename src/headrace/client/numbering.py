"""The numbers by which a broker knows a producer's batches, so that each is stored once and in order.

Theory. A producer has an id and an epoch; its batches to a partition carry consecutive sequences. A retry keeps its
numbers, so the broker tells it from a new batch. If the fate of a batch is not known and it is given up, nobody knows
which sequence the broker expects next. Those that were sent behind it may be stored, so they are tried again one by one
under the numbers that they have, and nothing new before them: if one is stored, the broker expects what we do; if one
is refused for its number, it is stored nowhere. When none is left, or one was refused, the partition is lost: it begins
a new epoch at sequence 0 (KIP-360), and all of it that is not settled is numbered again. Other partitions take the new
epoch over when nothing of theirs is under way.

A broker that does not know a producer takes any sequence for its first. So the first batch of an epoch goes alone: were
it refused while the next one is on its way, the next would become the first.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.client.pending_batch import PendingBatch
from headrace.protocol.batch import NO_SEQUENCE

MAX_EPOCH: Final = 32_767
_SEQUENCES: Final = 0x7FFF_FFFF
Place = tuple[str, int]


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Numbering:
    """The sequences of one producer. `identity` is None until a broker has given one."""

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self._next: dict[Place, tuple[Identity, int]] = {}
        self._unsettled: dict[Place, deque[PendingBatch]] = {}  # numbered ones, in the order of sequences
        self._lost: set[Place] = set()  # which sequence comes next is not known there
        self._doubted: set[Place] = set()  # the same, but what was sent there and is unsettled may be stored
        self._known: set[Place] = set()  # whose broker has taken a batch of the present epoch

    def take(self, identity: Identity) -> None:
        """A broker has given a new identity: every partition begins at 0."""
        self.identity = identity
        self._next.clear()
        self._known.clear()

    def number(self, batch: PendingBatch) -> None:
        """Before a batch is sent for the first time."""
        if batch.sequence != NO_SEQUENCE:
            return
        assert self.identity is not None
        place = batch.place
        unsettled = self._unsettled.setdefault(place, deque())
        identity, sequence = self._next.get(place, (self.identity, 0))
        if identity != self.identity and not unsettled:
            identity, sequence = self.identity, 0
            self._known.discard(place)
        batch.number(*identity, sequence)
        self._next[place] = (identity, (sequence + batch.count) & _SEQUENCES)
        unsettled.append(batch)

    def is_oldest(self, batch: PendingBatch) -> bool:
        """Is everything settled that was numbered before it?"""
        unsettled = self._unsettled.get(batch.place)
        return not unsettled or unsettled[0] is batch

    def settled(self, batch: PendingBatch, *, is_stored: bool) -> None:
        if is_stored:
            self._known.add(batch.place)
            self._doubted.discard(batch.place)
        unsettled = self._unsettled.get(batch.place)
        if unsettled and batch in unsettled:
            unsettled.remove(batch)
            if not unsettled:
                del self._unsettled[batch.place]

    def split(self, batch: PendingBatch, parts: Iterable[PendingBatch]) -> None:
        """The parts take its place, and share its sequences: those of what follows it stay right."""
        unsettled = self._unsettled.get(batch.place)
        if not unsettled or batch not in unsettled:
            return
        at = unsettled.index(batch)
        del unsettled[at]
        sequence = batch.sequence
        for number, part in enumerate(parts):
            part.number(batch.producer_id, batch.epoch, sequence)
            sequence = (sequence + part.count) & _SEQUENCES
            unsettled.insert(at + number, part)

    def lose(self, place: Place) -> None:
        """Which sequence the broker expects next is not known any more: `find` must follow before the next batch."""
        self._lost.add(place)
        self._doubted.discard(place)

    def give_up(self, place: Place) -> None:
        """A batch was settled without being stored, for all we know: as `lose`, unless others were sent behind it."""
        if place not in self._unsettled:
            self.lose(place)
        elif place not in self._lost:
            self._doubted.add(place)

    def find(self, place: Place) -> bool:
        """May the next batch be sent? A partition that was lost begins a new epoch, once nothing of it is in flight.

        In a partition that is in doubt the next one is one that has its number: those wait before all that have none.
        """
        is_lost = place in self._lost
        if place in self._known and not is_lost and place not in self._doubted:
            return True
        if any(batch.is_in_flight for batch in self._unsettled.get(place, ())):
            return False
        if not is_lost:
            return True
        self._lost.discard(place)
        self._known.discard(place)
        self._begin_anew(place)
        return self.identity is not None

    def _begin_anew(self, place: Place) -> None:
        """All that is unsettled waits to be sent, and is numbered again then. Without epochs: a new identity first."""
        assert self.identity is not None
        identity = self._next.get(place, (self.identity, 0))[0]
        if identity == self.identity:
            if self.identity.epoch >= MAX_EPOCH:
                self._lost.add(place)
                self.identity = None
                return
            self.identity = Identity(self.identity.producer_id, self.identity.epoch + 1)
        for batch in self._unsettled.pop(place, ()):
            batch.forget_number()
        self._next[place] = (self.identity, 0)
