"""What flushes, rolls and closes make durable, and when: nothing acknowledged is lost, nothing is synced twice."""

from random import Random

import pytest

from headrace.log.chores import FlushPlan
from headrace.log.config import LogConfig
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem
from tests.support.log_batches import (
    EPOCH,
    NOW_MS,
    append,
    flush,
    run_chores,
    values_of,
)

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


DIRECTORY = "/data/t-0"


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_dir("/data")
    fs.sync_dir("/")
    return fs


@pytest.fixture
def log(fs: MemoryFileSystem) -> Log:
    log = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    for number in range(6):
        append(log, b"v%d" % number)
    return log


def reopened(fs: MemoryFileSystem, log: Log) -> Log:
    return Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=log.recovery_point)


def test_rolled_segments_are_made_durable_as_a_chore(fs: MemoryFileSystem, log: Log) -> None:
    log.roll(now_ms=NOW_MS)
    append(log, b"unsynced")
    assert (log.flushed_offset, log.recovery_point) == (0, 0)
    run_chores(log)
    assert (log.flushed_offset, log.recovery_point) == (6, 6)
    assert log.take_chores() == []
    for seed in range(20):
        again = reopened(fs.crash(Random(seed)), log)
        assert values_of(again)[:6] == values_of(log)[:6]


def test_a_flush_covers_what_was_there_when_it_was_planned(fs: MemoryFileSystem, log: Log) -> None:
    plan = log.plan_flush()
    assert plan is not None
    append(log, b"later")
    plan.run()
    plan.done()
    assert log.flushed_offset == 6
    assert log.plan_flush() is not None
    flush(log)
    assert log.flushed_offset == 7
    assert log.plan_flush() is None


def test_a_flush_that_a_cut_has_overtaken_promises_nothing(fs: MemoryFileSystem, log: Log) -> None:
    plan = log.plan_flush()
    assert plan is not None
    plan.run()
    log.truncate_to(2)
    for _ in range(4):
        append(log, b"other past")
    plan.done()
    assert log.flushed_offset <= 2


def test_the_second_flush_of_an_active_segment_syncs_one_file_and_nothing_else(fs: MemoryFileSystem, log: Log) -> None:
    flush(log)
    append(log)
    plan = log.plan_flush()
    assert isinstance(plan, FlushPlan)
    assert (len(plan.files), plan.paths, plan.epochs, plan.directories) == (1, (), None, ())


