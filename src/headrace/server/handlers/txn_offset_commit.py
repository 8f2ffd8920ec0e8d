"""TxnOffsetCommit (key 28, versions 0-5): how far a group has come, if a transaction is committed.

Behaviour   the offsets count when the transaction's marker is written, and never if it is aborted
            before the first of a transaction, its coordinator is asked whether the group's offsets are part of it
Versions    3 names the member, so that one of an older generation is refused; 5 adds the offsets to the transaction
"""

from typing import Final

from headrace.coordinator.result import Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later, as_later
from headrace.server.transaction_admission import Asking

_ADDS_SINCE: Final = 5
_ABORTABLE_SINCE: Final = 4


def handle(request: TxnOffsetCommitRequest, ctx: RequestContext) -> Later[TxnOffsetCommitResponse]:
    answered: Later[TxnOffsetCommitResponse] = Later()
    groups = ctx.broker.coordinators.groups
    index = groups.index_of(request.group_id)
    if index is None:
        answered.resolve(_refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return answered

    def commit(code: ErrorCode) -> None:
        if code:
            answered.resolve(_refuse(request, code))
            return
        written = groups.submit(
            request.group_id,
            lambda shard, ticket: shard.txn_offset_commit(
                request, ticket=ticket, version=ctx.version, now_ms=ctx.now_ms()
            ),
            lambda refused: _refuse(request, refused),
            is_light=True,
        )
        as_later(written).then(answered.resolve)

    producer = Producer(request.producer_id, request.producer_epoch)
    ctx.broker.coordinators.admission.admit_one(
        request.transactional_id, producer, (groups.topic, index), asking=_asking(ctx.version)
    ).then(commit)
    return answered


def _asking(version: int) -> Asking:
    if version >= _ADDS_SINCE:
        return Asking.ADD
    return Asking.VERIFY if version >= _ABORTABLE_SINCE else Asking.VERIFY_FOR_OLD


def _refuse(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name, [TxnOffsetCommitResponsePartition(row.partition_index, code) for row in topic.partitions]
            )
            for topic in request.topics
        ]
    )
