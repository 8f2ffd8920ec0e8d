"""OffsetCommit and TxnOffsetCommit."""

from headrace.coordinator.result import Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.offset_commit import OffsetCommitRequest
from headrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


def offset_commit(
    state: ShardState, request: OffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    raise NotImplementedError


def txn_offset_commit(
    state: ShardState, request: TxnOffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    raise NotImplementedError
