"""Offsets by time: which record is the first at or after a timestamp, and which has the largest."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.log.scan import headers
from headrace.log.segment import Segment
from headrace.protocol.batch import LOG_OVERHEAD
from headrace.protocol.records import Record, read_records


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
