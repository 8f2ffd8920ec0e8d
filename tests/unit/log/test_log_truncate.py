"""Cutting a log: from its end, from its start, and altogether; what follows the cut and what comes back after it."""

import contextlib
from random import Random

import pytest

from headrace.log.config import LogConfig
from headrace.log.epochs import EpochEntry
from headrace.log.errors import OffsetOutOfRangeError
from headrace.log.log import Log
from headrace.log.memory_fs import MemoryFileSystem, PowerCut
from tests.support.log_batches import NOW_MS, append, end_transaction, flush, records_of, run_chores, values_of

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_dir("/data")
    fs.sync_dir("/")
    return fs


@pytest.fixture
def log(fs: MemoryFileSystem) -> Log:
    """Twenty batches of two records; a new leader for every five."""
    log = Log.open(fs, "/data/t-0", CONFIG, clean=False, now_ms=NOW_MS)
    for number in range(20):
        append(log, b"a%02d" % number, b"b%02d" % number, timestamps=[NOW_MS + number] * 2, epoch=number // 5)
    return log


def reopened(fs: MemoryFileSystem, log: Log, *, clean: bool = False) -> Log:
    return Log.open(
        fs,
        "/data/t-0",
        CONFIG,
        clean=clean,
        now_ms=NOW_MS,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
    )


def test_whole_batches_at_the_offset_and_behind_it_go(log: Log) -> None:
    for offset, end in ((39, 38), (37, 36), (36, 36), (21, 20), (1, 0)):
        assert log.truncate_to(offset)
        assert log.log_end_offset == end
        assert len(values_of(log)) == end
        append(log, b"new", b"new")
        assert log.log_end_offset == end + 2


def test_a_cut_at_or_behind_the_end_changes_nothing(log: Log) -> None:
    assert not log.truncate_to(40)
    assert not log.truncate_to(99)
    assert log.log_end_offset == 40


def test_what_is_known_of_the_batches_follows_the_cut(fs: MemoryFileSystem, log: Log) -> None:
    run_chores(log)
    flush(log)
    log.raise_high_watermark(40)
    log.truncate_to(23)
    assert (log.high_watermark, log.flushed_offset) == (22, 22)
    assert log.recovery_point <= 22
    assert log.epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(2, 20)]
    found = log.max_timestamp()
    assert found is not None
    assert (found.timestamp, found.offset) == (NOW_MS + 10, 20)
    assert log.find_timestamp(NOW_MS + 11) is None
    run_chores(log)
    assert all(int(name[:20]) <= 22 for name in fs.list_dir("/data/t-0") if name[0] == "0")


def test_producers_are_as_they_were_at_the_cut(log: Log) -> None:
    append(log, b"1", producer=7)
    append(log, b"2", producer=7, sequence=1)
    log.roll(now_ms=NOW_MS)
    append(log, b"3", producer=7, sequence=2)
    append(log, b"4", producer=8)
    log.truncate_to(42)
    assert log.producers.get(8) is None
    assert append(log, b"2", producer=7, sequence=1).duplicate
    assert append(log, b"3", producer=7, sequence=2).base_offset == 42


def test_a_cut_reopens_a_transaction_and_forgets_its_abort(log: Log) -> None:
    append(log, producer=7, transactional=True)
    append(log)
    end_transaction(log, commit=False, producer=7)
    log.raise_high_watermark(43)
    assert (log.last_stable_offset, len(log.aborted_transactions(0, 43))) == (43, 1)
    log.truncate_to(42)
    assert (log.last_stable_offset, log.aborted_transactions(0, 43)) == (40, [])
    end_transaction(log, commit=True, producer=7)
    log.raise_high_watermark(43)
    assert (log.last_stable_offset, log.aborted_transactions(0, 43)) == (43, [])


def test_a_cut_back_into_a_sealed_segment_makes_it_active_again(fs: MemoryFileSystem, log: Log) -> None:
    run_chores(log)
    log.truncate_to(3)
    assert len(log.segments) == 1
    for number in range(10):
        append(log, b"n%02d" % number)
    expected = records_of(log)
    log.close()
    assert records_of(reopened(fs, log, clean=True)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_what_was_cut_off_does_not_come_back_after_a_crash(fs: MemoryFileSystem, log: Log, seed: int) -> None:
    run_chores(log)
    flush(log)
    log.truncate_to(10)
    append(log, b"other", b"past")
    again = reopened(fs.crash(Random(seed)), log)
    assert again.log_end_offset in (10, 12)
    assert values_of(again) == values_of(log)[: again.log_end_offset]


def test_a_power_cut_in_the_middle_of_a_cut_leaves_no_hole() -> None:
    """Found by the model test: a crash kept a segment behind one that it had removed."""
    for step in range(40):
        fs = MemoryFileSystem()
        fs.make_dir("/data")
        fs.sync_dir("/")
        log = Log.open(fs, "/data/t-0", CONFIG, clean=False, now_ms=NOW_MS)
        for number in range(25):
            append(log, b"v%02d" % number)
        run_chores(log)
        flush(log)
        recovery_point, expected = log.recovery_point, values_of(log)
        fs.power_steps = step
        with contextlib.suppress(PowerCut):
            log.truncate_to(7)
        for seed in range(5):
            survivor = fs.crash(Random(seed))
            again = Log.open(survivor, "/data/t-0", CONFIG, clean=False, now_ms=NOW_MS, recovery_point=recovery_point)
            survived = values_of(again)
            assert len(survived) >= 7
            assert survived == expected[: len(survived)]


def test_a_restart_drops_everything_and_goes_on_at_the_offset(fs: MemoryFileSystem, log: Log) -> None:
    append(log, producer=7)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1000, 1000, 1000)
    assert (log.epochs.entries, len(log.producers), log.size_bytes) == ([], 0, 0)
    assert append(log, b"first").base_offset == 1000
    log.close()
    again = reopened(fs, log, clean=True)
    assert (again.log_start_offset, values_of(again)) == (1000, [b"first"])


