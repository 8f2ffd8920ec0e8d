"""When the disk fails: nothing acknowledged is lost, nothing half-written is served."""

import errno
from collections.abc import Callable

import pytest

from headrace.log.chores import FlushPlan
from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.flush_round import run_plans
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem
from tests.support.log_batches import (
    EPOCH,
    NOW_MS,
    a_batch,
    append,
    end_transaction,
    records_of,
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


def quick_append(log: Log) -> None:
    append(log, b"quick")


def long_append(log: Log) -> None:
    append(log, b"long", producer=7)


def large_append(log: Log) -> None:
    append(log, b"large" * 30)


@pytest.mark.parametrize("do_append", [quick_append, long_append, large_append])
@pytest.mark.parametrize("written_bytes", [0, 1, 40, 61])
def test_a_failed_append_leaves_nothing_behind_and_can_be_tried_again(
    fs: MemoryFileSystem, log: Log, do_append: Callable[[Log], None], written_bytes: int
) -> None:
    log.roll(now_ms=NOW_MS)
    for _ in range(2):
        append(log, b"x")
    before, size = values_of(log), log.active.size
    fs.faults = [Fault("append", errno.ENOSPC, ".log", written_bytes=written_bytes)]
    with pytest.raises(StorageError, match=r"No space left on device.*Nothing of it was kept"):
        do_append(log)
    assert (log.log_end_offset, values_of(log), log.failure) == (8, before, None)
    assert fs.size_of(log.active.path(".log")) == size
    assert log.producers.get(7) is None
    do_append(log)
    assert log.log_end_offset == 9
    assert len(values_of(log)) == 9


@pytest.mark.parametrize("do_append", [quick_append, long_append, large_append])
def test_a_short_write_is_finished(fs: MemoryFileSystem, log: Log, do_append: Callable[[Log], None]) -> None:
    fs.faults = [Fault("append", error=0, path_end=".log", written_bytes=30)]
    do_append(log)
    assert len(values_of(log)) == 7
    assert reopened(fs, log).log_end_offset == 7


@pytest.mark.parametrize("do_append", [quick_append, long_append, large_append])
def test_a_short_write_that_cannot_be_finished_is_cut_off(
    fs: MemoryFileSystem, log: Log, do_append: Callable[[Log], None]
) -> None:
    fs.faults = [
        Fault("append", error=0, path_end=".log", written_bytes=30),
        Fault("append", errno.ENOSPC, ".log", written_bytes=10),
    ]
    with pytest.raises(StorageError, match="No space left"):
        do_append(log)
    assert len(values_of(log)) == 6
    do_append(log)
    assert len(values_of(reopened(fs, log))) == 7


def test_a_part_that_cannot_be_cut_off_ends_all_writing_but_no_reading(fs: MemoryFileSystem, log: Log) -> None:
    fs.faults = [Fault("append", path_end=".log", written_bytes=30), Fault("truncate", path_end=".log")]
    with pytest.raises(StorageError, match=r"takes no more writes: an append failed .* could not be cut off"):
        append(log, b"torn")
    expected = [b"v%d" % number for number in range(6)]
    for write in (
        lambda: append(log),
        lambda: log.roll(now_ms=NOW_MS),
        lambda: log.truncate_to(2),
        lambda: log.delete_segments(list(log.segments)[:1]),
        log.plan_flush,
        log.close,
    ):
        with pytest.raises(StorageError, match="Check the disk, then restart the broker"):
            write()
        assert values_of(log) == expected
    again = reopened(fs, log)
    assert values_of(again) == expected
    assert again.recovery_report is not None
    assert again.recovery_report.cut_bytes == 30
    append(again)


def test_a_failed_sync_is_never_tried_again(fs: MemoryFileSystem, log: Log) -> None:
    fs.faults = [Fault("sync", path_end=".log")]
    plan = log.plan_flush()
    assert plan is not None
    with pytest.raises(OSError, match="Input/output error") as caught:
        plan.run()
    plan.failed(caught.value)
    assert log.flushed_offset == 0
    for act in (lambda: append(log), log.plan_flush):
        with pytest.raises(StorageError, match="a sync failed"):
            act()
    assert log.take_chores() == []
    assert len(values_of(log)) == 6


@pytest.mark.parametrize(("operation", "path_end"), [("open", ".index"), ("open", ".snapshot"), ("sync_dir", "t-0")])
def test_a_flush_without_a_descriptor_for_a_file_is_tried_again(
    fs: MemoryFileSystem, log: Log, operation: str, path_end: str
) -> None:
    (chore,) = log.take_chores()
    assert isinstance(chore, FlushPlan)
    fs.faults = [Fault(operation, errno.EMFILE, path_end)]
    (error,) = run_plans([chore], map)
    assert error is not None
    chore.failed(error)
    assert (log.failure, log.recovery_point) == (None, 0)
    append(log, b"more")
    run_chores(log)
    assert log.recovery_point == log.segments.active.base_offset > 0


def test_a_failed_sync_counts_for_more_than_a_file_that_could_not_be_opened(fs: MemoryFileSystem, log: Log) -> None:
    (chore,) = log.take_chores()
    assert isinstance(chore, FlushPlan)
    fs.faults = [Fault("open", errno.EMFILE, ".index"), Fault("sync", errno.EIO, ".timeindex")]
    (error,) = run_plans([chore], map)
    assert error is not None
    chore.failed(error)
    assert "a sync failed" in str(log.failure)


@pytest.mark.parametrize("operation", ["append", "open"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".log"])
def test_a_roll_that_fails_leaves_the_log_as_it_was(fs: MemoryFileSystem, operation: str, suffix: str) -> None:
    if (operation, suffix) == ("append", ".log"):
        suffix = ".timeindex"
    log = Log.open(fs, DIRECTORY, LogConfig(index_interval_bytes=100), clean=False, now_ms=NOW_MS)
    for number in range(4):
        append(log, b"v%d" % number)
    fs.faults = [Fault(operation, errno.ENOSPC, suffix)]
    with pytest.raises(StorageError, match=r"cannot begin a new segment: .*Nothing was changed"):
        log.roll(now_ms=NOW_MS)
    assert (len(log.segments), log.failure) == (1, None)
    append(log, b"v4")
    log.roll(now_ms=NOW_MS)
    append(log, b"v5")
    assert values_of(log) == [b"v%d" % number for number in range(6)]
    log.close()
    again = Log.open(fs, DIRECTORY, LogConfig(), clean=True, now_ms=NOW_MS)
    assert values_of(again) == [b"v%d" % number for number in range(6)]


@pytest.mark.parametrize("forget", [Log.close, lambda log: log.active.close(), lambda log: log.roll(now_ms=NOW_MS)])
def test_what_is_appended_after_a_failed_roll_is_in_the_indexes(
    fs: MemoryFileSystem, forget: Callable[[Log], object]
) -> None:
    log = Log.open(fs, DIRECTORY, LogConfig(segment_bytes=400), clean=True, now_ms=NOW_MS)
    for _ in range(4):
        append(log)
    fs.faults = [Fault("open", errno.ENOSPC, "4.log")]
    with pytest.raises(StorageError, match="cannot begin a new segment"):
        append(log, b"large" * 30)
    append(log, b"small", timestamps=[NOW_MS + 1])
    forget(log)
    for segment in log.segments:
        segment.close()
    found = log.find_timestamp(NOW_MS + 1)
    assert found is not None
    assert found.offset == 4


def test_a_new_segment_that_can_neither_be_made_nor_removed_ends_all_writing(fs: MemoryFileSystem, log: Log) -> None:
    fs.faults = [Fault("truncate", path_end=".log"), Fault("remove", path_end=".log")]
    fs.open(f"{DIRECTORY}/{log.log_end_offset:020d}.log", create=True).append(b"left over")
    with pytest.raises(StorageError, match="could neither be made"):
        log.roll(now_ms=NOW_MS)
    assert log.failure is not None
    assert len(values_of(log)) == 6


def test_a_cut_that_fails_ends_all_writing(fs: MemoryFileSystem, log: Log) -> None:
    fs.faults = [Fault("sync", path_end=".log")]
    with pytest.raises(StorageError, match="truncation to offset 2 failed"):
        log.truncate_to(2)
    assert log.failure is not None


def test_a_close_that_fails_says_that_the_log_must_be_recovered(fs: MemoryFileSystem, log: Log) -> None:
    fs.faults = [Fault("sync", path_end=".log")]
    with pytest.raises(StorageError, match="closing it failed"):
        log.close()
    assert len(values_of(reopened(fs, log))) == 6


def test_a_directory_that_cannot_be_opened_is_reported(fs: MemoryFileSystem) -> None:
    fs.faults = [Fault("open", errno.EACCES)]
    with pytest.raises(StorageError, match=r"cannot open the log in /data/t-0: .*Permission denied"):
        Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)


