"""Apache Kafka and Headrace go through the same transactions: every answer and every record must be the same.

Producer ids and clocks differ, so ids are numbered in the order of their appearance, and times are left out. Kafka ends
a transaction in the background and says CONCURRENT_TRANSACTIONS meanwhile: then a request is sent again, to both.
"""

import time
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from headrace.protocol.apis import TRANSACTION_RECORDS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import decode_coordinator_record
from headrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch, iter_batches, read_records
from headrace.protocol.text_hash import spread
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 120.0  # so long the machine may be busy; what needs it is broken
TIMEOUT_MS = 60_000
V1, V2 = 4, 5  # of EndTxn
STARTING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Identity(NamedTuple):
    producer_id: int
    epoch: int


UNKNOWN = Identity(-1, -1)


class Teller:
    """One broker, one transactional id, and what was said about it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.client = WireClient((host, int(port)))
        self.name = f"tx-{uuid.uuid4().hex[:8]}"
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.told: list[Any] = []
        self._ids: dict[int, str] = {}
        self.client.ask("CreateTopics", 7, CreateTopicsRequest([CreatableTopic(self.topic, 2, 1)], 30_000))
        self._until(
            lambda: self.client.ask(
                "FindCoordinator", 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
            ),
            lambda found: found.coordinators[0].error_code,
            STARTING,
        )

    def close(self) -> None:
        self.client.close()

    def _until(self, ask: Callable[[], Any], code: Callable[[Any], int], passing: set[ErrorCode]) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            response = ask()
            if code(response) not in passing or time.monotonic() > deadline:
                return response
            time.sleep(0.02)  # until the broker has done it, with a deadline

    def _id(self, producer_id: int) -> str:
        return "none" if producer_id == -1 else self._ids.setdefault(producer_id, f"id{len(self._ids)}")

    def _tell(self, what: str, code: int, *more: Any) -> None:
        self.told.append((what, ErrorCode(code).name, *more))

    def init(self, identity: Identity = UNKNOWN, timeout_ms: int = TIMEOUT_MS, version: int = 5) -> Identity:
        def ask() -> Any:
            return self.client.ask("InitProducerId", version, InitProducerIdRequest(self.name, timeout_ms, *identity))

        response = self._until(ask, lambda answer: answer.error_code, STARTING)
        if response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self._tell("init", response.error_code)
            response = self._until(ask, lambda answer: answer.error_code, {ErrorCode.CONCURRENT_TRANSACTIONS})
        self._tell("init", response.error_code, self._id(response.producer_id), response.producer_epoch)
        return Identity(response.producer_id, response.producer_epoch)

    def add(self, identity: Identity, *indexes: int, version: int = 3) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(self.topic, indexes)],
        )
        rows = self._until(
            lambda: (
                self.client.ask("AddPartitionsToTxn", version, request)
                .results_by_topic_v3_and_below[0]
                .results_by_partition
            ),
            lambda rows: rows[0].partition_error_code,
            {ErrorCode.CONCURRENT_TRANSACTIONS},
        )
        for row in sorted(rows):
            self._tell(f"add {row.partition_index}", row.partition_error_code)

    def write(self, identity: Identity, sequence: int = 0, index: int = 0, version: int = 12) -> None:
        batch = build_batch(
            [NewRecord(int(time.time() * 1000), None, b"v")],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = [TopicProduceData(self.topic, partition_data=[PartitionProduceData(index, memoryview(batch))])]
        row = self._until(
            lambda: (
                self.client.ask("Produce", version, ProduceRequest(self.name, -1, 10_000, data))
                .responses[0]
                .partition_responses[0]
            ),
            lambda row: row.error_code,
            {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER},
        )
        self._tell(f"write {index}", row.error_code)

    def end(self, identity: Identity, *, commit: bool, version: int = V2) -> Identity:
        response = self._until(
            lambda: self.client.ask("EndTxn", version, EndTxnRequest(self.name, *identity, commit)),
            lambda answer: answer.error_code,
            {ErrorCode.CONCURRENT_TRANSACTIONS},
        )
        self._tell("end", response.error_code, self._id(response.producer_id), response.producer_epoch)
        self.await_complete()
        return Identity(response.producer_id, response.producer_epoch)

    def describe(self) -> Any:
        request = DescribeTransactionsRequest([self.name])
        return self.client.ask("DescribeTransactions", 0, request).transaction_states[0]

    def await_complete(self) -> None:
        row = self._until(self.describe, lambda row: row.transaction_state.startswith("Prepare"), {True})  # type: ignore[arg-type]
        topics = [(topic.topic == self.topic, sorted(topic.partitions)) for topic in row.topics]
        self._tell(
            "state", row.error_code, row.transaction_state, self._id(row.producer_id), row.producer_epoch, topics
        )

    def await_aborted(self) -> None:
        """When its time is over."""
        self._until(self.describe, lambda row: row.transaction_state != "CompleteAbort", {True})  # type: ignore[arg-type]
        self.await_complete()

    # What was written

    def records(self) -> list[Any]:
        """All that is in the log about this id, without times."""
        found = []
        for record in self._fetch("__transaction_state", spread(self.name, self._partition_count())):
            decoded = decode_coordinator_record(TRANSACTION_RECORDS, record.key, record.value)
            if decoded.key.transactional_id == self.name:
                found.append((decoded.version, self._without_times(decoded.value)))
        return found

    def _partition_count(self) -> int:
        request = MetadataRequest([MetadataRequestTopic(name="__transaction_state")], allow_auto_topic_creation=False)
        return len(self.client.ask("Metadata", 12, request).topics[0].partitions)

    def _without_times(self, value: Any) -> Any:
        if value is None:
            return None
        fields = value._asdict()
        fields["started"] = fields.pop("transaction_start_timestamp_ms") > 0
        del fields["transaction_last_update_timestamp_ms"]
        for name in ("producer_id", "previous_producer_id", "next_producer_id"):
            fields[name] = self._id(fields[name])
        partitions = fields["transaction_partitions"]
        if partitions is not None:
            fields["transaction_partitions"] = [
                (row.topic == self.topic, sorted(row.partition_ids)) for row in partitions
            ]
        return fields

    def batches(self, index: int = 0) -> list[Any]:
        """The batches of a partition, markers among them."""
        return [
            (header.base_offset, header.is_control, self._id(header.producer_id), header.producer_epoch)
            for header in self._headers(self.topic, index)
        ]

    def _data(self, topic: str, index: int) -> bytes:
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(topic, partitions=[partition])]
        )
        row = self._until(
            lambda: self.client.ask("Fetch", 12, request).responses[0].partitions[0],
            lambda row: row.error_code,
            {ErrorCode.NOT_LEADER_OR_FOLLOWER},  # Apache Kafka leads a partition a moment after it is made
        )
        assert row.error_code == 0, ErrorCode(row.error_code)
        return bytes(row.records or b"")

    def _fetch(self, topic: str, index: int) -> list[Any]:
        data = self._data(topic, index)
        return [
            record
            for position, header in iter_batches(data)
            if not header.is_control
            for record in read_records(data, position)
        ]

    def _headers(self, topic: str, index: int) -> list[Any]:
        return [header for _, header in iter_batches(self._data(topic, index))]


# Stories


def commits_and_aborts(teller: Teller) -> None:
    me = teller.init()
    teller.write(me)
    teller.write(me, sequence=1)
    teller.write(me, index=1)
    me = teller.end(me, commit=True)
    teller.write(me)
    me = teller.end(me, commit=False)
    me = teller.end(me, commit=False)  # of nothing
    teller.end(me, commit=True)  # of nothing


def retries(teller: Teller) -> None:
    me = teller.init()
    teller.write(me)
    ended = teller.end(me, commit=True)
    teller.end(me, commit=True)
    teller.end(me, commit=False)
    teller.write(ended)
    teller.end(me, commit=True)
    teller.end(ended, commit=False)
    teller.end(ended, commit=False)
    teller.end(ended, commit=True)


def zombies(teller: Teller) -> None:
    zombie = teller.init()
    teller.write(zombie)
    me = teller.init()
    teller.write(zombie, sequence=1)
    teller.end(zombie, commit=True)
    teller.add(zombie, 0)
    teller.write(me)
    teller.end(me, commit=True)
    teller.init(zombie)
    teller.init(Identity(123_456_789, 3))


def recoveries(teller: Teller) -> None:
    me = teller.init()
    again = teller.init(me)
    teller.init(me)
    teller.init(again)
    teller.init(again, timeout_ms=0)
    teller.init(again, timeout_ms=1_000_000_000)


def older_clients(teller: Teller) -> None:
    me = teller.init(version=1)
    teller.write(me, version=9)
    teller.add(me, 0, 1)
    teller.add(me, 0)
    teller.write(me, version=9)
    teller.end(me, commit=True, version=V1)
    teller.end(me, commit=True, version=V1)
    teller.end(me, commit=False, version=V1)
    teller.add(me, 1, version=1)
    teller.write(me, sequence=1, version=9)
    teller.write(me, index=1, version=9)
    teller.end(me, commit=False, version=V1)
    teller.end(Identity(me.producer_id, me.epoch + 1), commit=False, version=1)
    teller.add(Identity(me.producer_id, me.epoch + 1), 0, version=1)
    teller.add(me, 0, 7)


def time_outs(teller: Teller) -> None:
    me = teller.init(timeout_ms=200)
    teller.write(me)
    teller.await_aborted()
    teller.write(me, sequence=1)
    teller.end(me, commit=True)
    me = teller.end(me, commit=False)
    teller.write(me)
    teller.await_aborted()
    teller.init(me)


def time_outs_of_older_clients(teller: Teller) -> None:
    me = teller.init(timeout_ms=200, version=3)
    teller.add(me, 0)
    teller.write(me, version=9)
    teller.await_aborted()
    teller.add(me, 0)
    teller.end(me, commit=True, version=V1)
    teller.end(me, commit=False, version=V1)
    me = teller.init(me, timeout_ms=60_000, version=3)
    teller.add(me, 1)
    teller.write(me, index=1, version=9)
    teller.end(me, commit=True, version=V1)


def zombies_of_older_clients(teller: Teller) -> None:
    zombie = teller.init(version=3)
    teller.add(zombie, 0)
    teller.write(zombie, version=9)
    me = teller.init(version=3)
    teller.init(zombie, version=3)
    teller.add(me, 0)
    teller.write(me, version=9)
    teller.end(zombie, commit=False, version=V1)
    again = teller.init(me, version=3)
    teller.end(me, commit=True, version=V1)
    teller.init(me, version=3)
    teller.end(again, commit=True, version=V1)


def nobody(teller: Teller) -> None:
    teller.end(Identity(77, 0), commit=True)
    teller.end(Identity(77, 0), commit=True, version=V1)
    teller.add(Identity(77, 0), 0)
    teller.write(Identity(77, 0))
    teller.write(Identity(77, 0), version=11)
    teller.write(Identity(77, 0), version=9)


@pytest.mark.parametrize(
    "story",
    [
        commits_and_aborts,
        retries,
        zombies,
        recoveries,
        older_clients,
        time_outs,
        time_outs_of_older_clients,
        zombies_of_older_clients,
        nobody,
    ],
)
def test_every_answer_and_every_record_is_that_of_apache_kafka(
    story: Callable[[Teller], None], headrace_bootstrap: str, kafka_bootstrap: str
) -> None:
    with closing(Teller(headrace_bootstrap)) as ours, closing(Teller(kafka_bootstrap)) as theirs:
        for teller in (ours, theirs):
            story(teller)
        assert ours.told == theirs.told
        assert ours.records() == theirs.records()
        assert [ours.batches(index) for index in (0, 1)] == [theirs.batches(index) for index in (0, 1)]


def listed(teller: Teller, prefix: str, pattern: str | None) -> tuple[ErrorCode, list[str], list[tuple[str, str]]]:
    """What the broker says, of the ids with this prefix."""
    request = ListTransactionsRequest(["Empty", "Lazy"], transactional_id_pattern=pattern)
    response = teller.client.ask("ListTransactions", 2, request)
    rows = [(row.transactional_id.removeprefix(prefix), row.transaction_state) for row in response.transaction_states]
    return ErrorCode(response.error_code), list(response.unknown_state_filters), sorted(rows)


def test_ids_are_listed_by_patterns_as_apache_kafka_lists_them(headrace_bootstrap: str, kafka_bootstrap: str) -> None:
    prefix = f"tx-{uuid.uuid4().hex[:8]}-"
    patterns = [
        "a",
        ".*",
        "(?i)STRASSE",
        "(?i)straße",
        "[^\\pL]+",
        "a.b",
        "(?s)a.b",
        "a|b",
        "é?",
        "",
        r"\d{2,}",
        "x*y?z{0}",
    ]
    with closing(Teller(headrace_bootstrap)) as ours, closing(Teller(kafka_bootstrap)) as theirs:
        for teller in (ours, theirs):
            for name in ("a", "b", "Straße", "123", "a\nb", "é", ""):
                teller.name = prefix + name
                teller.init()
        for pattern in [f"{prefix}({each})" for each in patterns]:
            assert listed(ours, prefix, pattern) == listed(theirs, prefix, pattern), pattern
        for pattern in ("(", "a**", r"\Z", "[z-a]", "(?=a)"):
            assert listed(ours, prefix, pattern) == listed(theirs, prefix, pattern), pattern
        for nothing in (None, ""):
            code, unknown, rows = listed(ours, prefix, nothing)
            theirs_said = listed(theirs, prefix, nothing)
            assert (code, unknown) == theirs_said[:2]
            assert {("a", "Empty"), ("123", "Empty")} <= set(rows) & set(theirs_said[2])
