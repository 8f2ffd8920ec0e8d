"""Batches for tests of the log, and what a log holds, read back record by record."""

from collections.abc import Iterator, Sequence

from headrace.log.append import AppendResult, Origin
from headrace.log.log import Log
from headrace.protocol.batch import BatchHeader
from headrace.protocol.compression import Codec
from headrace.protocol.records import (
    NewRecord,
    Record,
    build_batch,
    build_end_transaction_marker,
    iter_batches,
    read_records,
)

NOW_MS = 1_700_000_000_000
EPOCH = 5


def a_batch(
    *values: bytes,
    timestamps: Sequence[int] = (),
    keys: Sequence[bytes | None] = (),
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> bytearray:
    """A batch with these values (or one "v"); producer id, epoch and sequence only if a producer is given."""
    values = values or (b"v",)
    has_producer = producer != -1
    return build_batch(
        [
            NewRecord(
                timestamps[index] if timestamps else NOW_MS,
                keys[index] if keys else b"k",
                value,
            )
            for index, value in enumerate(values)
        ],
        base_offset=base_offset,
        codec=codec,
        leader_epoch=leader_epoch,
        producer_id=producer,
        producer_epoch=producer_epoch if has_producer else -1,
        base_sequence=sequence if has_producer else -1,
        transactional=transactional,
    )


def a_marker(*, commit: bool, producer: int, producer_epoch: int = 0, coordinator_epoch: int = 1) -> bytearray:
    return build_end_transaction_marker(
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        producer_id=producer,
        producer_epoch=producer_epoch,
        timestamp=NOW_MS,
    )


def append(log: Log, *values: bytes, now_ms: int = NOW_MS, epoch: int = EPOCH, **details: object) -> AppendResult:
    return log.append(a_batch(*values, **details), leader_epoch=epoch, now_ms=now_ms)  # type: ignore[arg-type]


def end_transaction(log: Log, *, commit: bool, producer: int, producer_epoch: int = 0) -> AppendResult:
    return log.append(
        a_marker(commit=commit, producer=producer, producer_epoch=producer_epoch),
        leader_epoch=EPOCH,
        now_ms=NOW_MS,
        origin=Origin.COORDINATOR,
    )


def batches_of(log: Log, *, end_offset: int | None = None, max_bytes: int = 700) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch that a reader gets who starts at the log's start and comes back for more."""
    offset = log.log_start_offset
    while data := log.read(offset, max_bytes=max_bytes, end_offset=end_offset).read():
        for position, header in iter_batches(data):
            yield header, data[position : position + header.size_bytes]
            offset = header.next_offset


def records_of(log: Log, *, end_offset: int | None = None) -> list[Record]:
    return [record for _, data in batches_of(log, end_offset=end_offset) for record in read_records(data)]


def values_of(log: Log) -> list[bytes | None]:
    return [record.value for record in records_of(log)]


def run_chores(log: Log) -> None:
    for chore in log.take_chores():
        chore.run()
        chore.done()


def flush(log: Log) -> None:
    plan = log.plan_flush()
    if plan is not None:
        plan.run()
        plan.done()
