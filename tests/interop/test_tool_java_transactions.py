"""Apache Kafka's TransactionsCommand and log dump say the same of transactions in Headrace as in Apache Kafka."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

import headrace
from tests.support.both_brokers import eventually
from tests.support.clients_confluent import SECONDS, assigned, sender
from tests.support.clients_java import BOOTSTRAP, Both
from tests.support.hanging import write_hanging
from tests.support.kafka_tools import complaints

pytestmark = pytest.mark.kafka

TRANSACTIONS = ("TransactionsCommand", *BOOTSTRAP)
# The widths of columns, producer ids, times and durations.
SCRUB = {
    r"[ \t]+": " ",
    r"(?m)^(\d+ \S+) \d+(?= \d+ (Ongoing|Complete))": r"\1 ID",
    r"(?m)^\d+(?= \d+ -?\d+ -?\d+ \d{13})": "ID",
    r"(?m)^(topic\S+ \d+) \d+(?= \d+ -?\d+ \d+ \d{13})": r"\1 ID",
    r"(?<= )\d{13} \d+(?= topic)": "SINCE FOR",
    r"(?<= )\d{13}(?= )": "TIME",
}


@contextmanager
def open_transactions(both: Both, topic: str) -> Iterator[list[Producer]]:
    """One in each broker, with a record in each partition."""
    producers = []
    for address in (both.ours.bootstrap, both.kafka.address):
        producer = Producer({"bootstrap.servers": address, "transactional.id": topic, "log_level": 0})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, b"value", partition=index)
        assert producer.flush(SECONDS) == 0
        producers.append(producer)
    yield producers


def said(both: Both, *arguments: str, code: int = 0) -> list[str]:
    printed = both.run(*TRANSACTIONS, *arguments, code=code, scrub=SCRUB)
    return [line.strip() for line in printed.splitlines()]


def row_of(both: Both, address: str, topic: str, *filters: str) -> list[list[str]]:
    """What the list says of one id: other tests have transactions, too."""
    printed = both.tools.run("TransactionsCommand", "--bootstrap-server", address, "list", *filters)
    return [line.split() for line in printed.splitlines() if line.startswith(topic)]


def is_in_state(both: Both, address: str, topic: str, state: str) -> bool:
    return [row[-1] for row in row_of(both, address, topic)] == [state]


def test_transactions_are_listed_described_and_aborted(both: Both, made: str) -> None:
    with open_transactions(both, made) as producers:
        for address in (both.ours.bootstrap, both.kafka.address):
            ((_, coordinator, _, state),) = row_of(both, address, made)
            assert (coordinator, state) == ("1", "Ongoing")
            assert row_of(both, address, made, "--duration-filter", "3600000") == []
        (header, row) = said(both, "describe", "--transactional-id", made)
        assert header.split()[:4] == ["CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch"]
        assert all(f"{made}-{index}" in row for index in range(3))
        place = ("--topic", made, "--partition", "1")
        (_, active) = said(both, "describe-producers", *place)
        assert active.endswith(" 0")  # where the transaction starts
        assert said(both, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "15")[1:] == []
        assert said(both, "abort", *place, "--start-offset", "0") == []
        (_, active) = said(both, "describe-producers", *place)
        assert active.endswith(" None")
        for producer in producers:
            producer.abort_transaction(SECONDS)
    for address in (both.ours.bootstrap, both.kafka.address):
        # Apache Kafka writes the markers after its answer.
        eventually(partial(is_in_state, both, address, made, "CompleteAbort"))
    said(both, "describe", "--transactional-id", f"{made}-not", code=1)


def read_committed(address: str, topic: str) -> list[bytes | None]:
    """What is in the first partition now, for those who read what is committed."""
    place = TopicPartition(topic, 0, 0)
    found: list[bytes | None] = []
    with assigned(address, place, isolation_level="read_committed", enable_partition_eof=True) as consumer:
        while (message := consumer.poll(SECONDS)) is not None and message.error() is None:
            found.append(message.value())
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF
    return found


def test_a_transaction_that_hangs_is_found_and_aborted(both: Both, made: str) -> None:
    """An old client's producer wrote an hour ago, was never added to a transaction, and is gone."""
    addresses = (both.ours.bootstrap, both.kafka.address)
    an_hour_ago_ms = time.time_ns() // 1_000_000 - 3_600_000
    for address in addresses:
        producer = Producer({"bootstrap.servers": address, "transactional.id": made, "log_level": 0})
        producer.init_transactions(SECONDS)
        with headrace.Admin(address) as admin:
            known = admin.describe_transactions([made])[made]
        write_hanging(address, made, producer_id=known.producer_id, transactional_id=made, timestamp_ms=an_hour_ago_ms)
        plain = sender(address)
        plain.send(made, b"after it", partition=0)
        plain.flush()
        assert read_committed(address, made) == []
    hanging = ("find-hanging", "--topic", made, "--partition", "0")
    header, row = said(both, *hanging)
    assert header.split()[:3] == ["Topic", "Partition", "ProducerId"]
    assert row.split()[:2] == [made, "0"]
    assert said(both, "find-hanging", "--broker-id", "1")[1:] == [row]
    assert said(both, *hanging, "--max-transaction-timeout", "120")[1:] == []
    assert said(both, "abort", "--topic", made, "--partition", "0", "--start-offset", "0") == []
    assert said(both, *hanging)[1:] == []
    for address in addresses:
        assert read_committed(address, made) == [b"after it"]


def test_dump_log_segments_decodes_what_transactions_wrote(both: Both, made: str) -> None:
    with open_transactions(both, made) as producers:
        for producer in producers:
            producer.commit_transaction(SECONDS)
    files = [str(file) for file in sorted(both.ours.data.glob("__transaction_state-*/*.log")) if file.stat().st_size]
    dump = both.tools.run("DumpLogSegments", "--transaction-log-decoder", "--files", ",".join(files))
    assert complaints(dump) == []
    rows = [line for line in dump.splitlines() if f'"transactionalId":"{made}"' in line]
    # Empty, one for each partition that is added, PrepareCommit, CompleteCommit.
    assert len(rows) >= 4
    data = str(both.ours.data / f"{made}-0" / f"{0:020}.log")
    markers = both.tools.run("DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", data)
    assert complaints(markers) == []
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in markers
