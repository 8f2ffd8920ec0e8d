"""When the active segment is full, by Kafka's rules: by size, by age, by its indexes, by the range of its offsets."""

from zlib import crc32

from headrace.log.config import UNLIMITED
from headrace.log.segment import Segment
from headrace.protocol.batch import NO_TIMESTAMP


def must_roll(segment: Segment, *, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
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
    """`segment.ms`, less a jitter that is fixed for a segment: partitions created together should not roll together."""
    config = segment.config
    if not config.segment_jitter_ms:
        return config.segment_ms
    jitter = crc32(segment.path("").encode()) % (min(config.segment_jitter_ms, config.segment_ms) + 1)
    return config.segment_ms - jitter


def quiet_timestamp(segment: Segment, now_ms: int) -> int:
    """Batches with timestamps up to this one are neither too late for the topic nor make the segment too old."""
    if segment.first_timestamp == NO_TIMESTAMP:
        return NO_TIMESTAMP - 1
    latest = now_ms + segment.config.message_timestamp_after_max_ms
    return min(latest, segment.first_timestamp + max_age_ms(segment), UNLIMITED)
