"""The sticky assignment where members want different topics: keep what can be kept, then move what makes it more even.

A partition moves from a member to one that has at least two less. A move is turned into the reverse of an earlier one
of the same topic where that does as well, so that partitions do not wander around in circles.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Protocol

from headrace.client.assignors.java_order import first_in_hash_order
from headrace.client.assignors.racks import Racks
from headrace.client.assignors.spec import NO_GENERATION, Assignment, Member, Topics
from headrace.client.topic_partition import TopicPartition


class History(Protocol):
    """What a member had, and in which generation; None if it does not tell."""

    @property
    def partitions(self) -> Sequence[TopicPartition]: ...
    @property
    def generation(self) -> int | None: ...


def assign_mixed(
    topics: Topics,
    members: Sequence[Member],
    owned: Mapping[str, Sequence[TopicPartition]],
    histories: Mapping[str, History],
    racks: Racks,
) -> Assignment:
    return _Balancer(topics, members, owned, _earlier_owners(members, histories), racks).balance()


def _earlier_owners(members: Sequence[Member], histories: Mapping[str, History]) -> dict[TopicPartition, str]:
    """Who had a partition in a generation before the last one."""
    last = max([NO_GENERATION, *(each.generation for each in histories.values() if each.generation is not None)])
    owners: dict[TopicPartition, tuple[int, str]] = {}
    for member in members:
        partitions, generation = histories[member.id].partitions, histories[member.id].generation
        when = NO_GENERATION if generation is None else generation
        if when < last:
            for partition in partitions:
                if partition not in owners or when > owners[partition][0]:
                    owners[partition] = (when, member.id)
    return {partition: member_id for partition, (_, member_id) in owners.items()}


class _Moves:
    """Who has given which partition to whom."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[tuple[str, str], list[TopicPartition]]] = defaultdict(dict)
        self._of: dict[TopicPartition, tuple[str, str]] = {}

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        before = self._of.pop(partition, None)
        if before is not None:
            pairs = self._by_topic[partition.topic]
            pairs[before].remove(partition)
            if not pairs[before]:
                del pairs[before]
            source = before[0]
            if source == target:
                return  # it is back where it was
        self._of[partition] = (source, target)
        self._by_topic[partition.topic].setdefault((source, target), []).append(partition)

    def better(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Instead of this partition, one of the topic that went the other way before."""
        if partition in self._of:
            source = self._of[partition][0]
        reverse = self._by_topic[partition.topic].get((target, source))
        return partition if reverse is None else first_in_hash_order(reverse)


class _Balancer:
    def __init__(
        self,
        topics: Topics,
        members: Sequence[Member],
        owned: Mapping[str, Sequence[TopicPartition]],
        earlier: Mapping[TopicPartition, str],
        racks: Racks,
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._earlier = earlier
        self._moves = _Moves()
        self._wanted = {member.id: [topic for topic in member.topics if topic in topics] for member in members}
        self._takers = {topic: [each.id for each in members if topic in each.topics] for topic in topics}
        self._most = {member_id: sum(len(topics[topic]) for topic in each) for member_id, each in self._wanted.items()}
        self._all = [
            TopicPartition(topic, number)
            for topic in sorted(topics, key=lambda topic: (len(self._takers[topic]), topic))
            for number in range(len(topics[topic]))
        ]
        self._assignment: Assignment = {}
        self._owner: dict[TopicPartition, str] = {}
        self._must_give_up = False  # something is taken away anyway
        for member in members:
            self._keep(member, owned[member.id])
        self._by_load = sorted((len(each), member_id) for member_id, each in self._assignment.items())

    def _keep(self, member: Member, owned: Sequence[TopicPartition]) -> None:
        kept = self._assignment[member.id] = []
        for partition in owned:
            self._owner[partition] = member.id
            if partition.topic not in member.topics or self._racks.is_far(member.id, partition):
                self._must_give_up = True
            else:
                kept.append(partition)

    def balance(self) -> Assignment:
        is_first = self._by_load[-1][0] == 0
        kept = {partition for partitions in self._assignment.values() for partition in partitions}
        free = [partition for partition in self._all if partition not in kept]
        self._place(free)
        movable = [partition for partition in self._all if len(self._takers[partition.topic]) > 1]
        free = [partition for partition in free if len(self._takers[partition.topic]) > 1]
        settled = self._set_settled_aside()
        before = {member_id: list(each) for member_id, each in self._assignment.items()}
        if not self._must_give_up:
            self._improve(free)
        if self._improve(movable) and not is_first and _unevenness(self._assignment) >= _unevenness(before):
            self._assignment = before
        return self._assignment | settled

    def _place(self, free: list[TopicPartition]) -> None:
        """Each to the member with the least, near it if possible."""
        if self._racks.of_member:
            free = [partition for partition in free if not self._place_one(partition, is_near=True)]
        for partition in free:
            self._place_one(partition, is_near=False)

    def _place_one(self, partition: TopicPartition, *, is_near: bool) -> bool:
        for _, member_id in self._by_load:
            if partition.topic in self._wanted[member_id] and not (
                is_near and self._racks.is_far(member_id, partition)
            ):
                self._take_out(member_id)
                self._assignment[member_id].append(partition)
                self._owner[partition] = member_id
                self._put_in(member_id)
                return True
        return False

    def _set_settled_aside(self) -> Assignment:
        """Members that have all they can have, and only what nobody else wants."""
        settled: Assignment = {}
        for member_id in self._wanted:
            mine = self._assignment[member_id]
            if len(mine) >= self._most[member_id] and all(len(self._takers[each.topic]) < 2 for each in mine):
                self._take_out(member_id)
                settled[member_id] = self._assignment.pop(member_id)
        return settled

    # Moving

    def _improve(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move what makes it more even, until nothing does. Whether something was moved."""
        has_moved = False
        is_moving = True
        while is_moving:
            is_moving = False
            for partition in partitions:
                if self._is_even():
                    break
                if self._improve_one(partition):
                    has_moved = is_moving = True
        return has_moved

    def _improve_one(self, partition: TopicPartition) -> bool:
        load = len(self._assignment[self._owner[partition]])
        earlier = self._earlier.get(partition)
        if (
            earlier in self._assignment
            and partition.topic in self._wanted[earlier]  # Kafka's client forgets to ask
            and load > len(self._assignment[earlier]) + 1
        ):
            self._move(partition, earlier)
            return True
        if any(
            load > len(self._assignment[each]) + 1 for each in self._takers[partition.topic] if each in self._assignment
        ):
            self._move(partition, self._least_loaded(partition.topic))
            return True
        return False

    def _least_loaded(self, topic: str) -> str:
        return next(member_id for _, member_id in self._by_load if topic in self._wanted[member_id])

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self._moves.better(partition, self._owner[partition], target)
        source = self._owner[partition]
        self._take_out(source)
        if target != source:
            self._take_out(target)
        self._moves.note(partition, source, target)
        self._assignment[source].remove(partition)
        self._assignment[target].append(partition)
        self._owner[partition] = target
        self._put_in(target)
        if target != source:
            self._put_in(source)

    def _is_even(self) -> bool:
        """No partition could go to a member that has at least two less than its owner."""
        if not self._by_load or self._by_load[0][0] >= self._by_load[-1][0] - 1:
            return True
        for load, member_id in self._by_load:
            if load == self._most[member_id]:
                continue
            for topic in self._wanted[member_id]:
                for number in range(len(self._topics[topic])):
                    owner = self._owner[TopicPartition(topic, number)]
                    if owner in self._assignment and load + 1 < len(self._assignment[owner]):
                        return False
        return True

    def _take_out(self, member_id: str) -> None:
        entry = (len(self._assignment[member_id]), member_id)
        place = bisect_left(self._by_load, entry)
        assert self._by_load[place] == entry, f"{entry} is not where it belongs"
        del self._by_load[place]

    def _put_in(self, member_id: str) -> None:
        insort(self._by_load, (len(self._assignment[member_id]), member_id))


def _unevenness(assignment: Assignment) -> int:
    return sum(abs(len(one) - len(other)) for one, other in combinations(assignment.values(), 2))