def test_a_new_epoch_is_durable_with_the_flush_of_its_first_record(fs: MemoryFileSystem, log: Log) -> None:
    flush(log)
    log.assign_epoch(EPOCH + 1)
    append(log, epoch=EPOCH + 1)
    flush(log)
    for seed in range(10):
        again = Log.open(fs.crash(Random(seed)), DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
        assert again.epochs.latest_epoch == EPOCH + 1


def test_an_epoch_without_records_is_no_reason_to_write(fs: MemoryFileSystem, log: Log) -> None:
    log.close()
    again = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    again.assign_epoch(EPOCH + 1)
    assert again.epochs.latest_epoch == EPOCH + 1
    assert again.plan_flush() is None
    steps = fs.steps
    again.close()
    assert fs.steps == steps


def test_a_log_that_was_cut_to_nothing_is_closed_as_any_other(fs: MemoryFileSystem, log: Log) -> None:
    append(log, epoch=EPOCH + 1)
    log.close()
    again = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    again.truncate_to(0)
    again.close()
    after = Log.open(fs.crash(Random(0)), DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    assert (after.log_end_offset, after.epochs.entries) == (0, [])


def test_of_many_stops_one_snapshot_of_producers_is_left(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(3):
        append(log, b"more", producer=7, sequence=number)
        log.close()
        log = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    found = {int(name.split(".")[0]) for name in fs.list_dir(DIRECTORY) if name.endswith(".snapshot")}
    assert found - {segment.base_offset for segment in log.segments} == {log.log_end_offset}
    append(log, b"more", producer=7, sequence=3)


def test_closing_an_untouched_log_writes_nothing(fs: MemoryFileSystem, log: Log) -> None:
    log.close()
    again = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    values_of(again)
    steps = fs.steps
    again.close()
    assert fs.steps == steps


def test_a_killed_broker_may_never_have_synced_a_name(fs: MemoryFileSystem) -> None:
    """Found by the model test: the successor believed that the directory was safe."""
    Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    log = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    append(log)
    flush(log)
    for seed in range(20):
        assert reopened(fs.crash(Random(seed)), log).log_end_offset == 1


def test_a_segment_is_never_named_before_the_one_before_it_is_safe(fs: MemoryFileSystem) -> None:
    """Found by the model test: a crash kept the second segment and lost the first."""
    log = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    append(log, b"first")
    log.roll(now_ms=NOW_MS)
    append(log, b"second")
    for seed in range(50):
        assert values_of(reopened(fs.crash(Random(seed)), log)) in ([], [b"first"], [b"first", b"second"])


def test_indexes_of_a_segment_that_was_flushed_and_then_rolled_are_rebuilt(fs: MemoryFileSystem) -> None:
    """Found by the model test: all batches were below the flushed offset, but the index files were not synced."""
    log = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    append(log, timestamps=[NOW_MS + 5])
    flush(log)
    log.roll(now_ms=NOW_MS)
    for seed in range(20):
        found = reopened(fs.crash(Random(seed)), log).find_timestamp(NOW_MS + 1)
        assert found is not None
        assert found.offset == 0


def test_files_written_by_a_close_have_safe_names(fs: MemoryFileSystem, log: Log) -> None:
    """Found by the model test: a close after a flush did not sync the names of the index files."""
    flush(log)
    log.close()
    for seed in range(20):
        names = set(fs.crash(Random(seed)).list_dir(DIRECTORY))
        assert names == set(fs.list_dir(DIRECTORY))


def test_a_log_closed_in_its_first_segment_and_continued_is_recovered_from_there(fs: MemoryFileSystem) -> None:
    """Found by the model test: the recovery point of a closed log was its end, which a roll made a segment's start."""
    log = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    append(log, timestamps=[NOW_MS + 9])
    log.close()
    closed_at = log.recovery_point
    log = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS, recovery_point=closed_at)
    log.roll(now_ms=NOW_MS)
    append(log, timestamps=[NOW_MS])
    for seed in range(20):
        again = Log.open(
            fs.crash(Random(seed)), DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=closed_at
        )
        found = again.find_timestamp(NOW_MS + 9)
        assert found is not None
        assert found.offset == 0


@pytest.mark.parametrize(
    "how", ["not flushed", "flushed", "flushed before it was cut", "opened again", "killed and opened again"]
)
def test_producers_of_deleted_segments_are_known_after_a_power_cut(fs: MemoryFileSystem, log: Log, how: str) -> None:
    def write(first_sequence: int) -> None:
        for sequence in range(first_sequence, 4):
            append(log, b"v", producer=7, sequence=sequence)
        log.roll(now_ms=NOW_MS)

    flush(log)  # its name, at least, is safe
    write(0)
    if how == "flushed before it was cut":
        chores = log.take_chores()
        for chore in chores:
            chore.run()
        log.truncate_to(log.log_end_offset - 2)
        write(2)
        for chore in chores:
            chore.done()
    elif how in ("flushed", "opened again"):
        run_chores(log)
    if how.endswith("opened again"):
        log = reopened(fs, log)
    if how in ("flushed", "opened again"):
        fs.faults += [Fault("sync"), Fault("sync_dir")]
    log.delete_segments(list(log.segments)[:-1])
    fs.faults.clear()
    for seed in range(20):
        again = reopened(fs.crash(Random(seed)), log)
        assert append(again, b"v", producer=7, sequence=3).duplicate


def test_snapshots_that_are_gone_are_not_waited_for(log: Log) -> None:
    for _ in range(5):
        append(log, b"v", producer=7, sequence=log.log_end_offset - 6)
        log.roll(now_ms=NOW_MS)
    log.truncate_to(7)
    history = log.producer_history
    assert set(history._unsynced) <= set(history.snapshot_offsets)
