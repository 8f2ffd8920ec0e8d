"""Answers, records and orders of transactions in a few words, for stories."""

from collections.abc import Callable, Iterable
from typing import Any

from headrace.coordinator.result import Marking
from headrace.coordinator.transaction_state import NO_PRODUCER_ID, NO_TIME, TransactionState
from headrace.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from headrace.protocol.messages.end_txn import EndTxnResponse
from headrace.protocol.messages.init_producer_id import InitProducerIdResponse
from headrace.protocol.messages.transaction_records import TransactionLogValue
from tests.support.scenario_words import code_text, time_text


def order_text(marking: Marking) -> str:
    end = "commit" if marking.committed else "abort"
    who = identity_text(*marking.producer)
    return f"{end} markers of {who} in {_places(marking.partitions)}, version {marking.transaction_version}"


def identity_text(producer_id: int, epoch: int) -> str:
    return f"{producer_id}/{epoch}"


def _places(places: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{topic}-{index}" for topic, index in sorted(places)) or "nothing"


def _init(response: InitProducerIdResponse) -> str:
    if response.error_code:
        return code_text(response.error_code)
    return f"is {identity_text(response.producer_id, response.producer_epoch)}"


def _end(response: EndTxnResponse) -> str:
    if response.error_code or response.producer_id == NO_PRODUCER_ID:  # older versions tell no identity
        return code_text(response.error_code)
    return f"ok, goes on as {identity_text(response.producer_id, response.producer_epoch)}"


def _described(row: DescribedTransaction) -> str:
    if row.error_code:
        return code_text(row.error_code)
    parts = [
        f"{row.transaction_state} {identity_text(row.producer_id, row.producer_epoch)}",
        f"in {_places((topic.topic, index) for topic in row.topics for index in topic.partitions)}",
        *_since(row.transaction_start_time_ms),
    ]
    return f"{' '.join(parts)}, time-out {row.transaction_timeout_ms} ms"


def _since(started_ms: int) -> list[str]:
    return [] if started_ms == NO_TIME else [f"since {time_text(started_ms)}"]


TRANSACTION_ANSWERS: dict[type, Callable[[Any], str]] = {
    InitProducerIdResponse: _init,
    EndTxnResponse: _end,
    DescribedTransaction: _described,
}


def _record(value: TransactionLogValue) -> str:
    state = TransactionState(value.transaction_status).label
    parts = [f"{state} {identity_text(value.producer_id, value.producer_epoch)}"]
    if value.previous_producer_id != value.producer_id:
        parts.append(f"after {value.previous_producer_id}")
    if value.next_producer_id != NO_PRODUCER_ID:
        parts.append(f"before {value.next_producer_id}")
    if value.transaction_partitions is not None:
        rows = value.transaction_partitions
        parts.append(f"in {_places((row.topic, index) for row in rows for index in row.partition_ids)}")
    parts += _since(value.transaction_start_timestamp_ms)
    rest = f"time-out {value.transaction_timeout_ms} ms, version {value.client_transaction_version}"
    return f"{' '.join(parts)}, {rest}, at {time_text(value.transaction_last_update_timestamp_ms)}"


TRANSACTION_RECORDS: dict[type, Callable[[Any], str]] = {TransactionLogValue: _record}
