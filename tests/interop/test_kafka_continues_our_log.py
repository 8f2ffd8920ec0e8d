"""The strongest judgement: Apache Kafka starts on a data directory that we have worked in, and serves all of it."""

import time
from pathlib import Path
from typing import Final

import pytest

from headrace.log.checkpoints import TopicPartition
from headrace.log.config import UNLIMITED, LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.errors import LockedError
from headrace.log.log import Log
from headrace.protocol.compression import Codec
from headrace.protocol.records import NewRecord, Record, build_batch
from tests.support.kafka import ApacheKafka, copy_data
from tests.support.kafka_run import KafkaRun, Witnessed, witness
from tests.support.kafka_tools import KafkaToolError, KafkaTools
from tests.support.log_reading import committed_records, uncommitted_records
from tests.support.our_logs import FS, Writer, run_chores, text_record

pytestmark = pytest.mark.kafka

TOPICS: Final = ("plain", "gzip", "snappy", "lz4", "zstd", "ledger", "sized", "compacted")
# Small segments, so that Kafka finds some that are ours from the first byte on.
CONFIG: Final = LogConfig(segment_bytes=40_000, index_interval_bytes=1_000, producer_id_expiration_ms=UNLIMITED)
COMPACTED: Final = LogConfig(producer_id_expiration_ms=UNLIMITED, cleanup_policy=frozenset({"compact"}))
NOW_MS: Final = time.time_ns() // 1_000_000  # a broker forgets producers whose last record is a day old by its clock
DATA_PRODUCER: Final = 900_001
COMMITTING_PRODUCER: Final = 900_002
ABORTING_PRODUCER: Final = 900_003


def config_of(partition: TopicPartition) -> LogConfig:
    return COMPACTED if partition.topic.startswith(("compacted", "__")) else CONFIG


def open_directory(data: Path) -> tuple[LogDirectory, dict[str, Log]]:
    """The directory, and the logs that the tests work with."""
    directory = LogDirectory.open(FS, str(data), config_of, now_ms=NOW_MS)
    logs = {}
    for topic in TOPICS:
        log = directory.get(TopicPartition(topic, 0), now_ms=NOW_MS)
        assert log is not None
        log.raise_high_watermark(log.log_end_offset)
        logs[topic] = log
    return directory, logs


def write(log: Log, topic: str) -> None:
    """Plain and compressed batches, a committed and an aborted transaction, enough to roll several segments."""
    epoch = log.epochs.latest_epoch
    assert epoch is not None
    codec = Codec[topic.upper()] if topic.upper() in Codec.__members__ else Codec.NONE
    writer = Writer(log, leader_epoch=epoch, clock_ms=NOW_MS)
    for number in range(60):
        records = [text_record(number * 20 + part, at_ms=NOW_MS) for part in range(20)]
        writer.append(*records, codec=codec, producer_id=DATA_PRODUCER)
    for number in range(3):
        writer.append(text_record(number, at_ms=NOW_MS), producer_id=COMMITTING_PRODUCER, transactional=True)
        writer.append(text_record(number, at_ms=NOW_MS), producer_id=ABORTING_PRODUCER, transactional=True)
    writer.end_transaction(ABORTING_PRODUCER, commit=False)
    writer.end_transaction(COMMITTING_PRODUCER, commit=True)
    writer.append(NewRecord(NOW_MS, b"last", b"of ours", (("header", b"value"),)))


def close(directory: LogDirectory, logs: dict[str, Log]) -> None:
    """Stop as a broker of ours does."""
    for log in logs.values():
        run_chores(log)
    directory.close(broker_epoch=directory.broker_epoch or 0)


def crash(source: Path, target: Path, logs: dict[str, Log]) -> None:
    """What a power cut leaves in `target`: nothing was closed, and the last batch of each log is only half there."""
    copy_data(source, target)
    for topic, log in logs.items():
        segment = max((target / f"{topic}-0").glob("*.log"))
        torn = build_batch([NewRecord(NOW_MS, b"torn", b"x" * 500)], base_offset=log.log_end_offset)
        with segment.open("ab") as file:
            file.write(torn[:300])


@pytest.mark.parametrize("ending", ["closed", "crashed"])
def test_kafka_serves_what_we_wrote_and_we_serve_what_kafka_then_left(
    kafka_run: KafkaRun, kafka_tools: KafkaTools, tmp_path: Path, ending: str
) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", kafka_tools)
    data = kafka.data if ending == "closed" else tmp_path / "before the crash"
    directory, logs = open_directory(copy_data(kafka_run.clean, data))
    for topic, log in logs.items():
        write(log, topic)
    uncommitted = {topic: uncommitted_records(log) for topic, log in logs.items()}
    committed = {topic: committed_records(log) for topic, log in logs.items()}
    if ending == "closed":
        close(directory, logs)
    else:
        crash(data, kafka.data, logs)

    with kafka:
        said = witness(kafka_tools, kafka)
        with pytest.raises(LockedError):
            open_directory(kafka.data)
    assert bool(recoveries(kafka.log_text())) == (ending == "crashed")
    assert "stray" not in " ".join(path.name for path in kafka.data.iterdir())
    check_what_kafka_said(said, uncommitted, committed)

    _, logs = open_directory(kafka.data)
    for topic, log in logs.items():
        assert view(topic, uncommitted_records(log)) == view(topic, uncommitted[topic])
        assert view(topic, committed_records(log)) == view(topic, committed[topic])


def check_what_kafka_said(
    said: Witnessed, uncommitted: dict[str, list[Record]], committed: dict[str, list[Record]]
) -> None:
    for topic in TOPICS:
        records = said.records(topic, 0, isolation="read_uncommitted")
        assert view(topic, records) == view(topic, uncommitted[topic])
        records = said.records(topic, 0, isolation="read_committed")
        assert view(topic, records) == view(topic, committed[topic])
        producers = said.producers(topic, 0)
        assert producers[ABORTING_PRODUCER].transaction_start_offset == -1
        assert producers[DATA_PRODUCER].last_sequence == 60 * 20 - 1


def view(topic: str, records: list[Record]) -> object:
    """All records; of the compacted topic the newest of each key, since Kafka's cleaner may have been at work."""
    if topic != "compacted":
        return records
    newest = {record.key: record for record in records}
    return {key: record for key, record in newest.items() if record.value is not None}


def recoveries(log_text: str) -> list[str]:
    """What the broker said about data that it did not take as it was. Its own metadata log it always recovers."""
    loading = [line for line in log_text.splitlines() if "[LogLoader partition=" in line]
    words = ("Recovering unflushed", "WARN", "ERROR", "orrupt")
    return [line for line in loading if "=__cluster_metadata" not in line and any(word in line for word in words)]


def test_kafka_does_not_start_where_we_work(kafka_run: KafkaRun, kafka_tools: KafkaTools, tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path, kafka_tools)
    open_directory(copy_data(kafka_run.clean, kafka.data))
    with pytest.raises(KafkaToolError, match="Failed to acquire lock"), kafka:
        pass
