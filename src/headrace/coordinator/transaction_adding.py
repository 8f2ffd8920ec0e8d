"""Which partitions a transaction writes to: adding them, and checking that they were added.

Clients before transaction version 2 add partitions themselves before they write; since then the broker that gets the
first write of a transaction to a partition adds it for them (KIP-890). A write to a partition that is not part of an
ongoing transaction would stay open for ever, so brokers verify it first.
"""

from typing import TYPE_CHECKING

from headrace.coordinator.result import Answer, Producer, Step, Ticket, answer
from headrace.coordinator.transaction_state import PREPARED, Transaction, TransactionState, record_of
from headrace.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from headrace.coordinator.transactions import TransactionShard


def find(shard: "TransactionShard", transactional_id: str, producer: Producer) -> Transaction | ErrorCode:
    """The transaction that this producer may add to."""
    current = shard.transactions.get(transactional_id)
    if current is None or current.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return current


def add_partitions(
    shard: "TransactionShard",
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[tuple[str, int]],
    *,
    ticket: Ticket,
    client_version: int,
    now_ms: int,
) -> Step:
    current = find(shard, transactional_id, producer)
    if isinstance(current, ErrorCode):
        return answer(ticket, current)
    is_ongoing = current.state is TransactionState.ONGOING
    if is_ongoing and partitions <= current.partitions:
        return answer(ticket, ErrorCode.NONE)
    added = current.changed(
        state=TransactionState.ONGOING,
        partitions=current.partitions | partitions if is_ongoing else partitions,
        started_ms=current.started_ms if is_ongoing else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )
    return Step((record_of(transactional_id, added),), (Answer(ticket, ErrorCode.NONE),))


def verify_partitions(
    shard: "TransactionShard", transactional_id: str, producer: Producer, partitions: frozenset[tuple[str, int]]
) -> dict[tuple[str, int], ErrorCode]:
    current = find(shard, transactional_id, producer)
    if isinstance(current, ErrorCode):
        return dict.fromkeys(partitions, current)
    return {
        each: ErrorCode.NONE if each in current.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions
    }
