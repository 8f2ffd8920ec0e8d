"""Who is a member of a consumer group, and who takes whose place: for members of both protocols."""

from headrace.coordinator.assignors.spec import NOTHING_ASSIGNED
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import JOINING, ConsumerMember
from headrace.coordinator.consumer_records import (
    current_record,
    member_tombstones,
    subscription_record,
    target_record,
)
from headrace.coordinator.draft import Draft
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode


def check_room(state: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """Raises RefusedError if the group is full, and this is not one of its members."""
    most = state.settings.consumer_max_size
    if len(group.members) >= most and member_id not in group.members:
        raise RefusedError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def find_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member with this instance id. Raises RefusedError if there is none, or if it has another member id by now."""
    member = group.static_member(instance_id)
    if member is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise RefusedError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member with these ids. Raises RefusedError."""
    if instance_id is not None:
        return find_static(group, member_id, instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    return member


def unknown_member(group: ConsumerGroup, member_id: str) -> RefusedError:
    return RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def replace_static(group: ConsumerGroup, existing: ConsumerMember, member_id: str, draft: Draft) -> ConsumerMember:
    """A static member comes back under another member id: it has what it had, and is to have what it was to have."""
    member = existing._replace(member_id=member_id, member_epoch=JOINING, previous_member_epoch=JOINING)
    target = group.target.get(existing.member_id, NOTHING_ASSIGNED)
    draft.write(
        *member_tombstones(group.group_id, existing.member_id),
        subscription_record(group.group_id, member),
        target_record(group.group_id, member_id, target),
        current_record(group.group_id, member),
    )
    draft.notice(
        f"[group {group.group_id} epoch {group.epoch}] static member {existing.instance_id} is back as {member_id},"
        f" before it was {existing.member_id}"
    )
    return member
