"""Answers and records of coordinators in a few words, for stories."""

from collections.abc import Callable
from typing import Any

from headrace.coordinator.classic_topics import subscribed_topics
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.describe_groups import DescribedGroup
from headrace.protocol.messages.group_records import GroupMetadataValue, OffsetCommitValue
from headrace.protocol.messages.heartbeat import HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupResponse
from headrace.protocol.messages.offset_commit import OffsetCommitResponse
from headrace.protocol.messages.offset_delete import OffsetDeleteResponse
from headrace.protocol.messages.offset_fetch import OffsetFetchResponseGroup, OffsetFetchResponsePartitions
from headrace.protocol.messages.sync_group import SyncGroupResponse
from headrace.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from headrace.protocol.types import ZERO_UUID
from tests.support.consumer_protocol import assignment_text
from tests.support.scenario_consumer_texts import CONSUMER_ANSWERS, CONSUMER_RECORDS
from tests.support.scenario_transaction_texts import TRANSACTION_ANSWERS, TRANSACTION_RECORDS
from tests.support.scenario_words import code_text, named, time_text


def answer_text(response: Any) -> str:
    return _ANSWERS[type(response)](response)


def _join(response: JoinGroupResponse) -> str:
    if response.error_code:
        return code_text(response.error_code) + (f", member {response.member_id}" if response.member_id else "")
    parts = [
        f"generation {response.generation_id}",
        f"{response.protocol_type}/{response.protocol_name}",
        f"member {response.member_id}",
        "leader" if response.leader == response.member_id else f"follows {response.leader or 'nobody'}",
    ]
    if response.skip_assignment:
        parts.append("skips the assignment")
    if response.members:
        parts.append("members " + " ".join(named(each.member_id, each.group_instance_id) for each in response.members))
    return ", ".join(parts)


def _sync(response: SyncGroupResponse) -> str:
    if response.error_code:
        return code_text(response.error_code)
    return f"{response.protocol_type}/{response.protocol_name} assigns {assignment_text(response.assignment)}"


def _heartbeat(response: HeartbeatResponse) -> str:
    return code_text(response.error_code)


def _leave(response: LeaveGroupResponse) -> str:
    members = [
        f"{named(each.member_id, each.group_instance_id)} {code_text(each.error_code)}" for each in response.members
    ]
    return ", ".join([code_text(response.error_code), *members] if response.error_code or not members else members)


def _commit(response: OffsetCommitResponse | TxnOffsetCommitResponse) -> str:
    return ", ".join(
        f"{topic.name}-{row.partition_index} {code_text(row.error_code)}"
        for topic in response.topics
        for row in topic.partitions
    )


def _delete(response: OffsetDeleteResponse) -> str:
    if response.error_code:
        return code_text(response.error_code)
    return ", ".join(
        f"{topic.name}-{row.partition_index} {code_text(row.error_code)}"
        for topic in response.topics
        for row in topic.partitions
    )


def _fetch(group: OffsetFetchResponseGroup) -> str:
    if group.error_code:
        return code_text(group.error_code)
    rows = [f"{topic.name}-{_offset(row)}" for topic in group.topics for row in topic.partitions]
    return ", ".join(rows) or "nothing"


def _offset(row: OffsetFetchResponsePartitions) -> str:
    if row.error_code:
        return f"{row.partition_index} {code_text(row.error_code)}"
    if row.committed_offset < 0:
        return f"{row.partition_index} none"
    return f"{row.partition_index}=" + _offset_text(row.committed_offset, row.committed_leader_epoch, row.metadata)


def _offset_text(offset: int, leader_epoch: int, metadata: str | None) -> str:
    epoch = f" of epoch {leader_epoch}" if leader_epoch >= 0 else ""
    return f"{offset}{epoch}" + (f' "{metadata}"' if metadata else "")


def _describe(group: DescribedGroup) -> str:
    if group.error_code:
        return f"{group.group_state}, {code_text(group.error_code)}"
    head = f"{group.group_state} {group.protocol_type}/{group.protocol_data}"
    members = [
        f"{named(each.member_id, each.group_instance_id)} of {each.client_id} on {each.client_host}"
        f" {topics_text(each.member_metadata)} has {assignment_text(each.member_assignment)}"
        for each in group.members
    ]
    return "; ".join([head, *members])


def topics_text(subscription: bytes) -> str:
    if not subscription:
        return "?"
    topics = subscribed_topics([subscription])
    return "unreadable" if topics is None else "wants " + ",".join(sorted(topics))


_ANSWERS: dict[type, Callable[[Any], str]] = {
    JoinGroupResponse: _join,
    SyncGroupResponse: _sync,
    HeartbeatResponse: _heartbeat,
    LeaveGroupResponse: _leave,
    OffsetCommitResponse: _commit,
    TxnOffsetCommitResponse: _commit,
    OffsetDeleteResponse: _delete,
    OffsetFetchResponseGroup: _fetch,
    DescribedGroup: _describe,
    **CONSUMER_ANSWERS,
    **TRANSACTION_ANSWERS,
    ErrorCode: code_text,
}


def record_text(record: CoordinatorRecord) -> str:
    key = " ".join(str(part) for part in record.key)
    if record.value is None:
        return f"{record.type.name} {key} tombstone"
    return f"{record.type.name} v{record.version} {key}: {_RECORDS.get(type(record.value), str)(record.value)}"


def _offset_record(value: OffsetCommitValue) -> str:
    text = f"{_offset_text(value.offset, value.leader_epoch, value.metadata)} at {time_text(value.commit_timestamp)}"
    if value.expire_timestamp >= 0:
        text += f" expires {time_text(value.expire_timestamp)}"
    return text if value.topic_id != ZERO_UUID else f"{text} without topic id"


def _group_record(value: GroupMetadataValue) -> str:
    head = f"generation {value.generation} {value.protocol_type}/{value.protocol} leader {value.leader}"
    members = [
        f"{named(each.member_id, each.group_instance_id)} {topics_text(each.subscription)}"
        f" has {assignment_text(each.assignment)}"
        for each in value.members
    ]
    return "; ".join([f"{head} since {time_text(value.current_state_timestamp)}", *members])


_RECORDS: dict[type, Callable[[Any], str]] = {
    OffsetCommitValue: _offset_record,
    GroupMetadataValue: _group_record,
    **CONSUMER_RECORDS,
    **TRANSACTION_RECORDS,
}
