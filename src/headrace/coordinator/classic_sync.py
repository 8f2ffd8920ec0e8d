"""SyncGroup and Heartbeat."""

from headrace.coordinator.result import Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.sync_group import SyncGroupRequest


def sync_group(state: ShardState, request: SyncGroupRequest, *, ticket: Ticket, version: int, now_ms: int) -> Step:
    raise NotImplementedError


def heartbeat(state: ShardState, request: HeartbeatRequest, *, ticket: Ticket, now_ms: int) -> Step:
    raise NotImplementedError
