"""Where things are in a log: the batches from an offset on, the record at a time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.log.aborted import AbortedTxn
from headrace.log.errors import OffsetOutOfRangeError, StorageError, reading
from headrace.log.scan import headers
from headrace.log.segment import Segment
from headrace.log.slices import EMPTY, LogSlice
from headrace.protocol.batch import LOG_OVERHEAD
from headrace.protocol.records import Record, read_records

if TYPE_CHECKING:
    from headrace.log.log import Log


def read(log: "Log", offset: int, max_bytes: int, end_offset: int | None, *, at_least_one_batch: bool) -> LogSlice:
    """See `Log.read`."""
    log_end_offset = log.log_end_offset
    if not log.log_start_offset <= offset <= log_end_offset:
        raise OffsetOutOfRangeError(offset, log_start_offset=log.log_start_offset, log_end_offset=log_end_offset)
    if end_offset is None or end_offset > log_end_offset:
        end_offset = log_end_offset
    if offset >= end_offset:
        return EMPTY
    segments = log.segments
    try:
        # An offset may lie in a gap that goes to the end of its segment: the next batch is then in a later one.
        for index in range(segments.index_of(offset), len(segments)):
            segment = segments[index]
            is_whole = end_offset >= segments.end_offset_of(index, log_end_offset)
            found = segment.read(
                offset,
                max_bytes=max_bytes,
                end_offset=None if is_whole else end_offset,
                at_least_one_batch=at_least_one_batch,
            )
            if found is not None:
                if segment is log.active and found.position + found.size_bytes == segment.size:
                    segment.remember(log_end_offset, segment.size)
                return found
    except OSError as error:
        raise StorageError(f"reading offset {offset} of {log.directory} failed: {error}") from error
    return EMPTY


def find_aborted(log: "Log", from_offset: int, upper_offset: int) -> list[AbortedTxn]:
    """See `Log.aborted_transactions`."""
    found: list[AbortedTxn] = []
    for segment in log.segments.from_offset(from_offset):
        if segment.is_calm:  # as nearly all are, and a log may have a thousand behind the one that is read
            continue
        with reading("aborted transactions", log.directory):
            index = log.aborted_of(segment)
        transactions, is_complete = index.find(from_offset, upper_offset)
        found += transactions
        if is_complete:
            break
    return found


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int  # of the batch


def find_timestamp(segments: Sequence[Segment], timestamp: int, *, start_offset: int) -> TimestampOffset | None:
    """The first record at `start_offset` or later whose timestamp is `timestamp` or later; None if there is none."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            found = _find_in_segment(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def find_largest_timestamp(segments: Sequence[Segment], *, start_offset: int) -> TimestampOffset | None:
    """The first record with the largest timestamp; None if no record has one."""
    largest = max(segments, key=lambda segment: segment.largest_timestamp)
    if largest.largest_timestamp < 0:
        return None
    return find_timestamp([largest], largest.largest_timestamp, start_offset=start_offset)


def _find_in_segment(segment: Segment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    start = segment.find(max(segment.times.find(timestamp), start_offset))
    if start is None:
        return None
    file = segment.file
    for position, header in headers(file, start, segment.size):
        if header[8] < timestamp:
            continue
        for record in read_records(file.read(position, header[1] + LOG_OVERHEAD)):
            if _is_match(record, timestamp, start_offset):
                return TimestampOffset(record.timestamp, record.offset, header[2])
    return None


def _is_match(record: Record, timestamp: int, start_offset: int) -> bool:
    return record.timestamp >= timestamp and record.offset >= start_offset
