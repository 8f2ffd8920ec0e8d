"""From records to consumer groups (KIP-848).

Each record says all about its part, so replaying it twice does no harm. A tombstone for what is not there is ignored:
the log may be compacted, and a group may have changed its kind meanwhile.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.coordinator.consumer_deadlines import REBALANCE, SESSION, member_key
from headrace.coordinator.consumer_group import NO_ASSIGNMENT_EPOCH, ConsumerGroup
from headrace.coordinator.consumer_member import (
    LEAVING,
    NOTHING_OWNED,
    ConsumerMember,
    MemberState,
    Owned,
)
from headrace.coordinator.consumer_subscriptions import ResolvedRegex
from headrace.coordinator.group_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
)
from headrace.coordinator.shard_state import Replay, ShardState
from headrace.protocol.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)

_STATES: Final = {state.value: state for state in MemberState}


def _group(state: ShardState, group_id: str, value: Any | None) -> ConsumerGroup | None:
    """The group of a record; made if it has a value. None: it is to be ignored."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if value is None or (group is not None and not group.is_empty):
        # Gone already; or the step that wrote it made a classic group of it, which is there already.
        return None
    made = state.groups[group_id] = ConsumerGroup(group_id)
    return made


def _epoch(state: ShardState, group: ConsumerGroup, _: Any, value: ConsumerGroupMetadataValue | None) -> None:
    if value is None:
        del state.groups[group.group_id]
    else:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def _partition_metadata(_: ShardState, group: ConsumerGroup, __: Any, value: Any | None) -> None:
    group.has_partition_metadata = value is not None


def _member(_: ShardState, group: ConsumerGroup, key: Any, value: ConsumerGroupMemberMetadataValue | None) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.remove_member(key.member_id)
        return
    group.set_member(
        (member or ConsumerMember(key.member_id))._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
    )


def _target_epoch(
    _: ShardState, group: ConsumerGroup, __: Any, value: ConsumerGroupTargetAssignmentMetadataValue | None
) -> None:
    group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def _target(
    _: ShardState, group: ConsumerGroup, key: Any, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = {
            topic_id: tuple(sorted(partitions)) for topic_id, partitions, _ in value.topic_partitions
        }


def _current(
    _: ShardState, group: ConsumerGroup, key: Any, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.set_member(
                member._replace(
                    member_epoch=LEAVING, previous_member_epoch=LEAVING, assigned=NOTHING_OWNED, revoking=NOTHING_OWNED
                )
            )
        return
    group.set_member(
        (member or ConsumerMember(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _owned(rows: Any, member_epoch: int) -> Owned:
    """Kafka wrote no epochs for partitions before 4.3: then it is the member's."""
    owned: dict[bytes, Mapping[int, int]] = {}
    row: TopicPartitions
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is not None and len(epochs) == len(row.partitions):
            owned[row.topic_id] = dict(zip(row.partitions, epochs, strict=True))
        else:
            owned[row.topic_id] = dict.fromkeys(row.partitions, max(member_epoch, 0))
    return owned


def _regex(_: ShardState, group: ConsumerGroup, key: Any, value: ConsumerGroupRegularExpressionValue | None) -> None:
    resolved = None if value is None else ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.subscriptions.set_resolved(key.regular_expression, resolved)


def _of_group(change: Callable[[ShardState, ConsumerGroup, Any, Any], None]) -> Replay:
    def replay(state: ShardState, key: Any, value: Any | None) -> None:
        group = _group(state, key.group_id, value)
        if group is not None:
            change(state, group, key, value)

    return replay


# By the number of the record's type: what it does to the groups. A value of None is a tombstone.
REPLAY: Final[Mapping[int, Replay]] = {
    CONSUMER_GROUP_METADATA.id: _of_group(_epoch),
    CONSUMER_GROUP_PARTITION_METADATA.id: _of_group(_partition_metadata),
    CONSUMER_GROUP_MEMBER_METADATA.id: _of_group(_member),
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.id: _of_group(_target_epoch),
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.id: _of_group(_target),
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.id: _of_group(_current),
    CONSUMER_GROUP_REGULAR_EXPRESSION.id: _of_group(_regex),
}


def loaded(state: ShardState, group: ConsumerGroup, now_ms: int) -> None:
    """All records are replayed: the group's timers start, and what may have changed meanwhile is looked at."""
    group.is_metadata_stale = group.is_regex_stale = True
    timeout_ms = state.settings.of_group(state.image, group.group_id).consumer_session_timeout_ms
    for member in group.members.values():
        # Kafka gives all of them the group's time-out here; but the others wait for what a dead member had.
        session_ms = timeout_ms if member.classic is None else member.classic.session_timeout_ms
        state.deadlines.set(member_key(SESSION, group.group_id, member.member_id), now_ms + session_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            key = member_key(REBALANCE, group.group_id, member.member_id)
            state.deadlines.set(key, now_ms + member.rebalance_timeout_ms)
