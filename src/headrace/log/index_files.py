"""Reads the indexes of a segment from their files. A file that is missing, or cannot be right, is told as None.

A full segment of 1 GB has 260,000 entries in each, and thousands of segments may lie in a data directory. So each index
is read only by who needs it, and who needs no more than its last entry reads no more.
"""

from headrace.log.errors import CorruptIndexError
from headrace.log.index import (
    TIME_ENTRY_SIZE,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    unpack_time_entry,
)
from headrace.log.names import OFFSET_INDEX, TIME_INDEX
from headrace.log.segment_files import SegmentFiles


def read_offsets(files: SegmentFiles, *, log_size: int) -> OffsetIndex | None:
    try:
        return OffsetIndex.from_bytes(files.read(OFFSET_INDEX), files.base_offset, log_size=log_size)
    except (FileNotFoundError, CorruptIndexError):
        return None


def read_times(files: SegmentFiles) -> TimeIndex | None:
    try:
        return TimeIndex.from_bytes(files.read(TIME_INDEX), files.base_offset)
    except (FileNotFoundError, CorruptIndexError):
        return None


def read_last_time(files: SegmentFiles) -> TimeEntry | None:
    """The entry with the largest timestamp; None, too, if the end of the file alone does not tell."""
    data = read_last_entry(files, TIME_INDEX, TIME_ENTRY_SIZE)
    if not data:
        return None
    entry = unpack_time_entry(data, files.base_offset)
    return entry if entry.timestamp >= 0 and entry.offset >= files.base_offset else None


def read_last_entry(files: SegmentFiles, suffix: str, entry_size: int) -> bytes | None:
    """Nothing if the index has none, or is missing; None if its end does not tell, since it is padded or damaged."""
    try:
        data, size = files.read_end(suffix, entry_size)
    except FileNotFoundError:
        return b""
    return None if size % entry_size or (data and not data.strip(b"\0")) else data
