"""Appending the long way: anything from anybody, checked, written, and accounted for.

The quick way for what clients mostly send is `Log.append` itself; both end in the same files and the same state.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.log.append import (
    NO_APPEND_TIME,
    AppendResult,
    Incoming,
    Origin,
    check_continues,
    check_incoming,
    is_append_time,
    place,
    quick_origin,
    runs_that_fit,
    split,
)
from headrace.log.config import LogConfig
from headrace.log.errors import InvalidRecordError, StorageError, reading
from headrace.log.fs import Buffer
from headrace.log.producer_history import apply_batch, apply_marker, read_marker, to_aborted
from headrace.log.producers import CachedBatch
from headrace.log.scan import RawHeader
from headrace.log.segment import Segment
from headrace.protocol.batch import CONTROL_FLAG, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

if TYPE_CHECKING:
    from headrace.log.log import Log


def append_any(
    log: "Log", view: memoryview, leader_epoch: int, now_ms: int, origin: Origin, transaction_version: int
) -> AppendResult:
    """Raises CorruptBatchError, RefusedBatchError or StorageError."""
    log.refuse_if_failed()
    batches = split(view, is_cut_anywhere=origin is Origin.REPLICATION)
    if origin is Origin.REPLICATION:
        return _append_replicated(log, view, batches, now_ms)
    config = log.config
    check_incoming(view, batches, config, origin=origin, now_ms=now_ms)
    append_time_ms = now_ms if is_append_time(config) else NO_APPEND_TIME
    if len(batches) == 1 and _is_marker(batches[0][2]):
        return _append_marker(log, view, batches[0], leader_epoch, now_ms, append_time_ms, transaction_version)
    duplicate = _check_producers(log, batches)
    if duplicate is not None:
        return duplicate_result(duplicate, config)
    base_offset = next_offset = log.log_end_offset
    placed = []
    for batch in batches:
        placed.append(place(view, batch, next_offset, leader_epoch, append_time_ms))
        next_offset += batch[2][6] + 1
    max_timestamp = _store(log, view, placed, now_ms)
    quick = quick_origin(config)
    if quick is not None:
        log.takes_quickly(leader_epoch, quick)
    return AppendResult((base_offset, next_offset - 1, max_timestamp, append_time_ms, False))


def duplicate_result(stored: CachedBatch, config: LogConfig) -> AppendResult:
    """The answer to a retry: where the batch has stood since the first time."""
    append_time_ms = stored.timestamp if is_append_time(config) else NO_APPEND_TIME
    return AppendResult((stored.first_offset, stored.last_offset, stored.timestamp, append_time_ms, True))


def _append_replicated(log: "Log", view: memoryview, batches: list[Incoming], now_ms: int) -> AppendResult:
    check_continues(batches, log.log_end_offset)
    for start, end, header in batches:
        if header[5] & CONTROL_FLAG:
            read_marker(view[start:end])  # one that cannot be read must not get in
    base_offset = batches[0][2][0] if batches else log.log_end_offset
    max_timestamp = NO_TIMESTAMP
    for run in runs_that_fit(batches, log.config.segment_bytes):
        max_timestamp = max(max_timestamp, _store(log, view, run, now_ms))
    return AppendResult((base_offset, log.log_end_offset - 1, max_timestamp, NO_APPEND_TIME, False))


def _is_marker(header: RawHeader) -> bool:
    """Control batches of a producer end its transactions; those of the metadata quorum have none."""
    return bool(header[5] & CONTROL_FLAG) and header[9] != NO_PRODUCER_ID


def _append_marker(
    log: "Log",
    view: memoryview,
    batch: Incoming,
    leader_epoch: int,
    now_ms: int,
    append_time_ms: int,
    transaction_version: int,
) -> AppendResult:
    """The end of a transaction, by the coordinator. Raises RefusedBatchError, CorruptBatchError, StorageError."""
    marker = read_marker(view)
    if marker is None:
        raise InvalidRecordError("a control batch of a producer that ends no transaction")
    producers = log.producers
    producers.check_marker(
        batch[2], coordinator_epoch=marker.coordinator_epoch, transaction_version=transaction_version
    )
    offset = log.log_end_offset
    _, size, header = place(view, batch, offset, leader_epoch, append_time_ms)
    segment = log.segment_for(size, offset, offset, header[8], now_ms)
    log.epoch_file.load()  # all that has to be read is read before anything is written: see `_store`
    if not marker.is_commit:
        with reading("aborted transactions", log.directory):
            log.aborted_of(segment)
    segment.account(write_at_end(log, segment, view), offset, header[8])
    log.epoch_file.assign(leader_epoch, offset)
    transaction = apply_marker(producers, header, marker, base_offset=offset)
    if transaction is not None and transaction.aborted:
        segment.add_aborted(to_aborted(transaction))
    log.log_end_offset = offset + 1
    return AppendResult((offset, offset, header[8], append_time_ms, False))


def _check_producers(log: "Log", batches: list[Incoming]) -> CachedBatch | None:
    """What was stored already of a client's retry; None if the batches are news. Raises RefusedBatchError."""
    for _, _, header in batches:
        if header[9] == NO_PRODUCER_ID:
            continue
        if header[11] == NO_SEQUENCE:
            log.producers.check_without_sequence(header)
        else:
            duplicate = log.producers.check(header)
            if duplicate is not None:
                return duplicate
    return None


