"""Logs that are deleted: their files, and their names in checkpoints."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from headrace.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, read_offsets
from headrace.log.errors import StorageError
from headrace.log.fs import FileSystem, RealFileSystem
from headrace.log.memory_fs import Fault
from tests.support.compaction import COMPACT
from tests.support.data_directory import DATA, ID, ORDERS, a_directory, append, flush, values
from tests.support.segments import memory_fs


def test_a_deleted_log_is_gone_for_good_and_its_files_go_later() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"1")
    directory.delete(ORDERS, now_ms=1000)
    assert list(directory) == []
    assert directory.get(ORDERS, now_ms=0) is None
    assert directory.take_chores(now_ms=60_999) == []
    (chore,) = directory.take_chores(now_ms=61_000)
    assert directory.take_chores(now_ms=61_000) == []
    chore.run()
    chore.done()
    assert not [name for name in fs.list_dir(DATA) if name.startswith("orders")]


def test_the_files_of_a_deleted_log_stay_as_long_as_its_newest_config_says() -> None:
    directory = a_directory(memory_fs(DATA))
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    log.update_config(replace(log.config, file_delete_delay_ms=5))
    directory.delete(ORDERS, now_ms=1000)
    assert directory.take_chores(now_ms=1004) == []
    assert len(directory.take_chores(now_ms=1005)) == 1


def test_what_the_last_process_deleted_is_removed_at_once() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    directory.create(ORDERS, topic_id=ID, now_ms=0)
    directory.delete(ORDERS, now_ms=0)
    directory.close()
    again = a_directory(fs)
    for chore in again.take_chores(now_ms=0):
        chore.run()
    assert not [name for name in fs.list_dir(DATA) if name.startswith("orders")]


def test_a_reader_keeps_the_bytes_of_a_log_that_is_deleted_under_it(tmp_path: Path) -> None:
    directory = a_directory(RealFileSystem(), path=str(tmp_path))
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1")
    slice_ = log.read(0, max_bytes=1000)
    directory.delete(ORDERS, now_ms=0)
    for chore in directory.take_chores(now_ms=10**9):
        chore.run()
    assert len(slice_.read()) == len(slice_) > 0
    directory.close()


def test_a_name_that_is_used_again_begins_anew() -> None:
    fs = memory_fs(DATA)
    config = replace(COMPACT, file_delete_delay_ms=0)
    directory = a_directory(fs, config=config)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2", b"3")
    log.advance_log_start(2)
    directory.cleaner.cleaned_to[ORDERS] = 2
    directory.plan_checkpoint().run()
    directory.delete(ORDERS, now_ms=0)
    log = directory.create(ORDERS, topic_id=ID[::-1], now_ms=0)
    for name in ("recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset"):
        assert b"orders" not in fs.read_bytes(f"{DATA}/{name}-checkpoint")
    assert directory.cleaner.cleaned_to == {}
    append(log, b"4")
    flush(log)
    for seed in range(30):
        again = a_directory(fs.crash(Random(seed)), config=config)
        log_again = again.get(ORDERS, now_ms=0)
        assert values(log_again) == [b"4"]
        assert again.topic_id(ORDERS) == ID[::-1]


def stale_start_offset(fs: FileSystem) -> bool:
    return ORDERS in read_offsets(fs, f"{DATA}/{LOG_STARTS}")


def test_a_checkpoint_of_before_a_deletion_comes_too_late_for_the_name_to_come_back() -> None:
    """The worker has a plan with the old log in it, and runs it when the new log is there."""
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2", b"3")
    log.advance_log_start(2)
    plan = directory.plan_checkpoint()
    directory.delete(ORDERS, now_ms=0)
    append(directory.create(ORDERS, topic_id=ID[::-1], now_ms=0), b"4")
    plan.run()
    assert not stale_start_offset(fs)


def test_a_name_stays_stale_until_every_checkpoint_without_it_is_written() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2", b"3")
    log.advance_log_start(2)
    directory.plan_checkpoint().run()
    directory.delete(ORDERS, now_ms=0)
    plan = directory.plan_checkpoint()  # without it, but the disk is full
    fs.faults.append(Fault("append", path_end=f"{LOG_STARTS}.tmp"))
    with pytest.raises(OSError, match="log-start"):
        plan.run()
    directory.plan_checkpoint(RECOVERY_POINTS).run()
    assert stale_start_offset(fs)
    directory.create(ORDERS, topic_id=ID[::-1], now_ms=0)
    assert not stale_start_offset(fs)


def test_a_name_that_the_checkpoints_have_forgotten_is_as_good_as_new() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"1")
    directory.delete(ORDERS, now_ms=0)
    directory.plan_checkpoint().run()
    renames = Fault("rename")
    fs.faults.append(renames)
    directory.create(ORDERS, topic_id=ID, now_ms=0)
    assert fs.faults == [renames]


def test_a_name_that_was_stale_at_the_start_is_taken_out_of_the_checkpoints() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2", b"3")
    log.advance_log_start(2)
    directory.close()
    fs.remove_tree(f"{DATA}/orders-0")
    again = a_directory(fs)
    append(again.create(ORDERS, topic_id=ID, now_ms=0), b"4")
    assert not stale_start_offset(fs)


def test_a_disk_that_fails_to_delete_says_so() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    directory.create(ORDERS, topic_id=ID, now_ms=0)
    fs.faults.append(Fault("rename"))
    with pytest.raises(StorageError, match="cannot delete data/orders-0"):
        directory.delete(ORDERS, now_ms=0)
