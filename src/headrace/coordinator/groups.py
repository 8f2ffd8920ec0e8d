"""All groups of one partition of __consumer_offsets, and a door for each request about them.

A shard decides nothing itself: each door leads to one module. Three tables say who handles what is not a request:
record types to replay, deadlines that have come, and changes of the cluster's metadata.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headrace.cluster.image import Image
from headrace.coordinator import (
    classic_heartbeat,
    classic_join,
    classic_leave,
    classic_replay,
    classic_sync,
    classic_timers,
    consumer_describe,
    consumer_heartbeat,
    consumer_replay,
    consumer_timers,
    group_deletion,
    group_listing,
    migration,
    offset_commit,
    offset_delete,
    offset_expiry,
    offset_fetch,
)
from headrace.coordinator.classic_group import ClassicGroup
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.group_records import LEGACY_OFFSET_COMMIT, OFFSET_COMMIT
from headrace.coordinator.group_records import offset_commit as offset_record
from headrace.coordinator.result import NO_PRODUCER_ID, Client, Producer, Step, Ticket
from headrace.coordinator.shard_state import Due, Replay, ShardState
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.protocol.messages.describe_groups import DescribedGroup
from headrace.protocol.messages.group_records import OffsetCommitValue
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest
from headrace.protocol.messages.leave_group import LeaveGroupRequest
from headrace.protocol.messages.list_groups import ListedGroup
from headrace.protocol.messages.offset_commit import OffsetCommitRequest
from headrace.protocol.messages.offset_delete import OffsetDeleteRequest
from headrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from headrace.protocol.messages.sync_group import SyncGroupRequest
from headrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_REPLAY: Final[Mapping[int, Replay]] = {**classic_replay.REPLAY, **consumer_replay.REPLAY}
_DUE: Final[Mapping[str, Due]] = {**classic_timers.DUE, **consumer_timers.DUE, **offset_expiry.DUE}


class GroupShard(ShardState):
    """One partition's groups. Requests come through methods of their name; see result.py for what a `Step` is."""

    __slots__ = ()

    # Hard state

    def replay(self, record: CoordinatorRecord, *, producer_id: int = NO_PRODUCER_ID) -> None:
        """Takes one record into the state. With a `producer_id`, it is part of that producer's open transaction."""
        record_type, key, _, value = record
        if record_type is OFFSET_COMMIT:
            if value is not None and key[0] not in self.groups:
                # Somebody outside of any group commits: a group without members, and without a record of its own.
                self.groups[key[0]] = ClassicGroup(key[0], now_ms=value.commit_timestamp)
            self.offsets.replay(key, value, producer_id)
        elif record_type is LEGACY_OFFSET_COMMIT:
            self.replay(_modern(record))
        elif record_type.id in _REPLAY:
            _REPLAY[record_type.id](self, key, value)
        # Else it is of a share or streams group, which Kafka may have left in the log, and which nobody can join here.

    def replay_end(self, producer: Producer, *, committed: bool) -> None:
        """Takes the end of a producer's transaction into the state."""
        self.offsets.replay_end(producer.producer_id, committed=committed)

    def loaded(self, now_ms: int) -> None:
        """All records are replayed: timers start, and requests may come."""
        for group in list(self.groups.values()):
            if isinstance(group, ConsumerGroup):
                consumer_replay.loaded(self, group, now_ms)
            else:
                classic_replay.loaded(self, group, now_ms)
        offset_expiry.start(self, now_ms)
        self.is_loaded = True

    # Time and world

    @property
    def next_deadline_ms(self) -> int | None:
        return self.deadlines.next_ms

    def tick(self, now_ms: int) -> Iterator[Step]:
        """Everything that is due. Each step must be written and replayed before the next is asked for."""
        while (key := self.deadlines.pop_due(now_ms)) is not None:
            yield from _DUE[key[0]](self, key, now_ms)

    def clock_set(self, by_ms: int) -> None:
        """The time of day was set; what is due counts the time that passes."""
        self.deadlines.shift(by_ms)

    def image_changed(self, image: Image, now_ms: int) -> Iterator[Step]:  # noqa: ARG002  as every shard has it
        """The cluster's metadata changed. Each step must be written and replayed before the next is asked for."""
        before, self.image = self.image, image
        yield from offset_expiry.image_changed(self, before)
        consumer_timers.image_changed(self, before)

    # Classic groups

    def join_group(
        self, request: JoinGroupRequest, *, ticket: Ticket, client: Client, version: int, now_ms: int
    ) -> Step:
        request = classic_join.normalized(request, version)
        code = classic_join.check_request(self, request, client)
        if code:
            return classic_join.refuse(request, code, ticket=ticket, version=version)
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return migration.join_group(
                self, group, request, ticket=ticket, client=client, version=version, now_ms=now_ms
            )
        return classic_join.join_group(self, request, ticket=ticket, client=client, version=version, now_ms=now_ms)

    def sync_group(self, request: SyncGroupRequest, *, ticket: Ticket, now_ms: int) -> Step:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return migration.sync_group(self, group, request, ticket=ticket, now_ms=now_ms)
        return classic_sync.sync_group(self, request, ticket=ticket, now_ms=now_ms)

    def heartbeat(self, request: HeartbeatRequest, *, ticket: Ticket, now_ms: int) -> Step:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return migration.heartbeat(self, group, request, ticket=ticket, now_ms=now_ms)
        return classic_heartbeat.heartbeat(self, request, ticket=ticket, now_ms=now_ms)

    def leave_group(self, request: LeaveGroupRequest, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return migration.leave_group(self, group, request, ticket=ticket, version=version, now_ms=now_ms)
        return classic_leave.leave_group(self, request, ticket=ticket, version=version, now_ms=now_ms)

    # Consumer groups (KIP-848)

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, *, ticket: Ticket, client: Client, version: int, now_ms: int
    ) -> Step:
        return consumer_heartbeat.consumer_group_heartbeat(
            self, request, ticket=ticket, client=client, version=version, now_ms=now_ms
        )

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        return consumer_describe.describe_consumer_group(self, group_id)

    # Offsets

    def offset_commit(self, request: OffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        return offset_commit.offset_commit(self, request, ticket=ticket, version=version, now_ms=now_ms)

    def txn_offset_commit(self, request: TxnOffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        return offset_commit.txn_offset_commit(self, request, ticket=ticket, version=version, now_ms=now_ms)

    def offset_delete(self, request: OffsetDeleteRequest, *, ticket: Ticket) -> Step:
        return offset_delete.offset_delete(self, request, ticket=ticket)

    def fetch_offsets(
        self, group: OffsetFetchRequestGroup, *, version: int, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        return offset_fetch.fetch_offsets(self, group, version=version, require_stable=require_stable)

    # All groups

    def delete_group(self, group_id: str, *, ticket: Ticket) -> Step:
        """The answer is an ErrorCode."""
        return group_deletion.delete_group(self, group_id, ticket=ticket)

    def describe_group(self, group_id: str, *, version: int) -> DescribedGroup:
        return group_listing.describe_group(self, group_id, version=version)

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        """An empty filter lets everything pass."""
        return group_listing.list_groups(self, states, types)


def _modern(record: CoordinatorRecord) -> CoordinatorRecord:
    """A commit of an offset as Kafka wrote it up to 0.8."""
    value = record.value
    if value is not None:
        value = OffsetCommitValue(value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
    return offset_record(record.key.group, record.key.topic, record.key.partition, value)
