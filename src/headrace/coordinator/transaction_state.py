"""What a coordinator knows of one transactional id, and how a record says it.

States
    EMPTY             a producer has introduced itself, and has written nothing
    ONGOING           it writes; `partitions` are those that need a marker in the end
    PREPARE_COMMIT    how it ends is decided; markers are being written
    PREPARE_ABORT
    COMPLETE_COMMIT   all markers are there
    COMPLETE_ABORT
    (DEAD and PREPARE_EPOCH_FENCE are Kafka's: read and listed, never written. An id that is forgotten has a tombstone.)

    EMPTY ──────────────► ONGOING ──► PREPARE_COMMIT ──► COMPLETE_COMMIT ──► ONGOING, EMPTY
      │  first partition    │    end    (markers)                  │
      │                     └───────► PREPARE_ABORT ──► COMPLETE_ABORT ──► ONGOING, EMPTY
      └─────────────────────────────────┘ (version 2: an abort of nothing still raises the epoch)

Who moves it: the producer (its first write, EndTxn); a new producer with the same id (InitProducerId leads to EMPTY, by
way of an abort if a transaction is ongoing); time (ONGOING for longer than its time-out is aborted; EMPTY or COMPLETE
for transactional.id.expiration.ms is forgotten); the last marker. A coordinator that takes over finds the state in the
log, and orders the markers of what is prepared again.

Once a PREPARE state is written, the fate of the transaction is decided: whatever happens, its markers are written, over
and over if need be, until all are there; then it is COMPLETE. A producer that begins anew raises the epoch, which
fences every older one. Transactions of version 2 (KIP-890) raise the epoch at each end as well, so that a message that
arrives late cannot slip into the next one.

Invariants
    the epoch of a producer id never goes back, and the last one is kept to fence with; then the id is another
    PREPARE leads to the COMPLETE of the same kind and nowhere else; nothing else changes while it is prepared
    only ONGOING and PREPARE have partitions, and PREPARE has those which ONGOING had
    started_ms is known while it is ONGOING, so the time-out counts through restarts
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from headrace.protocol.apis import TRANSACTION_RECORDS
from headrace.protocol.errors import DecodeError
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 32_767
EPOCH_BUMPED_SINCE: Final = 2  # the transaction version from which on each end raises the epoch
_VALUE_VERSION: Final = 1

TRANSACTION_LOG: Final = next(each for each in TRANSACTION_RECORDS.values() if each.name == "TransactionLog")


class TransactionState(IntEnum):
    """The numbers are those of the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As Kafka writes it: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_STATES: Final[dict[int, TransactionState]] = {int(state): state for state in TransactionState}
PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
COMPLETE: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
IDLE: Final = COMPLETE | {TransactionState.EMPTY}


class Transaction(NamedTuple):
    """Hard state: what the newest record says."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[tuple[str, int]] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID  # before the last change; another one if its epochs had run out
    next_producer_id: int = NO_PRODUCER_ID  # taken over when the present transaction is complete
    client_version: int = 0  # the transaction version that the producer spoke

    def changed(self, **fields: Any) -> "Transaction":
        return self._replace(previous_producer_id=self.producer_id, **fields)

    @property
    def is_epoch_exhausted(self) -> bool:
        """One epoch is kept to fence the last producer of this id."""
        return is_exhausted(self.epoch)


def is_exhausted(epoch: int) -> bool:
    return epoch >= MAX_EPOCH - 1


def record_of(transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
    # In the order of the fields: three records are written for each transaction, and names would take half the time.
    producer_id, epoch, timeout_ms, state, partitions, started_ms, updated_ms, previous_id, next_id, version = (
        transaction
    )
    # Kafka writes null where no transaction is, and an empty list for one without partitions.
    grouped = None if state is TransactionState.EMPTY else _grouped(partitions)
    value = TransactionLogValue(
        *(producer_id, previous_id, next_id, epoch, NO_EPOCH, timeout_ms, state, grouped),
        *(updated_ms, started_ms, version),
    )
    return CoordinatorRecord(TRANSACTION_LOG, TransactionLogKey(transactional_id), _VALUE_VERSION, value)


def tombstone_of(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TRANSACTION_LOG, TransactionLogKey(transactional_id), None, None)


def transaction_of(value: TransactionLogValue) -> Transaction:
    """Raises DecodeError for a state that this version does not know."""
    producer_id, previous_id, next_id, epoch, _, timeout_ms, status, topics, updated_ms, started_ms, version, _ = value
    state = _STATES.get(status)
    if state is None:
        raise DecodeError(f"state {status}", field="transaction_status", position=0)
    partitions = frozenset([(topic.topic, index) for topic in topics or () for index in topic.partition_ids])
    return Transaction(
        *(producer_id, epoch, timeout_ms, state, partitions, started_ms, updated_ms, previous_id, next_id, version)
    )


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Indexes of each topic, all in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _grouped(partitions: frozenset[tuple[str, int]]) -> list[PartitionsSchema]:
    return [PartitionsSchema(topic, indexes) for topic, indexes in by_topic(partitions).items()]
