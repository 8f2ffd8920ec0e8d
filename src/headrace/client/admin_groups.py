"""Admin calls about consumer groups: who is in them, what they have committed."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.admin_calls import AdminCalls, settle, top_code
from headrace.client.coordinators import CoordinatorKind
from headrace.client.errors import KafkaError, UnknownGroupError, UnsupportedVersionError, error_for, raise_for
from headrace.client.several import several
from headrace.client.topic_partition import TopicPartition, as_partition, as_partitions, by_topic
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import DecodeError
from headrace.protocol.messages import (
    consumer_group_describe,
    consumer_protocol,
    delete_groups,
    describe_groups,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)

GROUP: Final = CoordinatorKind.GROUP
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_NO_OFFSET: Final = -1
# Versions in which topics go by name: from 10 on they go by id, which an admin would have to look up first.
_FETCH_BY_NAME: Final = 9
_COMMIT_BY_NAME: Final = 9


@dataclass(frozen=True, slots=True)
class GroupListing:
    """`type` is classic, consumer, share or streams; empty where the broker does not tell."""

    id: str
    type: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """`target` is what the broker wants the member to have, where it decides (KIP-848)."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: int
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int
    metadata: str


class GroupCalls(AdminCalls):
    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """All groups, of these states (Stable, Empty, …) and types (classic, consumer, …) if they are given."""
        request = list_groups.ListGroupsRequest(several(states, str, "states"), several(types, str, "types"))
        version = 5 if types else 4 if states else 0
        brokers = await self._brokers(timeout)
        responses: list[list_groups.ListGroupsResponse] = await asyncio.gather(
            *(self._broker(broker, request, top_code, timeout, min_version=version) for broker in brokers)
        )
        groups = {}
        for response in responses:
            raise_for(response.error_code)
            for row in response.groups:
                groups[row.group_id] = GroupListing(
                    row.group_id, row.group_type.lower(), row.group_state, row.protocol_type
                )
        return [groups[name] for name in sorted(groups)]

    async def describe_group(self, group: str, *, timeout: float | None = None) -> GroupDescription:
        """One group and its members. Raises UnknownGroupError."""
        return (await self.describe_groups([group], timeout=timeout))[group]

    async def describe_groups(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Groups of either protocol and their members."""
        wanted = list(dict.fromkeys(several(groups, str, "groups")))
        described = await asyncio.gather(*(self._describe_group(group, timeout) for group in wanted))
        return settle(dict(zip(wanted, described, strict=True)), "groups")

    async def _describe_group(self, group: str, timeout: float | None) -> GroupDescription | KafkaError:
        """Asked as a group of the new protocol first; the answer for a classic one is that there is none."""
        try:
            response = await self._coordinator(
                GROUP,
                group,
                consumer_group_describe.ConsumerGroupDescribeRequest([group]),
                _group_codes,
                timeout,
            )
        except UnsupportedVersionError:
            return await self._describe_classic(group, timeout)
        row = response.groups[0]
        if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return await self._describe_classic(group, timeout)
        if row.error_code:
            return error_for(row.error_code, row.error_message)
        return GroupDescription(
            id=group,
            type="consumer",
            state=row.group_state,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            assignor=row.assignor_name,
            members=tuple(map(_consumer_member, row.members)),
            coordinator=(await self._cluster.coordinator(GROUP, group)).id,
            epoch=row.group_epoch,
        )

    async def _describe_classic(self, group: str, timeout: float | None) -> GroupDescription | KafkaError:
        response: describe_groups.DescribeGroupsResponse = await self._coordinator(
            GROUP, group, describe_groups.DescribeGroupsRequest([group]), _group_codes, timeout
        )
        row = response.groups[0]
        if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or row.group_state == "Dead":
            return _no_group(group)
        if row.error_code:
            return error_for(row.error_code, row.error_message)
        return GroupDescription(
            id=group,
            type="classic",
            state=row.group_state,
            protocol_type=row.protocol_type,
            assignor=row.protocol_data,
            members=tuple(_classic_member(member, row.protocol_type) for member in row.members),
            coordinator=(await self._cluster.coordinator(GROUP, group)).id,
        )

    async def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed, for these partitions or for all; a partition without an offset is left out.

        With `require_stable` it waits for transactions that may still change it.
        """
        topics = (
            None
            if partitions is None
            else [
                offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                for name, numbers in by_topic(as_partitions(partitions)).items()
            ]
        )
        request = offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group, topics=topics)], require_stable=require_stable
        )
        response: offset_fetch.OffsetFetchResponse = await self._coordinator(
            GROUP, group, request, _fetch_codes, timeout, min_version=8, max_version=_FETCH_BY_NAME
        )
        found = response.groups[0]
        raise_for(found.error_code)
        results: dict[TopicPartition, CommittedOffset | KafkaError] = {}
        for topic in found.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    results[partition] = error_for(row.error_code)
                elif row.committed_offset != _NO_OFFSET:
                    results[partition] = CommittedOffset(
                        row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                    )
        return settle(results, "partitions")

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        *,
        timeout: float | None = None,
    ) -> None:
        """Set what the group has committed; it must have no members. A group that does not exist comes into being."""
        chosen = {as_partition(partition): offset for partition, offset in offsets.items()}
        topics = [
            offset_commit.OffsetCommitRequestTopic(
                name=name,
                partitions=[_commit_row(number, chosen[TopicPartition(name, number)]) for number in numbers],
            )
            for name, numbers in by_topic(chosen).items()
        ]
        response: offset_commit.OffsetCommitResponse = await self._coordinator(
            GROUP,
            group,
            offset_commit.OffsetCommitRequest(group, topics=topics),
            _partition_codes,
            timeout,
            max_version=_COMMIT_BY_NAME,
        )
        settle(_partition_results(response.topics, group), "partitions")

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        """Forget what the group has committed there; no member may be reading those topics."""
        topics = [
            offset_delete.OffsetDeleteRequestTopic(
                name, [offset_delete.OffsetDeleteRequestPartition(number) for number in numbers]
            )
            for name, numbers in by_topic(as_partitions(partitions)).items()
        ]
        response: offset_delete.OffsetDeleteResponse = await self._coordinator(
            GROUP, group, offset_delete.OffsetDeleteRequest(group, topics), top_code, timeout
        )
        raise_for(response.error_code)
        settle(_partition_results(response.topics, group), "partitions")

    async def delete_groups(self, groups: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete groups without members, and what they have committed."""
        wanted = list(dict.fromkeys(several(groups, str, "groups")))
        results = await asyncio.gather(*(self._delete_group(group, timeout) for group in wanted))
        settle(dict(zip(wanted, results, strict=True)), "groups")

    async def _delete_group(self, group: str, timeout: float | None) -> KafkaError | None:
        response: delete_groups.DeleteGroupsResponse = await self._coordinator(
            GROUP,
            group,
            delete_groups.DeleteGroupsRequest([group]),
            lambda response: [row.error_code for row in response.results],
            timeout,
        )
        code = response.results[0].error_code
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            return _no_group(group)
        if code == ErrorCode.NON_EMPTY_GROUP:
            return error_for(code, f"Group {group!r} has members; stop them first.")
        return error_for(code) if code else None

    async def remove_members(
        self,
        group: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove static members by group.instance.id, or all members of the group."""
        if instance_ids is None:
            members = (await self.describe_group(group, timeout=timeout)).members
            rows = [leave_group.MemberIdentity(member.id, member.instance_id, reason) for member in members]
        else:
            rows = [
                leave_group.MemberIdentity("", instance, reason) for instance in several(instance_ids, str, "members")
            ]
        if not rows:
            return
        response: leave_group.LeaveGroupResponse = await self._coordinator(
            GROUP, group, leave_group.LeaveGroupRequest(group, members=rows), top_code, timeout, min_version=5
        )
        raise_for(response.error_code)
        settle(
            {
                row.group_instance_id or row.member_id: error_for(row.error_code) if row.error_code else None
                for row in response.members
            },
            "members",
        )


def _no_group(group: str) -> KafkaError:
    return UnknownGroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group!r}.")


