"""When the active segment is full by Kafka's rules (size, age, indexes, range of offsets), and how a new one begins."""

import contextlib
from typing import TYPE_CHECKING
from zlib import crc32

from headrace.log.config import UNLIMITED
from headrace.log.errors import StorageError
from headrace.log.names import LOG, file_name
from headrace.log.segment import Segment
from headrace.protocol.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from headrace.log.log import Log


def roll_if_needed(
    log: "Log", size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int
) -> Segment:
    """The segment for batches of `size` bytes with these offsets. Raises StorageError."""
    segment = log.active
    segment.load_indexes()
    if not _must_roll(segment, size=size, last_offset=last_offset, max_timestamp=max_timestamp, now_ms=now_ms):
        return segment
    segment = log.roll(now_ms=now_ms)
    if last_offset > segment.last_room:
        # Far behind the log's end, by replication of a compacted log: a segment must begin with them.
        segment = log.roll(now_ms=now_ms, base_offset=first_offset)
    return segment


def roll(log: "Log", base_offset: int, *, now_ms: int) -> Segment:
    """Seal the active segment, or drop it if it is empty, and begin a new one at `base_offset`. Raises StorageError."""
    old = log.active
    if old.base_offset == base_offset:
        return old
    try:
        if old.size:
            seal_active(log, base_offset)
        log.durability.make_segment_names_safe()
        segment = log.segments.create(base_offset, log.config, now_ms=now_ms)
        if not old.size:
            log.remove_later(log.segments.take_out([old]))
    except OSError as error:
        raise _roll_failed(log, base_offset, error) from error
    log.rolled(segment)
    log.durability.created_segment()
    log.producer_history.drop_stale_snapshots()
    return segment


def seal_active(log: "Log", end_offset: int) -> None:
    """Write what the files of the active segment do not know yet. Raises OSError."""
    log.durability.wrote_files()
    log.active.write_indexes()
    log.producer_history.write_snapshot(end_offset, log.producers)


def _roll_failed(log: "Log", base_offset: int, error: OSError) -> StorageError:
    try:
        with contextlib.suppress(FileNotFoundError):
            log.fs.remove(f"{log.directory}/{file_name(base_offset, LOG)}")
    except OSError:
        return log.fail(f"a new segment could neither be made ({error}) nor removed")
    return StorageError(
        f"the log in {log.directory} cannot begin a new segment: {error}. Nothing was changed. "
        "Make room or check the disk; producers may then retry."
    )


def _must_roll(segment: Segment, *, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
    """Is a new segment needed for batches of `size` bytes up to `last_offset`?"""
    if not segment.size:
        return last_offset > segment.last_room
    if segment.size + size > segment.config.segment_bytes or last_offset > segment.last_room:
        return True
    return segment.count_free_entries() <= 0 or _age_ms(segment, max_timestamp, now_ms) > max_age_ms(segment)


def _age_ms(segment: Segment, timestamp: int, now_ms: int) -> int:
    """By the records' own clock, from the first batch on; by ours if they have none."""
    if segment.first_timestamp == NO_TIMESTAMP:
        return now_ms - segment.created_ms
    return timestamp - segment.first_timestamp


def max_age_ms(segment: Segment) -> int:
    """`segment.ms`, less a jitter that is fixed for a segment: partitions created together should not roll together.

    In a compacted log `max.compaction.lag.ms` counts if it is less: what is in the active segment is not compacted.
    """
    config = segment.config
    longest_ms = min(config.segment_ms, config.max_compaction_lag_ms) if config.is_compacted else config.segment_ms
    if not config.segment_jitter_ms:
        return longest_ms
    return longest_ms - crc32(segment.path("").encode()) % (min(config.segment_jitter_ms, longest_ms) + 1)


def quiet_timestamp(segment: Segment, now_ms: int) -> int:
    """Batches with timestamps up to this one are neither too late for the topic nor make the segment too old."""
    if segment.first_timestamp == NO_TIMESTAMP:
        return NO_TIMESTAMP - 1
    latest = now_ms + segment.config.message_timestamp_after_max_ms
    return min(latest, segment.first_timestamp + max_age_ms(segment), UNLIMITED)
