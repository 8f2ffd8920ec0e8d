"""The round robin assignor: all partitions of all topics, dealt out in turn to the members that want them."""

from collections.abc import Sequence
from typing import Final

from headrace.client.assignors.spec import Assignment, Member, Topics, by_name
from headrace.client.topic_partition import TopicPartition

NAME: Final = "roundrobin"


class RoundRobinAssignor:
    name = NAME
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:  # noqa: ARG002
        return None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        ordered = sorted(members, key=by_name)
        assignment: Assignment = {member.id: [] for member in members}
        turn = 0
        for topic in sorted(topics):
            if not any(topic in member.topics for member in ordered):
                continue
            for number in range(len(topics[topic])):
                while topic not in ordered[turn % len(ordered)].topics:
                    turn += 1
                assignment[ordered[turn % len(ordered)].id].append(TopicPartition(topic, number))
                turn += 1
        return assignment