def _commit_row(number: int, offset: int | CommittedOffset) -> offset_commit.OffsetCommitRequestPartition:
    if isinstance(offset, CommittedOffset):
        return offset_commit.OffsetCommitRequestPartition(number, offset.offset, offset.leader_epoch, offset.metadata)
    return offset_commit.OffsetCommitRequestPartition(number, offset)


def _partition_results(topics: Iterable[Any], group: str) -> dict[TopicPartition, KafkaError | None]:
    results: dict[TopicPartition, KafkaError | None] = {}
    for topic in topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            results[partition] = _commit_error(group, partition, row.error_code) if row.error_code else None
    return results


def _commit_error(group: str, partition: TopicPartition, code: int) -> KafkaError:
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION):
        return error_for(ErrorCode.NON_EMPTY_GROUP, f"Group {group!r} has members; stop them first.")
    error = error_for(code)
    error.message = f"{partition}: {error.message}"
    return error


def _consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_assigned(member.assignment),
        target=_assigned(member.target_assignment),
        epoch=member.member_epoch,
    )


def _assigned(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(row.topic_name, number) for row in assignment.topic_partitions for number in row.partitions
    )


def _classic_member(member: describe_groups.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    return MemberDescription(
        id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_read_assignment(bytes(member.member_assignment)) if protocol_type == CONSUMER_PROTOCOL_TYPE else (),
    )


def _read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in an assignment that a group's leader wrote; none if it wrote something else."""
    if len(data) < 2:
        return ()
    decoders = consumer_protocol.decode_consumer_protocol_assignment
    version = min(int.from_bytes(data[:2], "big"), max(decoders))  # a newer one begins in the same way
    try:
        assignment = decoders[version](data, memoryview(data), 2, len(data))
    except DecodeError:
        return ()
    return tuple(
        TopicPartition(row.topic, number) for row in assignment.assigned_partitions for number in row.partitions
    )


def _group_codes(response: Any) -> list[int]:
    return [row.error_code for row in response.groups]


def _fetch_codes(response: offset_fetch.OffsetFetchResponse) -> list[int]:
    return [
        code
        for group in response.groups
        for code in (group.error_code, *(row.error_code for topic in group.topics for row in topic.partitions))
    ]


def _partition_codes(response: Any) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]
