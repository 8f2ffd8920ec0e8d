"""The strongest judgement: Apache Kafka starts on a directory that we have written to, and serves all of it."""

import time
from pathlib import Path
from typing import Final

import pytest

from headrace.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, TopicPartition, read_offsets, write_offsets
from headrace.log.config import UNLIMITED, LogConfig
from headrace.log.log import Log
from headrace.protocol.compression import Codec
from headrace.protocol.records import NewRecord, Record, build_batch
from tests.support.kafka import ApacheKafka, copy_data
from tests.support.kafka_run import KafkaRun, witness
from tests.support.kafka_tools import KafkaTools
from tests.support.log_reading import committed_records, uncommitted_records
from tests.support.our_logs import FS, Writer, run_chores, text_record

pytestmark = pytest.mark.kafka

TOPICS: Final = ("plain", "gzip", "snappy", "lz4", "zstd", "ledger", "sized", "compacted")
# Small segments, so that Kafka finds some that are ours from the first byte on.
CONFIG: Final = LogConfig(segment_bytes=40_000, index_interval_bytes=1_000, producer_id_expiration_ms=UNLIMITED)
NOW_MS: Final = time.time_ns() // 1_000_000  # a broker forgets producers whose last record is a day old by its clock
DATA_PRODUCER: Final = 900_001
COMMITTING_PRODUCER: Final = 900_002
ABORTING_PRODUCER: Final = 900_003


def open_log(data: Path, topic: str) -> Log:
    place = TopicPartition(topic, 0)
    recovery_point = read_offsets(FS, str(data / RECOVERY_POINTS)).get(place, 0)
    log = Log.open(FS, str(data / str(place)), CONFIG, recovery_point=recovery_point, clean=True, now_ms=NOW_MS)
    log.raise_high_watermark(log.log_end_offset)
    return log


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
    writer.append(NewRecord(NOW_MS, b"last", None, (("header", b"value"),)))


def close(data: Path, logs: dict[str, Log]) -> None:
    """Stop as a broker of ours would: close every log, and write down how far each is safe."""
    recovery_points = read_offsets(FS, str(data / RECOVERY_POINTS))
    for topic, log in logs.items():
        run_chores(log)
        log.close()
        recovery_points[TopicPartition(topic, 0)] = log.log_end_offset
    write_offsets(FS, str(data / RECOVERY_POINTS), recovery_points)


def crash(data: Path, logs: dict[str, Log]) -> None:
    """Stop as a power cut would: nothing is closed, and the last batch of each log is only half there."""
    (data / CLEAN_SHUTDOWN).unlink()
    for topic, log in logs.items():
        segment = max((data / f"{topic}-0").glob("*.log"))
        torn = build_batch([NewRecord(NOW_MS, b"torn", b"x" * 500)], base_offset=log.log_end_offset)
        with segment.open("ab") as file:
            file.write(torn[:300])


@pytest.mark.parametrize("ending", ["closed", "crashed"])
def test_kafka_serves_what_we_wrote_and_we_serve_what_kafka_then_left(
    kafka_run: KafkaRun, kafka_tools: KafkaTools, tmp_path: Path, ending: str
) -> None:
    kafka = ApacheKafka(tmp_path, kafka_tools)
    data = copy_data(kafka_run.clean, kafka.data)
    logs = {topic: open_log(data, topic) for topic in TOPICS}
    for topic, log in logs.items():
        write(log, topic)
    uncommitted = {topic: uncommitted_records(log) for topic, log in logs.items()}
    committed = {topic: committed_records(log) for topic, log in logs.items()}
    if ending == "closed":
        close(data, logs)
    else:
        crash(data, logs)

    with kafka:
        said = witness(kafka_tools, kafka)
    for topic in TOPICS:
        # Kafka's cleaner may have been at work before the consumers were: then the newest value of each key counts.
        view = newest if topic == "compacted" else as_it_is
        assert view(said.records(topic, 0, isolation="read_uncommitted")) == view(uncommitted[topic])
        assert view(said.records(topic, 0, isolation="read_committed")) == view(committed[topic])
        producers = said.producers(topic, 0)
        assert producers[ABORTING_PRODUCER].transaction_start_offset == -1
        assert producers[DATA_PRODUCER].last_sequence == 60 * 20 - 1
    assert bool(recoveries(kafka.log_text())) == (ending == "crashed")

    for topic in TOPICS:
        view = newest if topic == "compacted" else as_it_is
        log = open_log(data, topic)
        assert view(uncommitted_records(log)) == view(uncommitted[topic])
        assert view(committed_records(log)) == view(committed[topic])
        log.close()


def as_it_is(records: list[Record]) -> object:
    return records


def newest(records: list[Record]) -> object:
    """The newest record of each key that has a value: compaction may drop the others, and sooner or later does."""
    return {record.key: record for record in {record.key: record for record in records}.values() if record.value}


def recoveries(log_text: str) -> list[str]:
    """What the broker said about data that it did not take as it was. Its own metadata log it always recovers."""
    loading = [line for line in log_text.splitlines() if "[LogLoader partition=" in line]
    words = ("Recovering unflushed", "WARN", "ERROR", "orrupt")
    return [line for line in loading if "=__cluster_metadata" not in line and any(word in line for word in words)]
