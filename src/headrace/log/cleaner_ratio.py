"""How dirty a log is, and whether that is enough to clean it.

    log start        first dirty offset        end of the range        active segment
       |  clean bytes       |     dirty bytes         |   left alone        |

Compaction has seen everything below the first dirty offset. The range ends with a whole segment: before the active one,
before the last stable offset (the fate of what is above is open), and before the first segment with a record younger
than `min.compaction.lag.ms`. A log is due when the dirty part of the range is more than
`min.cleanable.dirty.ratio` of it, or when a dirty record is older than `max.compaction.lag.ms`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from headrace.log.config import UNLIMITED, LogConfig
from headrace.log.fs import FileSystem
from headrace.log.retention import newest_record_ms
from headrace.log.segment import Segment


class DirtyRange(NamedTuple):
    first_dirty_offset: int
    end_offset: int  # exclusive: the base offset of a segment
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # something dirty is older than max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def measure_dirt(
    fs: FileSystem,
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    cleaned_to: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> DirtyRange:
    """`cleaned_to` is the checkpoint of the last round. One that the log contradicts is worth nothing."""
    first_dirty_offset = log_start_offset
    if cleaned_to is not None and log_start_offset <= cleaned_to <= log_end_offset:
        first_dirty_offset = cleaned_to
    bases = [segment.base_offset for segment in segments]
    first_dirty = _holder(bases, first_dirty_offset)
    # The active segment is the last one; the segment with the last stable offset is not wholly below it.
    end = min(len(segments) - 1, _holder(bases, last_stable_offset))
    if config.min_compaction_lag_ms > 0:
        end = min(end, _first_young(fs, segments, first_dirty, end, now_ms - config.min_compaction_lag_ms))
    dirty = segments[first_dirty:end]
    return DirtyRange(
        first_dirty_offset=first_dirty_offset,
        end_offset=bases[end],
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty_offset),
        dirty_bytes=sum(segment.size for segment in dirty),
        is_overdue=_has_older(dirty, now_ms - config.max_compaction_lag_ms)
        if config.max_compaction_lag_ms < UNLIMITED
        else False,
    )


def _holder(bases: Sequence[int], offset: int) -> int:
    """The index of the segment whose range holds `offset`."""
    return max(bisect_right(bases, offset) - 1, 0)


def _first_young(fs: FileSystem, segments: Sequence[Segment], start: int, end: int, limit_ms: int) -> int:
    for index in range(start, end):
        if segments[index].size and newest_record_ms(fs, segments[index]) > limit_ms:
            return index
    return end


def _has_older(segments: Sequence[Segment], limit_ms: int) -> bool:
    for segment in segments:
        segment.load_first_timestamp()
        if 0 < segment.first_timestamp < limit_ms:
            return True
    return False
