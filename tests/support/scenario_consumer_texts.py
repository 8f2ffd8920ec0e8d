"""Answers and records of consumer groups (KIP-848) in a few words, for stories."""

from collections.abc import Callable, Iterable
from typing import Any

from headrace.coordinator.consumer_member import MemberState
from headrace.protocol.messages.consumer_group_describe import DescribedGroup, Member
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from headrace.protocol.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tests.support.group_driver import topic_name
from tests.support.scenario_words import code_text, named, time_text


def _consumer_heartbeat(response: ConsumerGroupHeartbeatResponse) -> str:
    if response.error_code:
        return f"{code_text(response.error_code)}: {response.error_message}"
    if response.member_epoch < 0:
        return f"{response.member_id} left with epoch {response.member_epoch}"
    parts = [f"epoch {response.member_epoch}", f"next in {response.heartbeat_interval_ms} ms"]
    if response.assignment is not None:
        parts.append(f"has {_partitions(response.assignment.topic_partitions)}")
    return ", ".join(parts)


def _partitions(rows: Iterable[Any]) -> str:
    """By the names of the topics, which stand in their ids here."""
    return " ".join(f"{topic_name(row.topic_id)}-{index}" for row in rows for index in row.partitions) or "nothing"


def _consumer_group(group: DescribedGroup) -> str:
    if group.error_code:
        return f"{code_text(group.error_code)}: {group.error_message}"
    epochs = f"epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
    head = f"{group.group_state}, {epochs}, {group.assignor_name}"
    return "; ".join([head, *map(_consumer_member, group.members)])


def _consumer_member(member: Member) -> str:
    wishes = ",".join(member.subscribed_topic_names)
    pattern = f" like {member.subscribed_topic_regex}" if member.subscribed_topic_regex else ""
    kind = {0: "classic ", 1: "", -1: "?"}[member.member_type]
    return (
        f"{kind}{named(member.member_id, member.instance_id)} epoch {member.member_epoch}"
        f" wants {wishes or 'nothing'}{pattern}"
        f" has {_partitions(member.assignment.topic_partitions)}"
        f" is to have {_partitions(member.target_assignment.topic_partitions)}"
    )


CONSUMER_ANSWERS: dict[type, Callable[[Any], str]] = {
    ConsumerGroupHeartbeatResponse: _consumer_heartbeat,
    DescribedGroup: _consumer_group,
}


def _consumer_epoch_record(value: ConsumerGroupMetadataValue) -> str:
    return f"epoch {value.epoch}" + (" with topics" if value.metadata_hash else "")


def _consumer_member_record(value: ConsumerGroupMemberMetadataValue) -> str:
    parts = [f"of {value.client_id} on {value.client_host}"]
    parts += [f"as {value.instance_id}"] if value.instance_id is not None else []
    parts += [f"rack {value.rack_id}"] if value.rack_id is not None else []
    parts.append(f"wants {','.join(value.subscribed_topic_names) or 'nothing'}")
    parts += [f"like {value.subscribed_topic_regex}"] if value.subscribed_topic_regex else []
    parts += [f"by {value.server_assignor}"] if value.server_assignor is not None else []
    parts.append(f"rebalances in {value.rebalance_timeout_ms} ms")
    if value.classic_member_metadata is not None:
        names = ",".join(protocol.name for protocol in value.classic_member_metadata.supported_protocols)
        parts.append(f"speaks classic {names}, session {value.classic_member_metadata.session_timeout_ms} ms")
    return " ".join(parts)


def _target_epoch_record(value: ConsumerGroupTargetAssignmentMetadataValue) -> str:
    at = time_text(value.assignment_timestamp) if value.assignment_timestamp else "never"
    return f"epoch {value.assignment_epoch} at {at}"


def _target_record(value: ConsumerGroupTargetAssignmentMemberValue) -> str:
    return f"is to have {_partitions(value.topic_partitions)}"


def _current_record(value: ConsumerGroupCurrentMemberAssignmentValue) -> str:
    state = MemberState(value.state).name
    parts = [f"epoch {value.member_epoch} after {value.previous_member_epoch} {state}"]
    parts.append(f"has {_epochs(value.assigned_partitions)}")
    if value.partitions_pending_revocation:
        parts.append(f"gives up {_epochs(value.partitions_pending_revocation)}")
    return ", ".join(parts)


def _epochs(rows: Iterable[Any]) -> str:
    return (
        " ".join(
            f"{topic_name(row.topic_id)}-{index}@{epoch}"
            for row in rows
            for index, epoch in zip(row.partitions, row.assignment_epochs, strict=True)
        )
        or "nothing"
    )


def _regex_record(value: ConsumerGroupRegularExpressionValue) -> str:
    return f"stands for {','.join(value.topics) or 'nothing'} at {time_text(value.timestamp)}"


CONSUMER_RECORDS: dict[type, Callable[[Any], str]] = {
    ConsumerGroupMetadataValue: _consumer_epoch_record,
    ConsumerGroupMemberMetadataValue: _consumer_member_record,
    ConsumerGroupTargetAssignmentMetadataValue: _target_epoch_record,
    ConsumerGroupTargetAssignmentMemberValue: _target_record,
    ConsumerGroupCurrentMemberAssignmentValue: _current_record,
    ConsumerGroupRegularExpressionValue: _regex_record,
}
