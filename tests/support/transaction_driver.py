"""Drives a shard of transactions as the broker does: write, replay, answer, and markers when a test says so."""

from typing import Any

from headrace.coordinator.result import Marking, Producer, Step
from headrace.coordinator.transaction_state import Transaction
from headrace.coordinator.transactions import TransactionSettings, TransactionShard
from headrace.protocol.apis import TRANSACTION_RECORDS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import decode_coordinator_record, encode_coordinator_record
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

SETTINGS = TransactionSettings(max_timeout_ms=900_000, id_expiration_ms=604_800_000, expiry_interval_ms=3_600_000)
TIMEOUT_MS = 60_000
V2 = 5  # the version of EndTxn of clients that speak transaction version 2
V1 = 4


class TransactionDriver:
    def __init__(self, settings: TransactionSettings = SETTINGS) -> None:
        self.settings = settings
        self.shard = TransactionShard(settings)
        self.written: list[tuple[bytes, bytes | None]] = []
        self.ordered: list[Marking] = []  # markers that are not written yet
        self.steps: list[Step] = []  # all that were carried out
        self.now_ms = 1_000_000
        self._fresh_ids = iter(range(100, 1_000_000))
        self._tickets = iter(range(1_000_000))
        self.shard.loaded(self.now_ms)

    def carry_out(self, step: Step) -> Any:
        """Write and replay; the answer, if there is one."""
        self.steps.append(step)
        for record in step.records:
            data = encode_coordinator_record(record.type, record.key, record.value, record.version)
            self.written.append(data)
            self.shard.replay(decode_coordinator_record(TRANSACTION_RECORDS, *data))
        self.ordered += step.markings
        for overdue in step.overdue:
            fresh_id = next(self._fresh_ids)
            self.carry_out(self.shard.end_overdue(overdue, fresh_id=fresh_id, now_ms=self.now_ms))
        return step.answers[0].response if step.answers else None

    def restart(self) -> None:
        """A new shard from what is written. Markers that were ordered are ordered again."""
        before = dict(self.shard.transactions)
        self.ordered.clear()
        self.shard = TransactionShard(self.settings)
        for data in self.written:
            self.shard.replay(decode_coordinator_record(TRANSACTION_RECORDS, *data))
        assert self.shard.transactions == before, "the replay of the records is not the live state"
        self.shard.loaded(self.now_ms)
        self.move(0)

    def move(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        for step in self.shard.tick(self.now_ms):
            self.carry_out(step)

    def write_markers(self) -> list[Marking]:
        """All that were ordered."""
        orders, self.ordered = self.ordered, []
        for marking in orders:
            self.mark(marking.transactional_id, marking.producer)
        return orders

    def mark(self, transactional_id: str, producer: Producer) -> None:
        """All markers of this end are written, it is told."""
        self.carry_out(self.shard.marked(transactional_id, producer, self.now_ms))

    # Requests

    def init(
        self, transactional_id: str = "t", producer: Producer | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> InitProducerIdResponse:
        producer = producer or Producer(-1, -1)
        request = InitProducerIdRequest(transactional_id, timeout_ms, *producer)
        step = self.shard.init_producer_id(
            request, ticket=next(self._tickets), fresh_id=next(self._fresh_ids), now_ms=self.now_ms
        )
        response: InitProducerIdResponse = self.carry_out(step)
        return response

    def begin(self, transactional_id: str = "t") -> Producer:
        """A new producer, which finds nothing in its way."""
        response = self.init(transactional_id)
        assert response.error_code == 0, ErrorCode(response.error_code)
        return Producer(response.producer_id, response.producer_epoch)

    def add(
        self, producer: Producer, *partitions: tuple[str, int], transactional_id: str = "t", client_version: int = 2
    ) -> ErrorCode:
        step = self.shard.add_partitions(
            transactional_id,
            producer,
            frozenset(partitions),
            ticket=next(self._tickets),
            client_version=client_version,
            now_ms=self.now_ms,
        )
        code: ErrorCode = self.carry_out(step)
        return code

    def end(
        self, producer: Producer, *, commit: bool, version: int = V2, transactional_id: str = "t"
    ) -> EndTxnResponse:
        request = EndTxnRequest(transactional_id, *producer, commit)
        step = self.shard.end(
            request, ticket=next(self._tickets), version=version, fresh_id=next(self._fresh_ids), now_ms=self.now_ms
        )
        response: EndTxnResponse = self.carry_out(step)
        return response

    def state(self, transactional_id: str = "t") -> str:
        return self.shard.transactions[transactional_id].state.label

    def transaction(self, transactional_id: str = "t") -> Transaction:
        return self.shard.transactions[transactional_id]