def test_the_buffer_of_a_failed_append_can_be_sent_again(fs: MemoryFileSystem, log: Log) -> None:
    batch = a_batch(b"again")
    fs.faults = [Fault("append", path_end=".log")]
    with pytest.raises(StorageError):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    append(log, b"between")
    assert log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS).base_offset == 7


def an_abort(log: Log) -> None:
    end_transaction(log, commit=False, producer=7)


def a_transactional_append(log: Log) -> None:
    append(log, b"more", producer=7, sequence=2, transactional=True)


@pytest.mark.parametrize("do_append", [quick_append, an_abort, a_transactional_append])
@pytest.mark.parametrize(
    "unreadable", [".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", ".log"]
)
def test_what_an_append_cannot_read_refuses_it_before_it_is_written(
    fs: MemoryFileSystem, do_append: Callable[[Log], None], unreadable: str
) -> None:
    log = Log.open(fs, DIRECTORY, LogConfig(), clean=True, now_ms=NOW_MS)
    append(log, b"aborted", producer=7, transactional=True)
    end_transaction(log, commit=False, producer=7)
    append(log, b"open", producer=7, sequence=1, transactional=True)
    log.close()
    log = Log.open(fs, DIRECTORY, LogConfig(), clean=True, now_ms=NOW_MS)
    log.active.close()
    size = log.active.size
    for operation in ("read", "open"):
        fs.faults = [Fault(operation, errno.EMFILE, unreadable, times=9)]
        try:
            do_append(log)
            break  # it has not needed it
        except StorageError:
            assert (log.log_end_offset, log.active.size, log.failure) == (3, size, None)
    fs.faults = []
    append(log, b"last")
    values = [(record.offset, record.value) for record in records_of(log)]
    assert [offset for offset, _ in values] == list(range(log.log_end_offset))
    recovered = Log.open(fs, DIRECTORY, LogConfig(), clean=False, now_ms=NOW_MS)
    assert [(record.offset, record.value) for record in records_of(recovered)] == values


