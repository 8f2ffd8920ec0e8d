"""The assignor `range`: each member gets neighbouring partitions, and the same ones of every topic.

Members are put in order, static ones by instance id before the others by member id. Each topic is cut into as many
ranges as it has subscribers, the first ones longer by one if it does not come out even. So topics with the same number
of partitions and the same subscribers are co-partitioned: a member owns the same numbers of each. Nothing is sticky.
"""

from headrace.coordinator.assignors.spec import Assignment, GroupSpec


class _Cut:
    """How far a topic has been handed out."""

    __slots__ = ("next_partition", "partition_count", "subscribers")

    def __init__(self, partition_count: int, subscribers: int) -> None:
        self.partition_count = partition_count
        self.subscribers = subscribers  # who have not had their turn
        self.next_partition = 0

    def take(self) -> tuple[int, ...]:
        """The next subscriber's range, which is empty if there are not enough partitions for all."""
        left = self.partition_count - self.next_partition
        size = -(-left // self.subscribers)
        start = self.next_partition
        self.next_partition += size
        self.subscribers -= 1
        return tuple(range(start, start + size))


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    subscribers: dict[bytes, int] = {}
    for member in group.members.values():
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    cuts = {topic_id: _Cut(group.partition_counts[topic_id], count) for topic_id, count in subscribers.items()}
    assigned: dict[str, Assignment] = {}
    for member_id in _in_order(group):
        ranges = ((topic_id, cuts[topic_id].take()) for topic_id in group.members[member_id].topic_ids)
        assigned[member_id] = {topic_id: partitions for topic_id, partitions in ranges if partitions}
    return assigned


def _in_order(group: GroupSpec) -> list[str]:
    def key(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(group.members, key=key)
