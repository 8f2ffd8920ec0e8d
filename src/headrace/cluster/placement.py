"""Where new replicas go: in stripes over racks, and over the brokers inside each rack.

What placement promises, in order of weight: never two replicas of a partition on one broker, and a first replica
that is alive (otherwise it refuses); as many racks per partition as there are; brokers used evenly, and in changing
company, so that the partitions of a broker that dies find their next leaders on all the others; a fenced broker only
when nobody else is left.

Racks stand in a circle, and so do the brokers of each rack. Each partition starts one rack further than the one
before, and takes the next broker of each rack it comes by. After as many partitions as there are living brokers the
circles are shuffled, since from there on the same sets of replicas would return. Brokers without a rack form a rack
of their own. These are Kafka's rules, except that leaders are also even where each rack has as many brokers as there
are racks.
"""

from collections.abc import Iterable, MutableSequence
from math import lcm
from typing import Any, NamedTuple, Protocol


class RandomSource(Protocol):
    """What placement needs of a `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...

    def shuffle(self, items: MutableSequence[Any], /) -> None: ...


class UsableBroker(NamedTuple):
    """A broker that may get replicas."""

    broker_id: int
    rack: str | None
    fenced: bool


class PlacementError(ValueError):
    """No placement satisfies what was asked; the text says why, for the one who asked."""


def place_replicas(
    brokers: Iterable[UsableBroker], *, partitions: int, replication_factor: int, random: RandomSource
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, the preferred leader first. Raises PlacementError."""
    stripes = _Stripes(brokers, random)
    if replication_factor < 1:
        raise PlacementError(f"a replication factor of {replication_factor} leaves no replica")
    if stripes.living == 0:
        raise PlacementError("no broker is alive: all that are registered are fenced or shutting down")
    if replication_factor > stripes.total:
        raise PlacementError(
            f"{replication_factor} replicas need as many brokers, and only {stripes.total} can take new replicas"
        )
    return [stripes.place(replication_factor) for _ in range(partitions)]


class _Circle:
    """Brokers that are handed out in turn; each round starts one further than the round before."""

    def __init__(self, brokers: list[int], random: RandomSource, *, racks: int) -> None:
        self.brokers = sorted(brokers)
        self._first = random.randrange(len(brokers)) if brokers else 0
        self._lap = lcm(len(brokers), racks)
        self._taken = 0
        self._round = 0

    def next(self, round_number: int) -> int | None:
        """The next broker of this round, or None when all had their turn."""
        size = len(self.brokers)
        if self._round != round_number:
            self._round = round_number
            self._taken = 0
        if self._taken == size:
            return None
        # The rack leads in every `racks`-th round. Where that number and `size` have a common divisor the same few
        # brokers would lead again and again; one further step after each lap gives all of them their turn.
        place = self._first + round_number + round_number // self._lap + self._taken
        self._taken += 1
        return self.brokers[place % size]


class _Rack:
    def __init__(self, brokers: list[UsableBroker], random: RandomSource, *, racks: int) -> None:
        self.fenced = _Circle([broker.broker_id for broker in brokers if broker.fenced], random, racks=racks)
        self.living = _Circle([broker.broker_id for broker in brokers if not broker.fenced], random, racks=racks)

    def next(self, round_number: int) -> int | None:
        """The next broker, dead ones last."""
        living = self.living.next(round_number)
        return self.fenced.next(round_number) if living is None else living


class _Stripes:
    """The racks of the cluster, in the order in which the next partition takes them."""

    def __init__(self, brokers: Iterable[UsableBroker], random: RandomSource) -> None:
        members: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            members.setdefault(broker.rack, []).append(broker)
        # In order of name, the rack without one first: the same brokers and the same random source place alike.
        names = sorted(members, key=lambda name: (name is not None, name or ""))
        self._random = random
        self._racks = [_Rack(members[name], random, racks=len(names)) for name in names]
        self._offset = random.randrange(len(names)) if names else 0
        self._round = 0
        self._placed = 0  # partitions since the last shuffle
        self.living = sum(len(rack.living.brokers) for rack in self._racks)
        self.total = self.living + sum(len(rack.fenced.brokers) for rack in self._racks)

    def place(self, replication_factor: int) -> tuple[int, ...]:
        if self._placed == self.living:
            self._shuffle()
        racks = len(self._racks)
        self._offset %= racks
        leader, leader_rack = self._leader()
        replicas = [leader]
        place = self._offset
        passed_leader_rack = False
        while len(replicas) < replication_factor:
            if place == leader_rack and not passed_leader_rack:
                passed_leader_rack = True  # it gave the leader: its turn in this first lap is over
            else:
                broker = self._racks[place].next(self._round)
                if broker is not None:
                    replicas.append(broker)
            place = (place + 1) % racks
        self._round += 1
        self._offset += 1
        self._placed += 1
        return tuple(replicas)

    def _leader(self) -> tuple[int, int]:
        """A living broker of the first rack from here on that has one, and that rack's place."""
        for step in range(len(self._racks)):
            place = (self._offset + step) % len(self._racks)
            broker = self._racks[place].living.next(self._round)
            if broker is not None:
                return broker, place
        raise AssertionError(f"no living broker in {len(self._racks)} racks, but {self.living} were counted")

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            self._random.shuffle(rack.fenced.brokers)
            self._random.shuffle(rack.living.brokers)
        self._placed = 0
