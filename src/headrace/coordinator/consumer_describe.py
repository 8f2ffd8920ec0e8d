"""ConsumerGroupDescribe: what a consumer group has and is to have, for people and tools (KIP-848)."""

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.cluster.image import Image
from headrace.coordinator.assignors.spec import NOTHING_ASSIGNED
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_heartbeat import is_served
from headrace.coordinator.consumer_member import ConsumerMember
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe_consumer_group(state: ShardState, group_id: str) -> DescribedGroup:
    if not is_served(state):
        return DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID)
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.subscriptions.preferred_assignor or state.settings.consumer_assignors[0],
        members=[_describe_member(group, member, state.image) for member in group.members.values()],
    )


def _describe_member(group: ConsumerGroup, member: ConsumerMember, image: Image) -> Member:
    """What it has to give up is still what it has."""
    owned = {
        topic_id: {*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())}
        for topic_id in {**member.assigned, **member.revoking}
    }
    return Member(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        sorted(member.topics),
        member.regex,
        _shown(owned, image),
        _shown(group.target.get(member.member_id, NOTHING_ASSIGNED), image),
        _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _shown(partitions: Mapping[bytes, Iterable[int]], image: Image) -> Assignment:
    """Topics that are gone are left out."""
    return Assignment(
        [
            TopicPartitions(topic_id, image.topics[topic_id].name, sorted(indexes))
            for topic_id, indexes in partitions.items()
            if topic_id in image.topics
        ]
    )
