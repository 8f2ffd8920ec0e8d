"""Admin calls about transactions: find those which hang, and end them."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.admin_calls import AdminCalls, settle, top_code
from headrace.client.coordinators import CoordinatorKind
from headrace.client.errors import KafkaError, error_for, raise_for
from headrace.client.several import several
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import describe_transactions, init_producer_id, list_transactions, write_txn_markers

TRANSACTION: Final = CoordinatorKind.TRANSACTION
_FENCING_TIMEOUT_MS: Final = 1  # nothing is written under it: the id is only taken away from whoever has it


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """`coordinator` is the broker that looks after it."""

    id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """`started_ms` is when the one that is open began, or the last one; -1 before the first."""

    id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class TransactionCalls(AdminCalls):
    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        older_than_ms: int | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """Transactional ids that the coordinators know, with the state of their latest transaction.

        `pattern` is one of RE2 that matches all of an id; brokers know such since Apache Kafka 4.1.
        """
        request = list_transactions.ListTransactionsRequest(
            several(states, str, "states"), list(producer_ids), -1 if older_than_ms is None else older_than_ms, pattern
        )
        min_version = 2 if pattern is not None else 0 if older_than_ms is None else 1
        brokers = await self._brokers(timeout)
        responses: list[list_transactions.ListTransactionsResponse] = await asyncio.gather(
            *(self._broker(broker, request, top_code, timeout, min_version=min_version) for broker in brokers)
        )
        listings = []
        for broker, response in zip(brokers, responses, strict=True):
            raise_for(response.error_code)
            if response.unknown_state_filters:
                raise ValueError(f"the broker knows no state {', '.join(response.unknown_state_filters)}")
            listings += [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, broker)
                for row in response.transaction_states
            ]
        return sorted(listings, key=lambda listing: listing.id)

    async def describe_transactions(
        self, ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """What each of these transactional ids is doing."""
        wanted = list(dict.fromkeys(several(ids, str, "transactional ids")))
        described = await asyncio.gather(*(self._describe_transaction(each, timeout) for each in wanted))
        return settle(dict(zip(wanted, described, strict=True)), "transactions")

    async def _describe_transaction(self, name: str, timeout: float | None) -> TransactionDescription | KafkaError:
        response: describe_transactions.DescribeTransactionsResponse = await self._coordinator(
            TRANSACTION,
            name,
            describe_transactions.DescribeTransactionsRequest([name]),
            lambda response: [row.error_code for row in response.transaction_states],
            timeout,
        )
        row = response.transaction_states[0]
        if row.error_code:
            return _error(name, row.error_code)
        return TransactionDescription(
            id=name,
            state=row.transaction_state,
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            timeout_ms=row.transaction_timeout_ms,
            started_ms=row.transaction_start_time_ms,
            partitions=tuple(
                TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions
            ),
        )

    async def fence_producers(self, ids: Iterable[str], *, timeout: float | None = None) -> dict[str, tuple[int, int]]:
        """Take transactional ids away from whoever uses them; open transactions are aborted.

        The result is the producer id and epoch that nobody before can write with.
        """
        wanted = list(dict.fromkeys(several(ids, str, "transactional ids")))
        fenced = await asyncio.gather(*(self._fence(each, timeout) for each in wanted))
        return settle(dict(zip(wanted, fenced, strict=True)), "transactional ids")

    async def _fence(self, name: str, timeout: float | None) -> tuple[int, int] | KafkaError:
        response: init_producer_id.InitProducerIdResponse = await self._coordinator(
            TRANSACTION,
            name,
            init_producer_id.InitProducerIdRequest(name, _FENCING_TIMEOUT_MS),
            _fencing_codes,
            timeout,
        )
        return (
            _error(name, response.error_code)
            if response.error_code
            else (
                response.producer_id,
                response.producer_epoch,
            )
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
    ) -> None:
        """End a transaction that hangs in one partition, without asking its coordinator: the last resort.

        The three numbers are those of `describe_producers`.
        """
        topic = write_txn_markers.WritableTxnMarkerTopic(partition.topic, [partition.partition])
        marker = write_txn_markers.WritableTxnMarker(producer_id, producer_epoch, False, [topic], coordinator_epoch)

        def read(response: write_txn_markers.WriteTxnMarkersResponse) -> Iterable[tuple[TopicPartition, object]]:
            code = response.markers[0].topics[0].partitions[0].error_code
            yield partition, error_for(code) if code else None

        settle(
            await self._leaders(
                [partition], lambda _: write_txn_markers.WriteTxnMarkersRequest([marker]), read, timeout
            ),
            "partitions",
        )


def _fencing_codes(response: init_producer_id.InitProducerIdResponse) -> list[int]:
    # The transaction that was open is being aborted: that takes a moment.
    if response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        return [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    return [response.error_code]


def _error(name: str, code: int) -> KafkaError:
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return error_for(code, f"No coordinator knows the transactional id {name!r}.")
    return error_for(code)
