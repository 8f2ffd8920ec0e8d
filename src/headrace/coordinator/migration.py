"""Members of one protocol in a group of the other, and groups that change over."""

from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.result import Client, Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest
from headrace.protocol.messages.leave_group import LeaveGroupRequest
from headrace.protocol.messages.sync_group import SyncGroupRequest


def join_group(
    state: ShardState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    *,
    ticket: Ticket,
    client: Client,
    version: int,
    now_ms: int,
) -> Step:
    raise NotImplementedError


def sync_group(
    state: ShardState, group: ConsumerGroup, request: SyncGroupRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    raise NotImplementedError


def heartbeat(
    state: ShardState, group: ConsumerGroup, request: HeartbeatRequest, *, ticket: Ticket, now_ms: int
) -> Step:
    raise NotImplementedError


def leave_group(
    state: ShardState, group: ConsumerGroup, request: LeaveGroupRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    raise NotImplementedError