def test_a_cut_before_the_first_segment_is_a_restart(log: Log) -> None:
    log.truncate_fully_and_start_at(1000)
    append(log)
    assert log.truncate_to(500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)


# From the start


def test_the_log_start_moves_forward_up_to_the_high_watermark(log: Log) -> None:
    log.raise_high_watermark(30)
    log.advance_log_start(13)
    log.advance_log_start(12)
    assert log.log_start_offset == 13
    assert log.epochs.entries[0] == EpochEntry(1, 13)
    with pytest.raises(OffsetOutOfRangeError):
        log.advance_log_start(31)
    assert log.read(13, max_bytes=1).first_offset == 12, "the batch is not cut: readers skip what they did not ask for"


def test_deleted_segments_are_renamed_at_once_and_removed_as_a_chore(fs: MemoryFileSystem, log: Log) -> None:
    run_chores(log)
    log.raise_high_watermark(40)
    doomed = list(log.segments)[:2]
    start = log.segments[2].base_offset
    log.delete_segments(doomed)
    assert log.log_start_offset == start
    deleted = [name for name in fs.list_dir("/data/t-0") if name.endswith(".deleted")]
    assert len(deleted) == 6
    run_chores(log)
    assert not any(name.endswith(".deleted") for name in fs.list_dir("/data/t-0"))
    assert all(int(name[:20]) >= start for name in fs.list_dir("/data/t-0") if name[0] == "0")


def test_producers_outlive_the_segments_that_they_wrote(fs: MemoryFileSystem, log: Log) -> None:
    append(log, b"1", producer=7, transactional=True)
    log.roll(now_ms=NOW_MS)
    append(log)
    log.raise_high_watermark(log.log_end_offset)
    run_chores(log)
    log.delete_segments(list(log.segments)[:-1])
    run_chores(log)
    for seed in range(10):
        again = reopened(fs.crash(Random(seed)), log)
        assert again.producers.get(7) is not None
        assert again.first_unstable_offset == again.log_start_offset
    log.truncate_to(log.log_start_offset)
    assert log.producers.get(7) is not None


def test_a_close_does_not_endanger_what_only_a_snapshot_knows(fs: MemoryFileSystem) -> None:
    """Found by the model test: the snapshot was written anew by a close, and not synced."""
    log = Log.open(fs, "/data/t-0", CONFIG, clean=False, now_ms=NOW_MS)
    append(log, b"1", producer=7)
    log.roll(now_ms=NOW_MS)
    run_chores(log)
    log.raise_high_watermark(1)
    log.delete_segments([log.segments[0]])
    log.close()
    for seed in range(30):
        assert reopened(fs.crash(Random(seed)), log, clean=True).producers.get(7) is not None


def test_producers_are_kept_even_if_no_snapshot_was_left(fs: MemoryFileSystem, log: Log) -> None:
    """Found by the model test: an interrupted truncation had dropped the snapshots."""
    append(log, b"1", producer=7)
    log.roll(now_ms=NOW_MS)
    append(log)
    log.close()
    for name in fs.list_dir("/data/t-0"):
        if name.endswith(".snapshot"):
            fs.remove(f"/data/t-0/{name}")
    again = reopened(fs, log, clean=True)
    again.raise_high_watermark(again.log_end_offset)
    again.delete_segments(list(again.segments)[:-1])
    again.truncate_to(again.log_start_offset)
    assert again.producers.get(7) is not None
    for seed in range(10):
        assert reopened(fs.crash(Random(seed)), again).producers.get(7) is not None


def test_segments_that_a_crash_brought_back_are_deleted_again(fs: MemoryFileSystem, log: Log) -> None:
    run_chores(log)
    flush(log)
    log.raise_high_watermark(40)
    log.delete_segments(list(log.segments)[:3])
    start = log.log_start_offset
    for seed in range(10):
        again = reopened(fs.crash(Random(seed)), log)
        assert again.segments[0].base_offset == start
        assert values_of(again) == values_of(log)


def test_a_log_start_behind_all_that_survived_begins_the_log_anew(fs: MemoryFileSystem, log: Log) -> None:
    log.raise_high_watermark(40)
    log.advance_log_start(40)
    lost_all = MemoryFileSystem()
    lost_all.make_dir("/data")
    again = Log.open(lost_all, "/data/t-0", CONFIG, clean=False, now_ms=NOW_MS, log_start_offset=40)
    assert (again.log_start_offset, again.log_end_offset) == (40, 40)
    lost_some = Log.open(fs, "/data/t-0", CONFIG, clean=False, now_ms=NOW_MS, log_start_offset=77)
    assert (lost_some.log_start_offset, lost_some.log_end_offset, lost_some.size_bytes) == (77, 77, 0)
