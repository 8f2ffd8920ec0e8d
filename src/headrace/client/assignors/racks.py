"""Racks of members and partitions, for the sticky assignors (KIP-881)."""

from collections import Counter
from collections.abc import Sequence

from headrace.client.assignors.spec import Member, Topics, needs_racks
from headrace.client.topic_partition import TopicPartition


class Racks:
    """`of_member` and `of_partition` are empty where racks make no difference."""

    def __init__(self, topics: Topics, members: Sequence[Member]) -> None:
        racks = {member.id: member.rack for member in members if member.rack}
        partitions = {
            TopicPartition(topic, number): where for topic, each in topics.items() for number, where in enumerate(each)
        }
        is_used = needs_racks(frozenset(racks.values()), list(partitions.values()))
        self.of_member: dict[str, str] = racks if is_used else {}
        self.of_partition: dict[TopicPartition, frozenset[str]] = partitions if is_used else {}
        members_on = Counter(racks.values())
        self._members_near = (
            {partition: sum(members_on[rack] for rack in where) for partition, where in partitions.items()}
            if racks
            else {}
        )

    def is_far(self, member_id: str, partition: TopicPartition) -> bool:
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of_partition.get(partition, frozenset())

    def hardest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those with few members near them first."""
        return (
            sorted(partitions, key=lambda each: self._members_near.get(each, 0)) if self._members_near else partitions
        )

    def next_near(self, partition: TopicPartition, member_ids: Sequence[str], first: int) -> int | None:
        """The place of the next member, from `first` on and around, that is near the partition."""
        where = self.of_partition.get(partition, frozenset())
        for step in range(len(member_ids)):
            place = (first + step) % len(member_ids)
            if self.of_member.get(member_ids[place]) in where:
                return place
        return None