def _store(log: "Log", view: memoryview, batches: Sequence[Incoming], now_ms: int) -> int:
    """Write batches that have their offsets, and account for them. Their largest timestamp. Raises StorageError."""
    first_start, _, first_header = batches[0]
    _, last_end, last_header = batches[-1]
    last_offset = last_header[0] + last_header[6]
    max_timestamp = max([header[8] for _, _, header in batches])
    log.load_producers_if_easy()
    segment = log.segment_for(last_end - first_start, first_header[0], last_offset, max_timestamp, now_ms)
    # What the batches change is loaded before they are written. A read that fails afterwards would leave them in the
    # file without their offsets being used up, and the next ones would get the same.
    log.epoch_file.load()
    producers = log.producers if any(header[9] != NO_PRODUCER_ID for _, _, header in batches) else None
    if any(header[5] & CONTROL_FLAG for _, _, header in batches):
        with reading("aborted transactions", log.directory):
            log.aborted_of(segment)
    shift = write_at_end(log, segment, view[first_start:last_end]) - first_start
    epoch = None
    for start, end, header in batches:
        segment.account(start + shift, header[0] + header[6], header[8])
        if header[2] != epoch:
            epoch = header[2]
            log.epoch_file.assign(epoch, header[0])
        if producers is not None:
            transaction = apply_batch(producers, header, view[start:end], base_offset=header[0])
            if transaction is not None and transaction.aborted:
                segment.add_aborted(to_aborted(transaction))
    log.log_end_offset = last_offset + 1
    return max_timestamp


def write_at_end(log: "Log", segment: Segment, data: Buffer) -> int:
    """At the end of the segment; where that was. Raises StorageError."""
    write, handle = segment.writer
    try:
        written = write(handle, data)
    except OSError as error:
        raise append_failed(log, segment, error) from error
    if written != len(data):
        append_rest(log, segment, data[written:])
    position = segment.size
    segment.size = position + len(data)
    return position


def append_rest(log: "Log", segment: Segment, rest: Buffer) -> None:
    """A write was short. That is no error yet: the next one tells. Raises StorageError."""
    file = segment.file
    file.size = segment.size
    try:
        file.append(rest)
    except OSError as error:
        raise append_failed(log, segment, error) from error


def append_failed(log: "Log", segment: Segment, error: OSError) -> StorageError:
    """Cut off what was written. If that fails, too, so does the log."""
    file = segment.file
    file.size = segment.size
    file.cut_back()
    if file.torn:
        return log.fail(f"an append failed ({error}), and its part could not be cut off again")
    return StorageError(
        f"an append to {log.directory} failed: {error}. Nothing of it was kept. "
        "Make room or check the disk; producers may then retry."
    )
