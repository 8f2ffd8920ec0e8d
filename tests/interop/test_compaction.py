"""Our cleaner beside Kafka's: its tool reads what ours leaves, and on the same log both leave the same batches."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.log.checkpoints import CLEANER_OFFSETS, RECOVERY_POINTS, TopicPartition, format_offsets, read_offsets
from headrace.log.cleaner import Cleaner
from headrace.log.config import LogConfig
from headrace.log.inspect import read_file
from headrace.log.inspect.rows import Row
from headrace.log.log import Log
from headrace.log.open_files import OpenFiles
from headrace.protocol.batch import DELETE_HORIZON_FLAG
from headrace.protocol.compression import Codec
from headrace.protocol.records import NewRecord, Record, read_records
from tests.support.kafka import ApacheKafka, copy_data
from tests.support.kafka_run import KafkaRun
from tests.support.kafka_tools import KafkaTools, complaints, gaps
from tests.support.log_reading import read_batches, uncommitted_records
from tests.support.our_logs import FS, Writer, run_chores

pytestmark = pytest.mark.kafka

PLACE: Final = TopicPartition("compacted", 0)
SETTINGS: Final = {"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.01}
SMALL: Final = LogConfig(segment_bytes=4_000, index_interval_bytes=300, **SETTINGS)  # type: ignore[arg-type]
# What the topic of Kafka has, so that both cleaners put segments together in the same way.
LARGE: Final = LogConfig(**SETTINGS)  # type: ignore[arg-type]
NOW_MS: Final = time.time_ns() // 1_000_000  # Kafka's cleaner asks its clock who is still alive
CLEANED_SECONDS: Final = 120  # so long the machine may be busy; what needs it is broken


def open_log(directory: Path, config: LogConfig = SMALL) -> Log:
    log = Log.open(FS, str(directory), config, clean=True, now_ms=NOW_MS)
    log.raise_high_watermark(log.log_end_offset)
    log.expire_producers(
        NOW_MS
    )  # Kafka does it on loading; nobody keeps the last batch of a producer that was forgotten
    return log


def write_dirt(log: Log) -> None:
    """Keys overwritten many times in batches of all codecs, tombstones, transactions, and producers that left."""
    epoch = log.epochs.latest_epoch
    writer = Writer(log, leader_epoch=epoch or 0, clock_ms=NOW_MS)
    for round_number in range(12):
        codec = list(Codec)[round_number % len(Codec)]
        # The newest times are in the middle, in batches that will be emptied.
        at_ms = NOW_MS + (2_400_000 if round_number == 5 else round_number)
        for first in range(0, 30, 3):
            records = [keyed(number, round_number, at_ms) for number in range(first, first + 3)]
            writer.append(*records, codec=codec, producer_id=5_000 + round_number)
        writer.append(NewRecord(NOW_MS, b"gone %d" % (round_number % 4), None))
        writer.append(keyed(100 + round_number, 0), producer_id=6_000, transactional=True)
        writer.append(keyed(7, round_number), producer_id=6_001, transactional=True)
        writer.end_transaction(6_000, commit=round_number % 2 == 0)
        writer.end_transaction(6_001, commit=False)


def keyed(number: int, round_number: int, at_ms: int = NOW_MS) -> NewRecord:
    value = b"round %d of key %d, with words enough to fill a segment" % (round_number, number)
    return NewRecord(at_ms, b"key %d" % number, None if number % 10 == 9 and round_number > 9 else value)


def clean(log: Log, cleaned_to: int | None) -> int:
    """Run our cleaner until nothing is due; the end of what it has cleaned."""
    cleaner = Cleaner(FS, OpenFiles(100), {} if cleaned_to is None else {PLACE: cleaned_to})
    while (plan := cleaner.plan(PLACE, log, now_ms=NOW_MS)) is not None:
        outcome = plan.run(lambda seconds: None)
        assert outcome.failure is None
        assert cleaner.finish(log, plan, outcome)
        run_chores(log)
    return cleaner.cleaned_to[PLACE]


def test_kafka_reads_what_our_cleaner_leaves(tmp_path: Path, kafka_tools: KafkaTools) -> None:
    directory = tmp_path / "compacted-0"
    log = open_log(directory)
    write_dirt(log)
    before = uncommitted_records(log)
    clean(log, None)
    left = uncommitted_records(log)
    log.close()
    assert len(left) < len(before) / 4
    files = [path for path in sorted(directory.glob("0*")) if path.suffix != ".deleted"]
    dump = kafka_tools.dump_log(files, "--deep-iteration", "--print-data-log")
    assert faults_in(dump) == []
    assert gaps(dump), "compaction leaves gaps, or nothing was compacted"
    printed = [
        (int(offset), key, value or None)
        for offset, key, value in re.findall(r"^\| offset: (\d+) .* key: (.*?)(?: payload: (.*))?$", dump, re.MULTILINE)
    ]
    assert printed == [(offset, text(key), text(value)) for offset, _, key, value, _ in left]


def faults_in(dump: str) -> list[str]:
    """Complaints about a compacted log without two that are none: gaps, and batches that were emptied.

    An emptied batch keeps its largest timestamp, and a time index may point to it; the tool looks for a record that
    has it. It says the same about what Kafka's cleaner leaves, which a test below shows.
    """
    dump = re.sub(r"Found timestamp mismatch in .*\n(  Index timestamp: \d+, log timestamp: -1\n)+", "", dump)
    return [line for line in complaints(dump) if not line.startswith("Non-consecutive")]


def text(content: bytes | None) -> str | None:
    return None if content is None else content.decode()


def test_both_cleaners_leave_the_same_batches(kafka_run: KafkaRun, kafka_tools: KafkaTools, tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", kafka_tools)
    data = copy_data(kafka_run.clean, kafka.data)
    log = open_log(data / str(PLACE))
    write_dirt(log)
    last_segment = log.segments.active.base_offset
    log.close()
    recovery_points = read_offsets(FS, str(data / RECOVERY_POINTS)) | {PLACE: log.log_end_offset}
    (data / RECOVERY_POINTS).write_text(format_offsets(recovery_points))
    ours = tmp_path / "ours" / str(PLACE)
    shutil.copytree(data / str(PLACE), ours)

    with kafka:
        await_cleaned(data, last_segment)
    theirs = open_log(data / str(PLACE), LARGE)
    log = open_log(ours, LARGE)
    assert clean(log, read_offsets(FS, str(kafka_run.clean / CLEANER_OFFSETS))[PLACE]) == last_segment
    assert list(described(log)) == list(described(theirs))
    log.close()
    assert last_time_entry(ours) == last_time_entry(data / str(PLACE))
    time_index = data / str(PLACE) / "00000000000000000000.timeindex"
    dump = kafka_tools.dump_log([time_index])
    assert "log timestamp: -1" in dump, "Kafka's own index should point to an emptied batch"
    assert faults_in(dump) == []


def last_time_entry(directory: Path) -> Row:
    return list(read_file(FS, str(directory / "00000000000000000000.timeindex")))[-1]


def await_cleaned(data: Path, offset: int) -> None:
    deadline = time.monotonic() + CLEANED_SECONDS
    while read_offsets(FS, str(data / CLEANER_OFFSETS)).get(PLACE, 0) < offset:
        assert time.monotonic() < deadline, "Kafka's cleaner has not been there"
        time.sleep(0.05)  # the condition is polled, with a deadline


def described(log: Log) -> Iterator[tuple[dict[str, Any], list[Record]]]:
    """Each batch without what depends on the compressor or the clock, and its records."""
    for header, data in read_batches(log):
        fields = header._asdict()
        has_horizon = bool(header.attributes & DELETE_HORIZON_FLAG)
        for field in ("crc", "batch_length", *(["base_timestamp"] if has_horizon else [])):
            del fields[field]
        yield fields, list(read_records(data))
