"""DescribeTransactions and ListTransactions."""

from typing import TYPE_CHECKING

from headrace.coordinator.transaction_state import TransactionState, by_topic
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_transactions import TopicData
from headrace.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from headrace.protocol.messages.list_transactions import TransactionState as ListedTransaction

if TYPE_CHECKING:
    from headrace.coordinator.transactions import TransactionShard


def describe(shard: "TransactionShard", transactional_id: str) -> DescribedTransaction:
    current = shard.transactions.get(transactional_id)
    if current is None:
        return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=current.state.label,
        transaction_timeout_ms=current.timeout_ms,
        transaction_start_time_ms=current.started_ms,
        producer_id=current.producer_id,
        producer_epoch=current.epoch,
        topics=[TopicData(topic, indexes) for topic, indexes in by_topic(current.partitions).items()],
    )


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """What the client filters by, and nothing can be."""
    known = {state.label for state in TransactionState}
    return [name for name in request.state_filters if name not in known]


def list_transactions(
    shard: "TransactionShard", request: ListTransactionsRequest, now_ms: int
) -> list[ListedTransaction]:
    """Those that pass every filter; a filter that is empty lets all pass."""
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    found = []
    for transactional_id, current in shard.transactions.items():
        label = current.state.label
        if states and label not in states:
            continue
        if producer_ids and current.producer_id not in producer_ids:
            continue
        # As in Kafka: one that never began passes.
        if request.duration_filter >= 0 and now_ms - current.started_ms <= request.duration_filter:
            continue
        found.append(ListedTransaction(transactional_id, current.producer_id, label))
    return found
