"""All transactional ids of one partition of __transaction_state, and a door for each request about them.

A shard decides nothing itself; transaction_state.py has the states, and each family of decisions its own module.

Invariants: the epoch of a producer id never goes back; a transaction ends in exactly one way, which the PREPARE record
decides; as long as it is prepared, nothing else happens to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.cluster.image import Image
from headrace.coordinator import transaction_adding, transaction_ending, transaction_init, transaction_listing
from headrace.coordinator.batches import in_batches
from headrace.coordinator.deadlines import Deadlines
from headrace.coordinator.result import Overdue, Producer, Step, Ticket
from headrace.coordinator.transaction_state import (
    IDLE,
    PREPARED,
    Transaction,
    TransactionState,
    tombstone_of,
    transaction_of,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from headrace.protocol.messages.list_transactions import TransactionState as ListedTransaction

_EXPIRY: Final = ""  # the deadline of looking for ids to forget; no transactional id is empty
_FORGET_AT_ONCE: Final = 1_000  # ids in one batch of tombstones
_FORGET_BYTES: Final = 50_000  # of such a batch: whatever the topic is told to take, it takes this


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Each field is the broker config of its name, in milliseconds."""

    max_timeout_ms: int  # transaction.max.timeout.ms
    id_expiration_ms: int  # transactional.id.expiration.ms
    expiry_interval_ms: int  # transaction.remove.expired.transaction.cleanup.interval.ms


class TransactionShard:
    """One partition's transactional ids. Requests come through methods of their name; result.py says what a Step is."""

    __slots__ = ("deadlines", "is_loaded", "last_epochs", "settings", "transactions")

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        # Soft state: the epoch before the present one, by which the retry of an InitProducerId is known.
        self.last_epochs: dict[str, int] = {}
        # By transactional id: its transaction takes too long, or is to end.
        self.deadlines: Deadlines[str] = Deadlines()
        self.is_loaded = False

    # Hard state

    def replay(self, record: CoordinatorRecord, *, producer_id: int = -1) -> None:  # noqa: ARG002 what shards are given
        transactional_id = record.key.transactional_id
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            self.last_epochs.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction_of(record.value)
        if self.is_loaded:
            self._watch(transactional_id)

    def replay_end(self, producer: Producer, *, committed: bool) -> None:
        """Nobody writes to this topic in a transaction."""

    def loaded(self, now_ms: int) -> None:
        """All records are replayed: what was prepared is due at once."""
        self.is_loaded = True
        for transactional_id in self.transactions:
            self._watch(transactional_id)
            if self.transactions[transactional_id].state in PREPARED:
                self.deadlines.set(transactional_id, now_ms)
        self.deadlines.set(_EXPIRY, now_ms + self.settings.expiry_interval_ms)

    # Time and world

    @property
    def next_deadline_ms(self) -> int | None:
        return self.deadlines.next_ms

    def _watch(self, transactional_id: str) -> None:
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state is TransactionState.ONGOING:
            if transactional_id not in self.deadlines:  # else it stands, also when the clock was set since then
                self.deadlines.set(transactional_id, transaction.started_ms + transaction.timeout_ms)
        else:
            self.deadlines.cancel(transactional_id)

    def clock_set(self, by_ms: int) -> None:
        """The time of day was set; what is due counts the time that passes."""
        self.deadlines.shift(by_ms)

    def tick(self, now_ms: int) -> Iterator[Step]:
        """Everything that is due. Each step must be written and replayed before the next is asked for."""
        while (transactional_id := self.deadlines.pop_due(now_ms)) is not None:
            if transactional_id == _EXPIRY:
                yield from self._expire(now_ms)
                self.deadlines.set(_EXPIRY, now_ms + self.settings.expiry_interval_ms)
            else:
                yield transaction_ending.due(self, transactional_id, now_ms)

    def _expire(self, now_ms: int) -> Iterator[Step]:
        """Forget the ids that nobody has used for long."""
        last_ms = now_ms - self.settings.id_expiration_ms
        expired = [
            transactional_id
            for transactional_id, transaction in self.transactions.items()
            if transaction.state in IDLE and transaction.updated_ms <= last_ms
        ]
        tombstones = map(tombstone_of, expired)
        yield from map(Step, in_batches(tombstones, most_records=_FORGET_AT_ONCE, most_bytes=_FORGET_BYTES))

    def image_changed(self, image: Image, now_ms: int) -> Iterator[Step]:  # noqa: ARG002 what shards are given
        """Topics come and go without changing transactions: a marker for a partition that is gone is left out."""
        yield from ()

    # Requests

    def init_producer_id(self, request: InitProducerIdRequest, *, ticket: Ticket, fresh_id: int, now_ms: int) -> Step:
        """`fresh_id`: a producer id that nobody has, in case a new one is needed. Answers InitProducerIdResponse."""
        return transaction_init.init_producer_id(self, request, ticket=ticket, fresh_id=fresh_id, now_ms=now_ms)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[tuple[str, int]],
        *,
        ticket: Ticket,
        client_version: int,
        now_ms: int,
    ) -> Step:
        """Answers an ErrorCode, which holds for all of them."""
        return transaction_adding.add_partitions(
            self, transactional_id, producer, partitions, ticket=ticket, client_version=client_version, now_ms=now_ms
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: frozenset[tuple[str, int]]
    ) -> dict[tuple[str, int], ErrorCode]:
        """Are these partitions part of the producer's transaction?"""
        return transaction_adding.verify_partitions(self, transactional_id, producer, partitions)

    def needs_fresh_id(self, transactional_id: str) -> bool:
        """May the end of its transaction use up the epochs of its producer id?"""
        current = self.transactions.get(transactional_id)
        return current is not None and current.is_epoch_exhausted

    def end(self, request: EndTxnRequest, *, ticket: Ticket, version: int, fresh_id: int, now_ms: int) -> Step:
        """`fresh_id`: as for init_producer_id, if it `needs_fresh_id`. Answers EndTxnResponse."""
        return transaction_ending.end(self, request, ticket=ticket, version=version, fresh_id=fresh_id, now_ms=now_ms)

    def end_overdue(self, overdue: Overdue, *, fresh_id: int, now_ms: int) -> Step:
        """A step has asked for a producer id: here it is. Answers nobody."""
        return transaction_ending.end_overdue(self, overdue, fresh_id=fresh_id, now_ms=now_ms)

    def marked(self, transactional_id: str, producer: Producer, now_ms: int) -> Step:
        """All markers of this end are written. Answers nobody."""
        return transaction_ending.marked(self, transactional_id, producer, now_ms)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return transaction_listing.describe(self, transactional_id)

    def list_transactions(self, request: ListTransactionsRequest, now_ms: int) -> list[ListedTransaction]:
        return transaction_listing.list_transactions(self, request, now_ms)
