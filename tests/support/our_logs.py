"""Logs of ours for Kafka to judge: every kind of file, written through Log as a broker would."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.log.append import Origin
from headrace.log.config import LogConfig
from headrace.log.fs import RealFileSystem
from headrace.log.log import Log
from headrace.protocol.compression import Codec
from headrace.protocol.records import NewRecord, Record, build_batch, build_end_transaction_marker

FS: Final = RealFileSystem()
NOW_MS: Final = 1_700_000_000_000
TOPIC_ID: Final = bytes(range(16, 32))
# Small segments and dense indexes: much to judge in few bytes.
SMALL: Final = LogConfig(segment_bytes=6_000, index_interval_bytes=400)


@contextmanager
def open_log(
    directory: Path,
    config: LogConfig = SMALL,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Iterator[Log]:
    """A log that is closed in order when the block ends in order."""
    log = Log.open(
        FS,
        str(directory),
        config,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean=clean,
        topic_id=TOPIC_ID,
        now_ms=NOW_MS,
    )
    yield log
    run_chores(log)
    log.close()


def run_chores(log: Log) -> None:
    for chore in log.take_chores():
        chore.run()


@dataclass
class Writer:
    """Appends to a log as producers and a transaction coordinator do, and remembers what was acknowledged."""

    log: Log
    leader_epoch: int = 0
    acknowledged: list[Record] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    clock_ms: int = NOW_MS

    def append(
        self,
        *records: NewRecord,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        producer_epoch: int = 0,
        transactional: bool = False,
    ) -> int:
        """Append one batch; its base offset."""
        has_producer = producer_id != -1
        sequence = self.sequences.get(producer_id, 0) if has_producer else -1
        batch = build_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch if has_producer else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        result = self.log.append(batch, leader_epoch=self.leader_epoch, now_ms=self.clock_ms)
        self.log.raise_high_watermark(self.log.log_end_offset)
        if has_producer:
            self.sequences[producer_id] = sequence + len(records)
        base_offset = int(result.base_offset)
        self.acknowledged += [Record(base_offset + delta, *record) for delta, record in enumerate(records)]
        return base_offset

    def end_transaction(
        self, producer_id: int, *, commit: bool, producer_epoch: int = 0, coordinator_epoch: int = 5
    ) -> int:
        """Append a marker; its offset."""
        marker = build_end_transaction_marker(
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp=self.clock_ms,
        )
        result = self.log.append(
            marker, leader_epoch=self.leader_epoch, now_ms=self.clock_ms, origin=Origin.COORDINATOR
        )
        self.log.raise_high_watermark(self.log.log_end_offset)
        return int(result.base_offset)


def text_record(number: int, *, at_ms: int | None = None) -> NewRecord:
    timestamp = NOW_MS + number * 10 if at_ms is None else at_ms
    return NewRecord(timestamp, b"key %d" % number, b"value %d, and some words to compress" % number)


def write_plain(directory: Path) -> list[Record]:
    """Several segments: batches of 1 to 3 records, nulls and headers, times out of order, two leader epochs."""
    with open_log(directory) as log:
        writer = Writer(log)
        for number in range(150):
            if number == 100:
                writer.leader_epoch = 3
            records = [
                text_record(number, at_ms=NOW_MS + (number * 7919) % 1000 + part) for part in range(number % 3 + 1)
            ]
            if number % 10 == 0:
                records.append(NewRecord(NOW_MS, None, None, (("trace", b"a-1"), ("größe", None), ("empty", b""))))
            writer.append(*records, producer_id=41 if number % 2 else -1)
        return writer.acknowledged


def write_compressed(directory: Path, codec: Codec) -> list[Record]:
    with open_log(directory) as log:
        writer = Writer(log)
        for number in range(40):
            writer.append(*(text_record(number * 10 + part) for part in range(10)), codec=codec)
        return writer.acknowledged


def write_transactions(directory: Path) -> list[Record]:
    """Committed, aborted and interleaved transactions over several segments; one stays open."""
    with open_log(directory) as log:
        writer = Writer(log)
        for round_number in range(12):
            first, second = 1000 + round_number % 2, 2000
            number = round_number * 10
            writer.append(text_record(number), text_record(number + 1), producer_id=first, transactional=True)
            writer.append(text_record(number + 2), producer_id=second, transactional=True)
            writer.append(text_record(number + 3))
            writer.append(text_record(number + 4), producer_id=first, transactional=True)
            writer.end_transaction(second, commit=round_number % 3 == 0)
            writer.append(text_record(number + 5))
            writer.end_transaction(first, commit=round_number % 2 == 0)
        writer.append(text_record(900), producer_id=3000, transactional=True)
        writer.append(text_record(901))
        return writer.acknowledged
