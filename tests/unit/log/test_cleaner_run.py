"""One round of compaction over segments: map, groups, throttle, failures; and how dirty a log is."""

import errno
from dataclasses import replace
from random import Random

import pytest

from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner_keys import ENTRY_BYTES
from headrace.log.cleaner_ratio import DirtyRange, measure_dirt
from headrace.log.cleaner_run import SLICE_BYTES, CleanerLimits, CleaningOutcome, CleaningPlan, Source, group_sources
from headrace.log.config import LogConfig
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.log.names import CLEANED, LOG, parse_file_name
from headrace.log.open_files import OpenFiles
from headrace.log.scan import verified_batches
from headrace.log.segment import Segment
from headrace.protocol.records import NewRecord, build_batch, read_records
from tests.support.segments import DIRECTORY, a_batch, a_segment, memory_fs

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), index_interval_bytes=64)
NOW_MS = 1_000_000

Pair = tuple[bytes, bytes | None]


def batch(offset: int, *pairs: Pair) -> bytearray:
    return build_batch([NewRecord(offset, key, value) for key, value in pairs], base_offset=offset)


def sources_of(*segments: Segment, end_offset: int) -> tuple[Source, ...]:
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    return tuple(
        Source(segment.base_offset, end, segment.size, segment.path(LOG))
        for segment, end in zip(segments, ends, strict=True)
    )


def plan(
    fs: MemoryFileSystem,
    *segments: Segment,
    end_offset: int,
    first_dirty_offset: int = 0,
    config: LogConfig = COMPACT,
    limits: CleanerLimits | None = None,
) -> CleaningPlan:
    return CleaningPlan(
        partition=TopicPartition("orders", 0),
        fs=fs,
        directory=DIRECTORY,
        config=config,
        limits=limits or CleanerLimits(),
        sources=sources_of(*segments, end_offset=end_offset),
        first_dirty_offset=first_dirty_offset,
        aborted=(),
        producers={},
        now_ms=NOW_MS,
    )


def run(cleaning: CleaningPlan) -> CleaningOutcome:
    return cleaning.run(lambda seconds: None)


def cleaned_rows(fs: MemoryFileSystem, base_offset: int) -> list[tuple[int, bytes | None, bytes | None]]:
    file = fs.open(f"{DIRECTORY}/{base_offset:020d}{LOG}{CLEANED}")
    return [
        (record.offset, record.key, record.value)
        for _, _, data in verified_batches(file, 0, file.size)
        for record in read_records(data)
    ]


def names(fs: MemoryFileSystem, stage: str) -> list[str]:
    parsed = [(name, parse_file_name(name)) for name in fs.list_dir(DIRECTORY)]
    return sorted(name for name, file in parsed if file is not None and file.stage == stage)


def test_the_newest_record_of_each_key_is_left_in_all_segments_of_the_range() -> None:
    fs = memory_fs()
    first = a_segment(fs, 0, [batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"a", b"2"))], COMPACT)
    second = a_segment(fs, 3, [batch(3, (b"b", b"2"), (b"c", b"1"))], COMPACT)
    outcome = run(plan(fs, first, second, end_offset=5))
    assert outcome.failure is None
    assert [len(group.sources) for group in outcome.groups] == [2]
    assert cleaned_rows(fs, 0) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]
    assert outcome.end_offset == 5


def test_the_cleaned_segment_has_indexes_that_agree_with_it() -> None:
    fs = memory_fs()
    segment = a_segment(fs, 0, [batch(n, (b"%d" % (n % 7), bytes(40))) for n in range(20)], COMPACT)
    outcome = run(plan(fs, segment, end_offset=20))
    (group,) = outcome.groups
    cleaned = Segment(
        fs, DIRECTORY, 0, group.size_bytes, COMPACT, open_files=OpenFiles(limit=9), now_ms=0, stage=CLEANED
    )
    stored = cleaned.offsets.to_bytes(), cleaned.times.to_bytes()
    assert len(cleaned.offsets) > 2
    cleaned.rebuild_indexes()
    cleaned.times.append(cleaned.max_timestamp, cleaned.max_timestamp_offset)
    assert stored == (cleaned.offsets.to_bytes(), cleaned.times.to_bytes())


def test_a_clean_part_is_cleaned_again_by_what_the_dirty_part_supersedes() -> None:
    fs = memory_fs()
    clean = a_segment(fs, 0, [batch(0, (b"a", b"1"), (b"b", b"1"))], COMPACT)
    dirty = a_segment(fs, 2, [batch(2, (b"a", None))], COMPACT)
    run(plan(fs, clean, dirty, first_dirty_offset=2, end_offset=3))
    assert cleaned_rows(fs, 0) == [(1, b"b", b"1"), (2, b"a", None)]


