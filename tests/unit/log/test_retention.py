"""Retention by start, size and age: which of the oldest segments may go."""

from dataclasses import replace

import pytest

from headrace.log.config import LogConfig
from headrace.log.memory_fs import MemoryFileSystem
from headrace.log.retention import count_expired
from headrace.log.segment import Segment
from tests.support.segments import a_batch, a_segment, memory_fs

NOW_MS = 10_000
KEEP = LogConfig(retention_ms=-1, retention_bytes=-1)
SIZE = len(a_batch(0))


def four_segments(fs: MemoryFileSystem, config: LogConfig, *timestamps: int) -> list[Segment]:
    """One batch each at offsets 0, 10, 20, 30."""
    return [
        a_segment(fs, 10 * index, [a_batch(10 * index, timestamp=timestamp)], config)
        for index, timestamp in enumerate(timestamps or (1000, 2000, 3000, 4000))
    ]


def expired(
    segments: list[Segment],
    config: LogConfig,
    fs: MemoryFileSystem,
    *,
    log_start_offset: int = 0,
    high_watermark: int = 31,
    log_end_offset: int = 31,
    now_ms: int = NOW_MS,
) -> int:
    return count_expired(
        fs,
        segments,
        config,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )


def test_nothing_goes_without_a_limit() -> None:
    fs = memory_fs()
    assert expired(four_segments(fs, KEEP), KEEP, fs) == 0


@pytest.mark.parametrize(("retention_ms", "count"), [(10_000, 0), (9_000, 0), (8_999, 1), (7_000, 2), (6_500, 3)])
def test_segments_go_when_their_newest_record_is_older_than_retention_ms(retention_ms: int, count: int) -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=retention_ms)
    assert expired(four_segments(fs, config), config, fs) == count


def test_the_active_segment_goes_when_all_of_it_is_old() -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=1)
    assert expired(four_segments(fs, config), config, fs) == 4


def test_an_active_segment_without_records_stays() -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=1)
    segments = [a_segment(fs, 0, [a_batch(0)], config), a_segment(fs, 1, [], config)]
    assert expired(segments, config, fs, log_end_offset=1, high_watermark=1) == 1
    assert expired(segments[1:], config, fs, log_end_offset=1, high_watermark=1) == 0


def test_a_young_segment_protects_the_older_ones_behind_it_in_the_log() -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=5000)
    assert expired(four_segments(fs, config, 1000, NOW_MS, 1000, 1000), config, fs) == 1


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=5000)
    fs.now_ms = 4_999
    old = a_segment(fs, 0, [a_batch(0, timestamp=-1)], config)
    fs.now_ms = 5_000
    young = a_segment(fs, 10, [a_batch(10, timestamp=-1)], config)
    assert expired([old, young], config, fs, log_end_offset=11, high_watermark=11) == 1


@pytest.mark.parametrize(
    ("retention_bytes", "count"), [(5 * SIZE, 0), (4 * SIZE, 0), (3 * SIZE + 1, 0), (3 * SIZE, 1), (SIZE, 3), (0, 4)]
)
def test_segments_go_while_the_rest_still_has_retention_bytes(retention_bytes: int, count: int) -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_bytes=retention_bytes)
    assert expired(four_segments(fs, config), config, fs) == count


@pytest.mark.parametrize(("log_start_offset", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (31, 3)])
def test_segments_below_the_log_start_go_whatever_the_policy(log_start_offset: int, count: int) -> None:
    fs = memory_fs()
    for policy in (frozenset({"delete"}), frozenset({"compact"}), frozenset[str]()):
        config = replace(KEEP, cleanup_policy=policy)
        assert expired(four_segments(fs, config), config, fs, log_start_offset=log_start_offset) == count


@pytest.mark.parametrize(("high_watermark", "count"), [(0, 0), (9, 0), (10, 1), (30, 3), (31, 4)])
def test_nothing_goes_above_the_high_watermark(high_watermark: int, count: int) -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=1)
    assert expired(four_segments(fs, config), config, fs, high_watermark=high_watermark) == count
    by_size = replace(KEEP, retention_bytes=0)
    assert expired(four_segments(fs, by_size), by_size, fs, high_watermark=high_watermark) == count


@pytest.mark.parametrize(
    ("policy", "count"), [({"delete"}, 4), ({"compact", "delete"}, 4), ({"compact"}, 0), (set(), 0)]
)
def test_size_and_age_count_with_cleanup_policy_delete_only(policy: set[str], count: int) -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=1, retention_bytes=0, cleanup_policy=frozenset(policy))
    assert expired(four_segments(fs, config), config, fs) == count


def test_a_segment_that_compaction_emptied_neither_goes_alone_nor_holds_others_back() -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_ms=5000, cleanup_policy=frozenset({"compact", "delete"}))
    fs.now_ms = NOW_MS  # the file of the empty one is young: each round of compaction writes it anew
    empty, old, young = (
        a_segment(fs, 0, [], config),
        a_segment(fs, 10, [a_batch(10, timestamp=1000)], config),
        a_segment(fs, 20, [a_batch(20, timestamp=NOW_MS)], config),
    )
    assert expired([empty, old, young], config, fs, log_end_offset=21) == 2
    assert expired([empty, young], config, fs, log_end_offset=21) == 0


def test_by_start_size_and_age_one_after_another() -> None:
    fs = memory_fs()
    config = replace(KEEP, retention_bytes=2 * SIZE, retention_ms=6500)
    segments = four_segments(fs, config)
    assert expired(segments, config, fs, log_start_offset=10, now_ms=0) == 2  # one by start, one more by size
    assert expired(segments, config, fs, log_start_offset=10) == 3  # and one more by age
