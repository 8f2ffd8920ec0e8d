"""Which segments have had their time: by the log's start, by its size, by the age of its records.

Only whole segments go, oldest first, and only below the high watermark, so that the log's start never passes it. The
rules are Kafka's, in Kafka's order:

    by start   everything in the segment lies below the log start offset (always)
    by size    without the segment the log still has `retention.bytes` (with cleanup.policy=delete)
    by age     the newest record of the segment is older than `retention.ms` (with cleanup.policy=delete)

A segment whose records have no timestamps is as old as its file. The active segment goes, too, when all of it is old or
beyond the size; the log then rolls first. A sealed segment without a byte, which compaction can leave, has no age: it
goes when one after it goes.
"""

from collections.abc import Sequence

from headrace.log.config import LogConfig
from headrace.log.fs import FileSystem
from headrace.log.log import Log
from headrace.log.names import LOG
from headrace.log.segment import Segment


def apply_retention(fs: FileSystem, log: Log, *, now_ms: int) -> int:
    """Delete what has had its time. How many segments that were. Raises StorageError."""
    segments = list(log.segments)
    count = count_expired(
        fs,
        segments,
        log.config,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
        now_ms=now_ms,
    )
    if count == len(segments):
        log.roll(now_ms=now_ms)
    log.delete_segments(segments[:count])
    return count


def count_expired(
    fs: FileSystem,
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many of the oldest segments may go. If it is all of them, the log has to roll first."""
    deletable = _count_below(segments, high_watermark, log_end_offset)
    count = _count_by_start(segments, deletable, log_start_offset)
    if config.is_deleted:
        count = _count_by_size(segments, count, deletable, config.retention_bytes)
        count = _count_by_age(fs, segments, count, deletable, config.retention_ms, now_ms)
    return count


def _count_below(segments: Sequence[Segment], high_watermark: int, log_end_offset: int) -> int:
    """Those wholly below the high watermark. An active one without records is not worth deleting."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= high_watermark:
        count += 1
    if count + 1 == len(segments) and log_end_offset <= high_watermark and segments[-1].size:
        count += 1
    return count


def _count_by_start(segments: Sequence[Segment], deletable: int, log_start_offset: int) -> int:
    count = 0
    while count < deletable and count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _count_by_size(segments: Sequence[Segment], count: int, deletable: int, retention_bytes: int) -> int:
    if retention_bytes < 0:
        return count
    excess = sum(segment.size for segment in segments[count:]) - retention_bytes
    while count < deletable and excess >= segments[count].size:
        excess -= segments[count].size
        count += 1
    return count


def _count_by_age(
    fs: FileSystem, segments: Sequence[Segment], count: int, deletable: int, retention_ms: int, now_ms: int
) -> int:
    if retention_ms < 0:
        return count
    for index in range(count, deletable):
        segment = segments[index]
        if not segment.size:
            continue
        if now_ms - newest_record_ms(fs, segment) <= retention_ms:
            break
        count = index + 1
    return count


def newest_record_ms(fs: FileSystem, segment: Segment) -> int:
    """The largest timestamp of a segment; when its file last changed, if its records have none."""
    timestamp = segment.largest_timestamp
    return timestamp if timestamp >= 0 else fs.modified_ms(segment.path(LOG))
