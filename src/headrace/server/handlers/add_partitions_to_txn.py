"""AddPartitionsToTxn (key 24, versions 0-5): partitions become part of a transaction.

Behaviour   all partitions of a transaction are added, or none: those that do not exist are told, and the others are
            OPERATION_NOT_ATTEMPTED
Versions    0-3 are for producers, for one transaction; 4-5 for brokers, which add or verify for several at a time, and
            add for clients of transaction version 2 only
            before 2 PRODUCER_FENCED is called INVALID_PRODUCER_EPOCH
"""

from collections.abc import Sequence
from typing import Final

from headrace.coordinator.result import Producer
from headrace.coordinator.transaction_state import EPOCH_BUMPED_SINCE, by_topic
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from headrace.server.context import RequestContext
from headrace.server.fencing import fencing_code
from headrace.server.later import Later, as_later, gather

_SEVERAL_SINCE: Final = 4
_FENCED_SINCE: Final = 2

Verdicts = dict[tuple[str, int], ErrorCode]


def handle(request: AddPartitionsToTxnRequest, ctx: RequestContext) -> Later[AddPartitionsToTxnResponse]:
    if ctx.version >= _SEVERAL_SINCE:
        several = [_serve(transaction, ctx) for transaction in request.transactions]
        return gather(several).map(lambda verdicts: _several(request, verdicts))
    single = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return _serve(single, ctx).map(
        lambda verdicts: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_rows(verdicts))
    )


def _serve(transaction: AddPartitionsToTxnTransaction, ctx: RequestContext) -> Later[Verdicts]:
    places = _places(transaction.topics)
    missing = {place for place in places if not _exists(place, ctx)}
    settled: Later[Verdicts] = Later()
    if missing:
        settled.resolve(
            {
                place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
                for place in places
            }
        )
        return settled
    if not transaction.transactional_id:
        settled.resolve(dict.fromkeys(places, ErrorCode.INVALID_REQUEST))
        return settled
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return ctx.broker.coordinators.admission.verify(transaction.transactional_id, producer, places)
    is_old = ctx.version < _FENCED_SINCE
    client_version = EPOCH_BUMPED_SINCE if ctx.version >= _SEVERAL_SINCE else 0
    added = ctx.broker.coordinators.admission.add(
        transaction.transactional_id, producer, places, client_version=client_version
    )
    return as_later(added).map(lambda code: dict.fromkeys(places, fencing_code(code, is_old_client=is_old)))


def _places(topics: Sequence[AddPartitionsToTxnTopic]) -> frozenset[tuple[str, int]]:
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def _exists(place: tuple[str, int], ctx: RequestContext) -> bool:
    topic_id = ctx.image.topic_ids.get(place[0])
    return topic_id is not None and place[1] in ctx.image.topics[topic_id].partitions


def _several(request: AddPartitionsToTxnRequest, verdicts: list[Verdicts]) -> AddPartitionsToTxnResponse:
    rows = [
        AddPartitionsToTxnResult(transaction.transactional_id, _rows(each))
        for transaction, each in zip(request.transactions, verdicts, strict=True)
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=rows)


def _rows(verdicts: Verdicts) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic, [AddPartitionsToTxnPartitionResult(index, verdicts[topic, index]) for index in indexes]
        )
        for topic, indexes in by_topic(verdicts).items()
    ]
