"""Transactions on the wire: what answers and errors say, and offsets as requests carry them. It only computes."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.client.accumulator import Place
from headrace.client.coordinators import COORDINATOR_MOVED
from headrace.client.numbering import Identity
from headrace.client.topic_partition import TopicPartition, by_topic
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
WAITING: Final = COORDINATOR_MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


def adding_request(transactional_id: str, who: Identity, places: Iterable[Place]) -> AddPartitionsToTxnRequest:
    """For brokers that must be told about each partition first."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(*item) for item in by_topic(sorted(places)).items()],
    )


def adding_code(response: Any) -> int:
    """What is wrong with one of the partitions, rather than what is said of others because of it; 0 if all is well."""
    codes: list[int] = [
        row.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
        if row.partition_error_code
    ]
    real = [each for each in codes if each != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return (real or codes or [0])[0]


def offsets_by_topic(offsets: Mapping[TopicPartition, Any]) -> list[TxnOffsetCommitRequestTopic]:
    """An offset is a number, or has `offset`, `leader_epoch` and `metadata`."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), position in offsets.items():
        row = TxnOffsetCommitRequestPartition(
            partition,
            position if isinstance(position, int) else position.offset,
            -1 if isinstance(position, int) or position.leader_epoch is None else position.leader_epoch,
            "" if isinstance(position, int) else position.metadata,
        )
        topics.setdefault(topic, []).append(row)
    return [TxnOffsetCommitRequestTopic(*item) for item in topics.items()]