@pytest.mark.parametrize("unreadable", [".snapshot", ".txnindex"])
def test_what_a_reader_of_committed_data_cannot_read_is_his_error(fs: MemoryFileSystem, unreadable: str) -> None:
    log = Log.open(fs, DIRECTORY, LogConfig(), clean=True, now_ms=NOW_MS)
    append(log, b"aborted", producer=7, transactional=True)
    end_transaction(log, commit=False, producer=7)
    log.close()
    log = Log.open(fs, DIRECTORY, LogConfig(), clean=True, now_ms=NOW_MS)
    log.raise_high_watermark(2)

    def aborted() -> int:
        return len(log.aborted_transactions(0, log.last_stable_offset))

    fs.faults = [Fault("read", errno.EMFILE, unreadable)]
    with pytest.raises(StorageError, match="Too many open files"):
        aborted()
    assert aborted() == 1


def test_epochs_that_cannot_be_read_refuse_a_truncation_before_it_begins(fs: MemoryFileSystem, log: Log) -> None:
    log.close()
    log = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    fs.faults = [Fault("read", errno.EMFILE, "leader-epoch-checkpoint")]
    with pytest.raises(StorageError, match="Too many open files"):
        log.truncate_to(3)
    assert (log.log_end_offset, log.failure) == (6, None)
    assert log.truncate_to(3)
    assert log.log_end_offset == 3
