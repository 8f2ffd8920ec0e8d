"""What takes records away from a log: truncation from its end, deletion from its start. (Compaction is in `swap`.)

A truncation is synced before it returns. The log will write the same offsets anew, and a crash must not bring back the
old ones, neither instead of the new nor behind them. Deletion needs none: what comes back lies below the log's start.

A failure in the middle leaves files whose state nobody knows for sure: the log fails, and the next opening settles it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.log.errors import OffsetOutOfRangeError, StorageError, is_without_descriptor
from headrace.log.scan import headers
from headrace.log.segment import Segment

if TYPE_CHECKING:
    from headrace.log.log import Log


def truncate_to(log: "Log", offset: int) -> bool:
    """Drop every batch that ends at `offset` or later. False if there is none. Raises StorageError."""
    if offset >= log.log_end_offset:
        return False
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    log.refuse_if_failed()
    log.epoch_file.load()  # which are cut, too
    try:
        _abandon_swap(log)
        log.producer_history.drop_snapshots_after(offset)
        log.remove_later(log.segments.cut_off(log.segments.from_offset(offset)[1:]))
        log.active = log.segments.active
        log.aborted_of(log.active)
        end_offset = truncate_segment(log.active, offset)
        log.active.file.sync()
    except OSError as error:
        raise log.fail(f"its truncation to offset {offset} failed ({error})") from error
    _end_at(log, end_offset)
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.epoch_file.truncate_from_end(end_offset)
    log.durability.truncated(end_offset)
    return True


def truncate_segment(segment: Segment, offset: int) -> int:
    """Drop its batches that end at `offset` or later. The offset after the last one that stays. Raises OSError."""
    segment.load_indexes()
    position = segment.find(offset)
    if position is not None:
        segment.file.truncate(position)
        segment.size = position
    segment.forget_from(offset)
    # The indexes are sparse, so the tail behind their last entries is read.
    entry = segment.offsets.find(segment.max_timestamp_offset)
    end_offset = segment.base_offset
    for _, header in headers(segment.file, entry.position if entry else 0, segment.size):
        end_offset = header[0] + header[6] + 1
        if header[8] > segment.max_timestamp:
            segment.max_timestamp, segment.max_timestamp_offset = header[8], end_offset - 1
    return end_offset


def truncate_fully_and_start_at(log: "Log", offset: int) -> None:
    """Drop everything, and go on at `offset`. Raises StorageError."""
    log.refuse_if_failed()
    created_ms = log.active.created_ms
    try:
        _abandon_swap(log)
        log.producer_history.drop_snapshots_after(-1)
        log.remove_later(log.segments.cut_off(tuple(log.segments)))
        log.active = log.segments.create(offset, log.config, now_ms=created_ms)
    except OSError as error:
        raise log.fail(f"its restart at offset {offset} failed ({error})") from error
    _end_at(log, offset)
    log.log_start_offset = log.high_watermark = offset
    log.epoch_file.clear()
    log.durability.created_segment()
    log.durability.restarted(offset)


def _abandon_swap(log: "Log") -> None:
    """A crash would let it go on, and bring back what is cut off now. Raises OSError, and StorageError to try again."""
    if log.swap is None:
        return
    try:
        log.swap.abandon()
    except OSError as error:
        if not is_without_descriptor(error):
            raise
        raise StorageError(f"{log.directory} is not cut off now: {error}. It may be tried again.") from error


def _end_at(log: "Log", end_offset: int) -> None:
    log.log_end_offset = end_offset
    log.high_watermark = min(log.high_watermark, end_offset)
    log.producer_states = None
    log.take_no_more_quickly()


def advance_log_start(log: "Log", offset: int) -> None:
    """Nothing before `offset` is served any more; retention removes the files. Raises OffsetOutOfRangeError."""
    if offset > log.high_watermark:
        raise OffsetOutOfRangeError(offset, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset)
    move_start(log, offset)


def move_start(log: "Log", offset: int) -> None:
    if offset > log.log_start_offset:
        log.log_start_offset = offset
        log.raise_high_watermark(offset)
        log.epoch_file.truncate_from_start(offset)


def delete_segments(log: "Log", segments: Sequence[Segment]) -> None:
    """Drop the oldest segments; the active one stays. Raises StorageError."""
    if not segments:
        return
    log.refuse_if_failed()
    count = len(segments)
    assert count < len(log.segments), "roll first: a log always has an active segment"
    assert list(segments) == list(log.segments)[:count], (segments, log.segments)
    start_offset = log.segments[count].base_offset
    move_start(log, start_offset)
    try:
        log.producer_history.keep_before(start_offset)
        log.remove_later(log.segments.take_out(segments))
        log.producer_history.drop_stale_snapshots()
    except OSError as error:
        raise log.fail(f"old segments could not be renamed ({error})") from error
