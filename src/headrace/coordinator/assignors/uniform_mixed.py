"""The assignor `uniform` for members that want different topics.

1. Members keep what they have and still want.
2. What nobody has is dealt out topic by topic to the subscribers with the fewest partitions. Topics with many
   partitions for few subscribers come first, since later ones can level out the difference.
3. Topics are balanced one by one: as long as two subscribers of a topic differ by more than one partition in all that
   they have, a partition of this topic moves from one of the fullest to one of the emptiest. A move may unbalance
   topics that were seen before, so there are several rounds, until one of them changes nothing.

The result is balanced as far as moves of single partitions can make it, and moves only what that needs.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from headrace.coordinator.assignors.spec import Assignment, GroupSpec

MAX_ROUNDS: Final = 16  # balancing is good enough after that, and always ends
_NOBODY: Final = -1
_signed = Struct(">qq").unpack


def assign_mixed(group: GroupSpec) -> dict[str, Assignment]:
    hand_out = _HandOut(group)
    if not hand_out.subscribers:
        return {}
    hand_out.keep()
    hand_out.assign_rest()
    hand_out.balance()
    return hand_out.result()


class _Levels:
    """The subscribers of one topic by how many partitions they have: water that rises below, and falls above.

    `rise` hands out the emptiest subscribers in turn; once all of a level had their turn, those of the next level
    join them. `fall` does the same from the top downwards. Both assume that each subscriber they name gets one
    partition more or less, as the case may be.
    """

    __slots__ = ("_by_load", "_falling", "_high", "_loads", "_low", "_next_high", "_next_low", "_rising", "_top")

    def __init__(self, loads: list[int], subscribers: Iterable[int]) -> None:
        self._loads = loads
        self._by_load = sorted(subscribers, key=lambda member: (loads[member], member))
        count = len(self._by_load)
        # Below: the first `_rising` members are at the level `_low`, and it is the turn of `_next_low`.
        self._low = loads[self._by_load[0]] - 1
        self._rising = 0
        self._next_low = 0
        # Above: those from `_falling` up to `_top` are at the level `_high`, and it is the turn of `_next_high`.
        self._high = loads[self._by_load[-1]] + 1
        self._falling = count
        self._top = count
        self._next_high = count - 1

    @property
    def spread(self) -> int:
        """The difference between fullest and emptiest, before the first turn."""
        return self._loads[self._by_load[-1]] - self._loads[self._by_load[0]]

    def is_balanced(self) -> bool:
        return self._high - self._low <= 1

    def rise(self) -> int:
        """The next of the emptiest."""
        if self._next_low >= self._rising:
            self._low += 1
            while self._rising < len(self._by_load) and self._loads[self._by_load[self._rising]] == self._low:
                self._rising += 1
            self._next_low = 0
        self._next_low += 1
        return self._by_load[self._next_low - 1]

    def fall(self) -> int | None:
        """The next of the fullest; None if all were left out."""
        if self._next_high < self._falling:
            if self._top <= self._falling and self._falling > 0:
                # All above were left out; whoever comes next says where the level is.
                self._high = self._loads[self._by_load[self._falling - 1]]
            else:
                self._high -= 1
            while self._falling > 0 and self._loads[self._by_load[self._falling - 1]] == self._high:
                self._falling -= 1
            self._next_high = self._top - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self._by_load[self._next_high + 1]

    def leave_out(self) -> None:
        """The one that `fall` has just named has nothing to give, and is not named again."""
        last, place = self._top - 1, self._next_high + 1
        self._by_load[place], self._by_load[last] = self._by_load[last], self._by_load[place]
        self._top = last


class _HandOut:
    """Members by their number, what each has, and who has each partition."""

    __slots__ = ("_group", "_loads", "_member_ids", "_owners", "subscribers")

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._member_ids = list(group.members)
        self.subscribers: dict[bytes, list[int]] = {}  # by topic
        for number, member in enumerate(group.members.values()):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(number)
        counts = group.partition_counts
        self._owners: dict[bytes, list[int]] = {topic_id: [_NOBODY] * counts[topic_id] for topic_id in self.subscribers}
        self._loads = [0] * len(self._member_ids)

    def keep(self) -> None:
        for number, member in enumerate(self._group.members.values()):
            wanted = frozenset(member.topic_ids)
            for topic_id, partitions in member.assigned.items():
                if topic_id in wanted:
                    for partition in partitions:
                        self._give(topic_id, partition, number)

    def assign_rest(self) -> None:
        free = {
            topic_id: [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            for topic_id, owners in self._owners.items()
        }
        for topic_id in self._in_order(topic_id for topic_id, partitions in free.items() if partitions):
            levels = _Levels(self._loads, self.subscribers[topic_id])
            for partition in free[topic_id]:
                self._give(topic_id, partition, levels.rise())

    def balance(self) -> None:
        topic_ids = self._in_order(topic_id for topic_id, members in self.subscribers.items() if len(members) > 1)
        last_changed: bytes | None = None
        for _ in range(MAX_ROUNDS):
            for topic_id in topic_ids:
                if topic_id == last_changed:
                    return  # once around without a change
                if self._balance(topic_id) or last_changed is None:
                    last_changed = topic_id

    def result(self) -> dict[str, Assignment]:
        lists: list[dict[bytes, list[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                lists[owner].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: tuple(partitions) for topic_id, partitions in each.items()}
            for member_id, each in zip(self._member_ids, lists, strict=True)
        }

    def _balance(self, topic_id: bytes) -> bool:
        """Move partitions of this topic until its subscribers are level; whether any moved."""
        levels = _Levels(self._loads, self.subscribers[topic_id])
        if levels.spread <= 1:
            return False
        owned: dict[int, list[int]] = {}  # by member, the last goes first; not what comes in meanwhile
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        while not levels.is_balanced():
            fullest = levels.fall()
            while fullest is not None and not owned.get(fullest):
                levels.leave_out()
                fullest = levels.fall()
            if fullest is None:
                break
            partition = owned[fullest].pop()
            emptiest = levels.rise()
            if levels.is_balanced():
                break
            self._give(topic_id, partition, emptiest)
            has_moved = True
        return has_moved

    def _give(self, topic_id: bytes, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != _NOBODY:
            self._loads[owners[partition]] -= 1
        owners[partition] = member
        self._loads[member] += 1

    def _in_order(self, topic_ids: Iterable[bytes]) -> Sequence[bytes]:
        def key(topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
            subscribers = len(self.subscribers[topic_id])
            # Kafka orders ids by two signed numbers.
            return -self._group.partition_counts[topic_id] / subscribers, subscribers, _signed(topic_id)

        return sorted(topic_ids, key=key)
