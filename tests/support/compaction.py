"""A log to compact, and what readers see of it: all records, and the committed ones as a Kafka client finds them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from headrace.log.append import AppendResult, Origin
from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner import Cleaner
from headrace.log.cleaner_run import CleanerLimits, CleaningOutcome, CleaningPlan
from headrace.log.config import LogConfig
from headrace.log.log import Log
from headrace.log.memory_fs import MemoryFileSystem
from headrace.log.open_files import OpenFiles
from headrace.log.producer_history import apply_batch
from headrace.log.producers import ProducerStates
from headrace.protocol.batch import BatchHeader
from headrace.protocol.compression import Codec
from headrace.protocol.records import (
    ControlType,
    NewRecord,
    Record,
    build_batch,
    build_end_transaction_marker,
    iter_batches,
    read_control_type,
    read_records,
)
from tests.support.segments import DIRECTORY, memory_fs

PARTITION = TopicPartition("orders", 0)
COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)

Pair = tuple[bytes, bytes | None]


class CompactedLog:
    """A log with producers, a clock, and a cleaner whose rounds run at once."""

    def __init__(
        self, config: LogConfig = COMPACT, *, fs: MemoryFileSystem | None = None, limits: CleanerLimits | None = None
    ) -> None:
        self.fs = fs or memory_fs()
        self.config = config
        self.now_ms = 100_000
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.cleaner = Cleaner(self.fs, OpenFiles(limit=100), {}, limits)
        self.log = Log.open(self.fs, DIRECTORY, config, clean=True, now_ms=self.now_ms)

    def use(self, config: LogConfig) -> None:
        self.config = config
        self.log.update_config(config)

    def append(
        self,
        *pairs: Pair,
        producer: int | None = None,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
    ) -> AppendResult:
        records = [NewRecord(self.now_ms, key, value) for key, value in pairs]
        if producer is None:
            return self._append(build_batch(records, codec=codec))
        sequence = self.sequences.get(producer, 0)
        result = self._append(
            build_batch(
                records,
                codec=codec,
                producer_id=producer,
                producer_epoch=self.epochs.setdefault(producer, 0),
                base_sequence=sequence,
                transactional=transactional,
            )
        )
        self.sequences[producer] = sequence + len(records)
        return result

    def end(self, producer: int, *, commit: bool, transaction_version: int = 1) -> AppendResult:
        if transaction_version >= 2:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        marker = build_end_transaction_marker(
            commit=commit,
            coordinator_epoch=0,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            timestamp=self.now_ms,
        )
        return self._append(marker, origin=Origin.COORDINATOR, transaction_version=transaction_version)

    def _append(
        self, batch: bytearray, *, origin: Origin = Origin.CLIENT, transaction_version: int = 0
    ) -> AppendResult:
        result = self.log.append(
            batch, leader_epoch=0, now_ms=self.now_ms, origin=origin, transaction_version=transaction_version
        )
        self.log.raise_high_watermark(self.log.log_end_offset)
        return result

    def roll(self) -> None:
        self.log.roll(now_ms=self.now_ms)

    def plan(self) -> CleaningPlan | None:
        return self.cleaner.plan(PARTITION, self.log, now_ms=self.now_ms)

    def clean(self) -> tuple[CleaningPlan, CleaningOutcome] | None:
        """One round, if one is due."""
        plan = self.plan()
        if plan is None:
            return None
        outcome = plan.run(lambda seconds: None)
        assert outcome.failure is None
        assert self.cleaner.finish(self.log, plan, outcome)
        self.run_chores()
        return plan, outcome

    def run_chores(self) -> None:
        for chore in self.log.take_chores():
            chore.run()
            chore.done()

    def reopen(self, *, clean: bool) -> None:
        high_watermark = self.log.high_watermark
        recovery_point = self.log.recovery_point
        if clean:
            self.log.close()
        self.log = open_log(
            self.fs, self.config, clean=clean, recovery_point=recovery_point, high_watermark=high_watermark
        )


def open_log(
    fs: MemoryFileSystem, config: LogConfig, *, clean: bool, recovery_point: int = 0, high_watermark: int = 0
) -> Log:
    return Log.open(
        fs,
        DIRECTORY,
        config,
        clean=clean,
        now_ms=0,
        recovery_point=recovery_point,
        high_watermark=high_watermark,
    )


def batches_of(log: Log) -> Iterator[tuple[BatchHeader, bytes]]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=1 << 20).read()
        if not data:
            return  # the end of the log was compacted away
        for position, header in iter_batches(data):
            yield header, data[position : position + header.size_bytes]
            offset = header.next_offset


def read_all(log: Log) -> list[Record]:
    """Every data record, committed or not."""
    return [record for header, batch in batches_of(log) if not header.is_control for record in read_records(batch)]


def read_committed(log: Log) -> list[Record]:
    """What a client with isolation level read_committed keeps of the records below the last stable offset."""
    end_offset = log.last_stable_offset
    waiting = sorted(log.aborted_transactions(log.log_start_offset, end_offset), key=lambda txn: txn.first_offset)
    aborting: set[int] = set()
    seen: list[Record] = []
    for header, batch in batches_of(log):
        if header.base_offset >= end_offset:
            break
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        records = list(read_records(batch))
        if header.is_control:
            if records and read_control_type(records[0].key) is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            seen += records
    return seen


def final_state(records: Sequence[Record]) -> dict[bytes, bytes]:
    """What a table over the log shows: the last value of each key, without the deleted ones."""
    state: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def replayed_producers(log: Log) -> ProducerStates:
    """Producer state from the batches alone, as after the loss of every snapshot."""
    states = ProducerStates()
    for header, batch in batches_of(log):
        apply_batch(states, header, batch, base_offset=header.base_offset)
    return states


def check_transactions(log: Log) -> None:
    """Whatever is left of a decided transaction can still be judged, and only empty ones have begun to go."""
    stable = log.last_stable_offset
    aborted = log.aborted_transactions(log.log_start_offset, stable)
    undecided: dict[int, list[BatchHeader]] = {}  # producer -> its batches since its last marker
    for header, batch in batches_of(log):
        if not header.is_transactional:
            continue
        if not header.is_control:
            if header.base_offset < stable:
                undecided.setdefault(header.producer_id, []).append(header)
            continue
        data = undecided.pop(header.producer_id, [])
        for record in read_records(batch):
            assert not (data and header.delete_horizon_ms is not None), (header, data)
            if read_control_type(record.key) is ControlType.ABORT:
                for one in data:
                    assert any(
                        txn.producer_id == one.producer_id
                        and txn.first_offset <= one.base_offset <= txn.last_offset == header.base_offset
                        for txn in aborted
                    ), (one, aborted)
    assert not undecided, undecided
    for segment, following in pairwise(log.segments):
        for txn in segment.aborted:
            assert segment.base_offset <= txn.last_offset < following.base_offset, (segment, txn)


def producer_facts(states: ProducerStates) -> dict[int, tuple[int, int, int | None, int]]:
    """Of each producer what decides about its next batch: epoch, sequence, last offset, open transaction."""
    return {
        state.producer_id: (
            state.epoch,
            state.next_sequence,
            state.last_batch.last_offset if state.last_batch else None,
            state.transaction_first_offset,
        )
        for state in states
    }
