"""The sticky assignment where all members want the same topics: everyone gets the same number, or one more.

With `share` partitions for each member and `extras` left over, first everyone keeps what it had, up to that; then what
is free goes around to those who have less. With racks, partitions go to members near them before.
"""

from collections import deque

from headrace.client.assignors.java_order import in_hash_order
from headrace.client.assignors.racks import Racks
from headrace.client.assignors.spec import Assignment, Topics
from headrace.client.topic_partition import TopicPartition


def assign_alike(
    topics: Topics, owned: dict[str, list[TopicPartition]], contested: set[TopicPartition], racks: Racks
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """The assignment, and the partitions that somebody had whom they do not stay with."""
    dealer = _Dealer(topics, owned, contested, racks)
    dealer.keep(owned)
    dealer.deal()
    return dealer.assignment, dealer.moving


class _Dealer:
    def __init__(
        self, topics: Topics, owned: dict[str, list[TopicPartition]], contested: set[TopicPartition], racks: Racks
    ) -> None:
        self._topics = topics
        self._contested = contested
        self._racks = racks
        total = sum(map(len, topics.values()))
        self._share, self._extras = divmod(total, len(owned))
        self._most = self._share + (self._extras > 0)
        self._with_extra = 0  # members that have one more
        self._below: list[str] = []  # members with less than the share
        self._at: deque[str] = deque()  # with exactly the share, and possibly one more to come
        self._given_up: dict[TopicPartition, str] = {}  # what did not stay with a member at first
        self.assignment: Assignment = {member_id: [] for member_id in owned}
        self.moving: dict[TopicPartition, str] = {}

    def keep(self, owned: dict[str, list[TopicPartition]]) -> None:
        for member_id in in_hash_order(owned):
            far = {partition for partition in owned[member_id] if self._racks.is_far(member_id, partition)}
            self._given_up.update(dict.fromkeys(far, member_id))
            mine = sorted(
                set(owned[member_id]) - far - self._contested,
                key=lambda partition: (partition.partition, partition.topic),
            )
            if len(mine) < self._share:
                self._below.append(member_id)
                count = len(mine)
            elif len(mine) >= self._most and self._with_extra < self._extras:
                self._with_extra += 1
                if self._with_extra == self._extras:
                    self._at.clear()
                count = self._most
            else:
                if self._with_extra < self._extras:
                    self._at.append(member_id)
                count = self._share
            self.assignment[member_id] += mine[:count]
            self._given_up.update(dict.fromkeys(mine[count:], member_id))

    def deal(self) -> None:
        kept = {partition for partitions in self.assignment.values() for partition in partitions}
        free = [
            TopicPartition(topic, number)
            for topic in sorted(self._topics)
            for number in range(len(self._topics[topic]))
            if (topic, number) not in kept
        ]
        self._below.sort()
        self._at = deque(sorted(self._at))
        free = self._racks.hardest_first(free)
        if self._racks.of_member:
            free = self._deal_near(free)
        self._deal_around(free)

    def _deal_near(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """To members near them, as far as that keeps everyone's share; what is left."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in free:
            place = self._racks.next_near(partition, self._below, turn)
            if place is not None:
                member_id = self._below[place]
                count = len(self.assignment[member_id]) + 1
                if count >= self._share:
                    del self._below[place]
                    if count < self._most and self._with_extra < self._extras:
                        self._at.append(member_id)
                else:
                    place += 1
                turn = place % len(self._below) if self._below else 0
            elif (first := self._racks.next_near(partition, self._at, 0)) is not None:
                member_id = self._at[first]
                if len(self.assignment[member_id]) + 1 == self._most:
                    del self._at[first]
                    self._with_extra += 1
                    if self._with_extra == self._extras:
                        self._at.clear()
            else:
                left.append(partition)
                continue
            self._give(partition, member_id)
        return left

    def _deal_around(self, free: list[TopicPartition]) -> None:
        place = 0
        for partition in free:
            if not self._below:
                self._give(partition, self._at.popleft())
                continue
            place = place if place < len(self._below) else 0
            member_id = self._below[place]
            self._give(partition, member_id)
            if len(self.assignment[member_id]) == self._share:
                del self._below[place]
                self._at.append(member_id)
            else:
                place += 1

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self.assignment[member_id].append(partition)
        if self._given_up.get(partition, member_id) != member_id or partition in self._contested:
            self.moving[partition] = member_id