def test_a_full_map_ends_the_round_earlier_and_the_next_one_goes_on() -> None:
    fs = memory_fs()
    batches = [batch(0, (b"a", b"1")), batch(1, (b"b", b"1")), batch(2, (b"a", b"2")), batch(3, (b"b", b"2"))]
    segment = a_segment(fs, 0, batches, COMPACT)
    limits = CleanerLimits(dedupe_buffer_bytes=2 * ENTRY_BYTES)
    outcome = run(plan(fs, segment, end_offset=4, limits=limits))
    assert outcome.end_offset == 2
    assert cleaned_rows(fs, 0) == [(0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"), (3, b"b", b"2")]
    second = run(plan(fs, segment, first_dirty_offset=2, end_offset=4, limits=limits))
    assert second.end_offset == 4
    assert cleaned_rows(fs, 0) == [(2, b"a", b"2"), (3, b"b", b"2")]


def test_a_batch_with_more_keys_than_the_map_may_hold_does_not_stop_compaction() -> None:
    fs = memory_fs()
    wide = batch(0, *[(b"%d" % n, b"1") for n in range(50)])
    segment = a_segment(fs, 0, [wide, batch(50, (b"0", b"2"))], COMPACT)
    outcome = run(plan(fs, segment, end_offset=51, limits=CleanerLimits(dedupe_buffer_bytes=ENTRY_BYTES)))
    assert outcome.end_offset == 50


def test_a_round_pauses_for_what_its_bytes_are_worth() -> None:
    fs = memory_fs()
    segment = a_segment(fs, 0, [batch(n, (b"%d" % n, bytes(SLICE_BYTES))) for n in range(4)], COMPACT)
    pauses: list[float] = []
    outcome = plan(fs, segment, end_offset=4, limits=CleanerLimits(bytes_per_second=1e6)).run(pauses.append)
    assert sum(pauses) == pytest.approx(outcome.bytes_moved / 1e6)
    assert outcome.bytes_moved == 3 * segment.size  # read for the map, read for the copy, written
    unlimited: list[float] = []
    plan(fs, segment, end_offset=4).run(unlimited.append)
    assert len(unlimited) == len(pauses)
    assert set(unlimited) == {0.0}


def test_damaged_data_is_an_outcome_with_a_reason_and_leaves_nothing_behind() -> None:
    fs = memory_fs()
    damaged = batch(1, (b"b", b"1"))
    damaged[-1] ^= 1
    segment = a_segment(fs, 0, [batch(0, (b"a", b"1")), damaged], COMPACT)
    outcome = run(plan(fs, segment, end_offset=2))
    assert outcome.failure is not None
    assert f"no valid batch at byte {len(batch(0, (b'a', b'1')))} of {segment.size}" in outcome.failure
    assert outcome.groups == ()
    assert names(fs, CLEANED) == []


def test_a_segment_that_went_away_meanwhile_is_no_failure() -> None:
    fs = memory_fs()
    segment = a_segment(fs, 0, [batch(0, (b"a", b"1"))], COMPACT)
    cleaning = plan(fs, segment, end_offset=1)
    segment.files.rename(".deleted")
    outcome = run(cleaning)
    assert outcome.abandoned
    assert outcome.failure is None


@pytest.mark.parametrize("operation", ["append", "sync", "sync_dir", "open", "read"])
def test_a_disk_that_fails_is_an_outcome_with_a_reason(operation: str) -> None:
    fs = memory_fs()
    segment = a_segment(fs, 0, [batch(0, (b"a", b"1"))], COMPACT)
    segment.close()
    fs.faults.append(Fault(operation, error=errno.EIO))
    outcome = run(plan(fs, segment, end_offset=1))
    assert outcome.failure is not None
    assert "Input/output error" in outcome.failure
    assert names(fs, CLEANED) == []


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_full_disk_is_no_failure_and_leaves_nothing_behind(suffix: str) -> None:
    fs = memory_fs()
    segment = a_segment(fs, 0, [batch(0, (b"a", b"1"))], COMPACT)
    segment.close()
    fs.faults.append(Fault("open", errno.ENOSPC, suffix + CLEANED))
    outcome = run(plan(fs, segment, end_offset=1))
    assert (outcome.failure, outcome.abandoned) == (None, True)
    assert outcome.no_room is not None
    assert "No space left" in outcome.no_room
    assert names(fs, CLEANED) == []


def test_everything_of_the_outcome_is_on_disk() -> None:
    fs = memory_fs()
    segments = [a_segment(fs, n, [batch(n, (b"%d" % n, b"1"))], COMPACT) for n in range(3)]
    run(plan(fs, *segments, end_offset=3))
    for seed in range(20):
        survivor = fs.crash(Random(seed))
        assert [name for name in names(fs, CLEANED) if not survivor.exists(f"{DIRECTORY}/{name}")] == []
        assert cleaned_rows(survivor, 0) == [(0, b"0", b"1"), (1, b"1", b"1"), (2, b"2", b"1")]


def source(base_offset: int, end_offset: int, size_bytes: int) -> Source:
    return Source(base_offset, end_offset, size_bytes, "")


def groups(sources: list[Source], config: LogConfig = COMPACT, below: int = 1 << 62) -> list[list[int]]:
    return [[one.base_offset for one in group] for group in group_sources(tuple(sources), config, below=below)]


def test_small_neighbours_are_merged_up_to_the_segment_size() -> None:
    config = replace(COMPACT, segment_bytes=100)
    sources = [source(0, 1, 60), source(1, 2, 40), source(2, 3, 1), source(3, 4, 100), source(4, 5, 0)]
    assert groups(sources, config) == [[0, 1], [2], [3, 4]]


def test_only_segments_that_the_map_has_reached_are_cleaned() -> None:
    assert groups([source(0, 5, 1), source(5, 9, 1), source(9, 12, 1)], below=9) == [[0, 5]]


def test_a_group_never_has_more_offsets_or_index_entries_than_a_segment_can_have() -> None:
    far = (1 << 31) - 100
    assert groups([source(0, 5, 1), source(5, far, 1), source(far, far + 50, 1)]) == [[0, 5], [far]]
    small_index = replace(COMPACT, index_interval_bytes=10, segment_index_bytes=12 * 11)
    assert groups([source(0, 1, 60), source(1, 2, 40), source(2, 3, 10)], small_index) == [[0, 1], [2]]


# How dirty a log is


def dirt(
    segments: list[Segment],
    fs: MemoryFileSystem,
    config: LogConfig = COMPACT,
    *,
    cleaned_to: int | None = None,
    log_start_offset: int = 0,
    last_stable_offset: int = 31,
    now_ms: int = NOW_MS,
) -> DirtyRange:
    return measure_dirt(
        fs,
        segments,
        config,
        cleaned_to=cleaned_to,
        log_start_offset=log_start_offset,
        log_end_offset=31,
        last_stable_offset=last_stable_offset,
        now_ms=now_ms,
    )


def four_segments(fs: MemoryFileSystem) -> list[Segment]:
    """One batch each at offsets 0, 10, 20, 30, with timestamps 1000, 2000, 3000, 4000; the last one is active."""
    return [a_segment(fs, n, [a_batch(n, timestamp=1000 + 100 * n)], COMPACT) for n in (0, 10, 20, 30)]


SIZE = len(a_batch(0))


@pytest.mark.parametrize(
    ("cleaned_to", "expected"),
    [
        (None, DirtyRange(0, 30, 0, 3 * SIZE, False)),
        (10, DirtyRange(10, 30, SIZE, 2 * SIZE, False)),
        (20, DirtyRange(20, 30, 2 * SIZE, SIZE, False)),
        (30, DirtyRange(30, 30, 3 * SIZE, 0, False)),
        (99, DirtyRange(0, 30, 0, 3 * SIZE, False)),  # beyond the log's end: worth nothing
    ],
)
def test_what_was_cleaned_before_is_clean(cleaned_to: int | None, expected: DirtyRange) -> None:
    fs = memory_fs()
    assert dirt(four_segments(fs), fs, cleaned_to=cleaned_to) == expected


def test_a_checkpoint_below_the_log_start_is_worth_nothing() -> None:
    fs = memory_fs()
    assert dirt(four_segments(fs), fs, cleaned_to=3, log_start_offset=10).first_dirty_offset == 10


@pytest.mark.parametrize(
    ("last_stable_offset", "end_offset"), [(31, 30), (30, 30), (29, 20), (20, 20), (19, 10), (0, 0)]
)
def test_the_range_ends_before_the_segment_with_the_last_stable_offset(
    last_stable_offset: int, end_offset: int
) -> None:
    fs = memory_fs()
    assert dirt(four_segments(fs), fs, last_stable_offset=last_stable_offset).end_offset == end_offset


@pytest.mark.parametrize(("now_ms", "end_offset"), [(5000, 30), (3500, 30), (3499, 20), (1500, 10), (1499, 0)])
def test_records_younger_than_the_minimum_lag_are_left_alone(now_ms: int, end_offset: int) -> None:
    fs = memory_fs()
    config = replace(COMPACT, min_compaction_lag_ms=500)
    assert dirt(four_segments(fs), fs, config, now_ms=now_ms).end_offset == end_offset


def test_a_log_is_due_above_the_dirty_ratio() -> None:
    at_half = DirtyRange(0, 10, clean_bytes=50, dirty_bytes=50, is_overdue=False)
    assert not at_half.is_due(COMPACT)
    assert at_half._replace(dirty_bytes=51).is_due(COMPACT)
    assert not DirtyRange(0, 0, 0, 0, False).is_due(COMPACT)


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_log_is_due_when_dirty_records_are_older_than_the_maximum_lag(*, is_reopened: bool) -> None:
    fs = memory_fs()
    config = replace(COMPACT, max_compaction_lag_ms=500, min_cleanable_dirty_ratio=1.0)
    segments = four_segments(fs)
    if is_reopened:
        files = OpenFiles(limit=100)
        segments = [
            Segment(fs, DIRECTORY, each.base_offset, each.size, COMPACT, open_files=files, now_ms=0)
            for each in segments
        ]
    assert not dirt(segments, fs, config, cleaned_to=20, now_ms=3500).is_due(config)
    assert dirt(segments, fs, config, cleaned_to=20, now_ms=3501).is_due(config)
    assert not dirt(segments, fs, config, cleaned_to=30, now_ms=9999).is_due(config)  # nothing dirty to clean
