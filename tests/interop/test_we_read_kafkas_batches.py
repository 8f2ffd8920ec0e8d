"""Every batch that a real Apache Kafka wrote is read, and built again, by our record code."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.batch import BatchHeader, verify
from headrace.protocol.compression import Codec
from headrace.protocol.records import (
    ControlType,
    Record,
    iter_batches,
    read_control_type,
    read_payload,
    read_records,
    rebuild_batch,
)
from tests.support.kafka_run import KafkaRun

pytestmark = pytest.mark.kafka


def batches_of(directory: Path) -> Iterator[tuple[BatchHeader, bytes]]:
    """Header and bytes of every batch in the segments and snapshots below `directory`."""
    for file in sorted([*directory.rglob("*.log"), *directory.rglob("*.checkpoint")]):
        data = file.read_bytes()
        end = 0
        for position, header in iter_batches(data):
            end = position + header.size_bytes
            yield header, data[position:end]
        assert end == len(data), file


def data_records(directory: Path) -> list[Record]:
    """The records of one partition without control records."""
    return [record for header, data in batches_of(directory) if not header.is_control for record in read_records(data)]


@pytest.mark.parametrize(
    "topic", ["plain", "append-time", "sized", "recompressed", "gzip", "snappy", "lz4", "zstd", "ledger"]
)
def test_records_are_read_as_they_were_acknowledged(kafka_run: KafkaRun, topic: str) -> None:
    partitions = [0, 1] if topic == "plain" else [0]
    for partition in partitions:
        acknowledged = kafka_run.acknowledged_records(topic, partition, rounds=2)
        assert acknowledged
        assert data_records(kafka_run.clean / f"{topic}-{partition}") == acknowledged
        acknowledged_before_kill = kafka_run.acknowledged_records(topic, partition, rounds=1)
        assert data_records(kafka_run.killed / f"{topic}-{partition}") == acknowledged_before_kill


def test_a_compacted_topic_holds_what_its_consumers_see(kafka_run: KafkaRun) -> None:
    consumed = kafka_run.before_stop.records("compacted", 0, isolation="read_uncommitted")
    assert len(consumed) < len(kafka_run.acknowledged_records("compacted", 0, rounds=2)) / 2, "the cleaner has not run"
    assert data_records(kafka_run.clean / "compacted-0") == consumed


def test_every_batch_has_a_right_crc_and_is_built_again_to_the_same_bytes(kafka_run: KafkaRun) -> None:
    codecs = set()
    for header, data in [*batches_of(kafka_run.clean), *batches_of(kafka_run.killed)]:
        verify(data)
        records = list(read_records(data))
        rebuilt = rebuild_batch(header, records)
        codecs.add(Codec(header.codec))
        if header.is_log_append_time:  # the times that the producer gave are covered by the broker's, and are lost here
            assert list(read_records(rebuilt)) == records
        elif header.codec == Codec.NONE:
            assert rebuilt == data
        else:  # compressors differ, so it is what they hold that must be the same
            rebuilt_header = verify(rebuilt)
            assert read_payload(rebuilt, 0, rebuilt_header) == read_payload(data, 0, header)
            assert rebuilt_header._replace(crc=0, batch_length=0) == header._replace(crc=0, batch_length=0)
    assert codecs == set(Codec)


def test_control_records_of_every_type_that_a_single_node_writes_are_found(kafka_run: KafkaRun) -> None:
    found = {
        read_control_type(record.key)
        for header, data in batches_of(kafka_run.clean)
        if header.is_control
        for record in read_records(data)
    }
    assert found == set(ControlType) - {ControlType.UNKNOWN}
