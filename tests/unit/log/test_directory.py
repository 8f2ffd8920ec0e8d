"""A data directory: names, lock, clean and unclean starts, checkpoints, creation and deletion, bounded open files."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, TopicPartition, read_offsets
from headrace.log.chores import Step
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.directory_names import (
    DirectoryState,
    PartitionDirectory,
    deleted_name,
    directory_name,
    parse_directory_name,
)
from headrace.log.errors import LockedError, StorageError
from headrace.log.flush_round import run_plans
from headrace.log.fs import FileSystem, RealFileSystem
from headrace.log.log import Log
from headrace.log.memory_fs import Fault
from headrace.log.meta_properties import MetaProperties
from headrace.protocol.records import NewRecord, build_batch
from tests.support.compaction import COMPACT, read_all
from tests.support.segments import memory_fs

DATA = "data"
HEX = "0123456789abcdef" * 2
ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)
USERS = TopicPartition("users", 3)


def a_directory(
    fs: FileSystem, *, path: str = DATA, config: LogConfig | None = None, now_ms: int = 0, max_open_files: int = 64
) -> LogDirectory:
    return LogDirectory.open(fs, path, lambda _: config or LogConfig(), now_ms=now_ms, max_open_files=max_open_files)


def append(log: Log | None, *values: bytes) -> None:
    assert log is not None
    for value in values:
        log.append(build_batch([NewRecord(0, b"k", value)]), leader_epoch=0, now_ms=0)
    log.raise_high_watermark(log.log_end_offset)


def values(log: Log | None) -> list[bytes | None]:
    assert log is not None
    return [record.value for record in read_all(log)]


def flush(log: Log) -> None:
    plan = log.plan_flush()
    if plan is not None:
        plan.run()
        plan.done()


# Names


@pytest.mark.parametrize(
    ("name", "partition", "state"),
    [
        ("orders-3", TopicPartition("orders", 3), DirectoryState.LIVE),
        ("a.b-c_d-e-12", TopicPartition("a.b-c_d-e", 12), DirectoryState.LIVE),
        ("orders-3-0", TopicPartition("orders-3", 0), DirectoryState.LIVE),
        ("x-delete-1", TopicPartition("x-delete", 1), DirectoryState.LIVE),
        (f"orders-3.{HEX}-delete", TopicPartition("orders", 3), DirectoryState.DELETED),
        (f"a.b-3.{HEX}-future", TopicPartition("a.b", 3), DirectoryState.FUTURE),
        (f"orders-3.{HEX}-stray", TopicPartition("orders", 3), DirectoryState.STRAY),
        (f"orders-3.{HEX}-delete-0", TopicPartition(f"orders-3.{HEX}-delete", 0), DirectoryState.LIVE),
        ("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0), DirectoryState.LIVE),
    ],
)
def test_a_directory_name_says_partition_and_state(name: str, partition: TopicPartition, state: DirectoryState) -> None:
    assert parse_directory_name(name) == PartitionDirectory(partition, state)


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "orders",
        "orders-",
        "-3",
        "orders-x",
        "orders-03",
        "orders--3x",
        "orders-3.abc-delete",
        ".lock",
        "a b-0",
    ],
)
def test_other_names_are_no_partitions(name: str) -> None:
    assert parse_directory_name(name) is None


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
@settings(max_examples=200, deadline=None)
def test_names_are_read_back(topic: str, number: int) -> None:
    partition = TopicPartition(topic, number)
    assert parse_directory_name(directory_name(partition)) == PartitionDirectory(partition, DirectoryState.LIVE)
    deleted = deleted_name(partition, HEX)
    assert len(deleted) <= 255
    parsed = parse_directory_name(deleted)
    assert parsed is not None
    assert parsed.state is DirectoryState.DELETED
    assert partition.topic.startswith(parsed.partition.topic)


def test_the_name_of_a_deleted_directory_is_cut_to_what_file_systems_allow() -> None:
    name = deleted_name(TopicPartition("t" * 249, 1234567), HEX)
    assert len(name) == 255
    assert name.endswith(f"t-1234567.{HEX}-delete")


# Opening and closing


def test_logs_survive_a_clean_stop_and_are_opened_when_asked_for() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    assert not directory.was_clean  # a new directory has nothing to recover, and nobody has closed it
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"1", b"2")
    append(directory.create(USERS, topic_id=ID, now_ms=0), b"3")
    directory.close(broker_epoch=7)
    again = a_directory(fs)
    assert (again.was_clean, again.broker_epoch) == (True, 7)
    assert list(again) == [ORDERS, USERS]
    assert again.opened == {}
    assert values(again.get(ORDERS, now_ms=0)) == [b"1", b"2"]
    assert list(again.opened) == [ORDERS]
    assert again.topic_id(USERS) == ID
    assert again.get(TopicPartition("nobody", 0), now_ms=0) is None
    assert not fs.exists(f"{DATA}/.kafka_cleanshutdown")


def test_many_logs_can_be_closed_by_several_threads(tmp_path: Path) -> None:
    fs = RealFileSystem()
    places = [TopicPartition("orders", index) for index in range(150)]
    directory = a_directory(fs, path=str(tmp_path))
    for place in places:
        append(directory.create(place, topic_id=ID, now_ms=0), b"%d" % place.partition)
    with ThreadPoolExecutor(4) as pool:
        directory.close(run_all=pool.map)
    again = a_directory(fs, path=str(tmp_path))
    assert again.was_clean
    assert [values(again.get(place, now_ms=0)) for place in places] == [[b"%d" % place.partition] for place in places]
    again.close()


def test_a_log_that_never_held_anything_is_not_synced_before_it_does() -> None:
    for seed in range(20):
        fs = memory_fs(DATA)
        directory = a_directory(fs)
        log = directory.create(ORDERS, topic_id=ID, now_ms=0)
        log.assign_epoch(0)
        assert log.plan_close() is None
        directory.close()
        again = a_directory(fs)
        assert again.was_clean
        log = again.get(ORDERS, now_ms=0) or again.create(ORDERS, topic_id=ID, now_ms=0)
        append(log, b"1")
        flush(log)
        after = a_directory(fs.crash(Random(seed)))
        assert values(after.get(ORDERS, now_ms=0)) == [b"1"]
        assert after.topic_id(ORDERS) == ID


def test_a_directory_that_many_logs_share_is_synced_once_by_a_round_of_flushes() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    logs = [directory.create(TopicPartition("orders", index), topic_id=ID, now_ms=0) for index in range(5)]
    for log in logs:
        append(log, b"1")
    plans = [plan for log in logs if (plan := log.plan_flush()) is not None]
    synced: list[str] = []

    def run_all(attempt: Callable[[Step], OSError | None], steps: Iterable[Step]) -> list[OSError | None]:
        steps = list(steps)
        synced.extend(step.args[0] for step in steps if isinstance(step, partial) and step.func == fs.sync_dir)
        return [attempt(step) for step in steps]

    assert run_plans(plans, run_all) == [None] * 5
    assert sorted(synced) == sorted([DATA, *(log.directory for log in logs)])


def test_a_flush_that_fails_within_a_round_does_not_concern_the_others() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    logs = [directory.create(TopicPartition("orders", index), topic_id=ID, now_ms=0) for index in range(3)]
    for log in logs:
        append(log, b"1")
    plans = [plan for log in logs if (plan := log.plan_flush()) is not None]
    fs.faults = [Fault("sync", path_end="orders-1/00000000000000000000.log")]
    outcomes = run_plans(plans, map)
    assert [type(outcome) for outcome in outcomes] == [type(None), OSError, type(None)]
    after = a_directory(fs.crash(Random(1)))
    assert [values(after.get(TopicPartition("orders", index), now_ms=0)) for index in (0, 2)] == [[b"1"], [b"1"]]


def test_a_log_that_cannot_be_synced_when_it_closes_is_told_and_the_others_are_closed() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    for place in (ORDERS, USERS):
        append(directory.create(place, topic_id=ID, now_ms=0), b"1")
    fs.faults = [Fault("sync", path_end="orders-0/00000000000000000000.log")]
    with pytest.raises(StorageError, match=r"orders-0 takes no more writes: closing it failed"):
        directory.close()
    survivor = a_directory(fs.crash(Random(0)))
    assert not survivor.was_clean
    assert values(survivor.get(USERS, now_ms=0)) == [b"1"]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    first = a_directory(RealFileSystem(), path=str(tmp_path))
    with pytest.raises(LockedError, match=r"\.lock is locked by another process\. Stop that process, or use another"):
        a_directory(RealFileSystem(), path=str(tmp_path))
    first.close()
    a_directory(RealFileSystem(), path=str(tmp_path)).close()


def test_an_opening_that_fails_gives_the_lock_back() -> None:
    fs = memory_fs(DATA)
    a_directory(fs).close()
    fs.faults.append(Fault("remove", path_end=".kafka_cleanshutdown"))
    with pytest.raises(StorageError, match="cannot open the data directory data"):
        a_directory(fs)
    a_directory(fs).close()


def test_after_an_unclean_stop_all_logs_are_recovered_at_once() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2")
    flush(log)
    directory.plan_checkpoint().run()
    append(log, b"3")
    for seed in range(10):
        survivor = fs.crash(Random(seed))
        again = a_directory(survivor)
        assert not again.was_clean
        assert list(again.opened) == [ORDERS]
        assert values(again.get(ORDERS, now_ms=0)) in ([b"1", b"2"], [b"1", b"2", b"3"])
        again.close()
        assert a_directory(survivor).was_clean


def test_a_log_that_nobody_asked_for_stays_as_it_was() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"1")
    log = directory.create(USERS, topic_id=ID, now_ms=0)
    append(log, b"2", b"3")
    log.advance_log_start(1)
    directory.close()
    second = a_directory(fs)
    second.get(ORDERS, now_ms=0)
    second.close()
    third = a_directory(fs)
    assert third.was_clean
    log_of_users = third.get(USERS, now_ms=0)
    assert log_of_users is not None
    assert (log_of_users.log_start_offset, log_of_users.high_watermark, log_of_users.log_end_offset) == (1, 2, 2)


def test_checkpoints_bring_back_start_watermark_and_recovery_point() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2", b"3")
    log.roll(now_ms=0)
    log.advance_log_start(2)
    flush(log)
    directory.plan_checkpoint().run()
    assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 3\n"
    assert fs.read_bytes(f"{DATA}/log-start-offset-checkpoint") == b"0\n1\norders 0 2\n"
    assert fs.read_bytes(f"{DATA}/replication-offset-checkpoint") == b"0\n1\norders 0 3\n"
    assert fs.read_bytes(f"{DATA}/cleaner-offset-checkpoint") == b"0\n0\n"
    again = a_directory(fs.crash(Random(1))).get(ORDERS, now_ms=0)
    assert again is not None
    assert (again.log_start_offset, again.high_watermark, again.recovery_point) == (2, 3, 3)


def test_a_checkpoint_that_cannot_be_read_is_reported_and_done_without() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"1")
    directory.close()
    fs.write_atomically(f"{DATA}/recovery-point-offset-checkpoint", b"0\n2\norders 0 1\n")
    again = a_directory(fs)
    (warning,) = again.warnings
    assert warning.startswith(
        "data/recovery-point-offset-checkpoint, line 2: 2 lines announced, there are 1. It is ignored"
    )
    assert values(again.get(ORDERS, now_ms=0)) == [b"1"]


def test_a_recovery_point_beyond_the_log_is_not_believed() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1")
    log.roll(now_ms=0)
    append(log, b"2")
    flush(log)
    file = fs.open(f"{DATA}/orders-0/{0:020d}.log")
    damaged = file.read(0, file.size)[:-1] + b"?"
    file.truncate(0)
    file.append(damaged)
    fs.write_atomically(f"{DATA}/recovery-point-offset-checkpoint", b"0\n1\norders 0 1000\n")
    file.sync()
    again = a_directory(fs.crash(Random(0)))
    assert values(again.get(ORDERS, now_ms=0)) == []  # the damage was found, though far below the recovery point


def test_a_log_that_cannot_be_opened_does_not_keep_the_others() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"1")
    append(directory.create(USERS, topic_id=ID, now_ms=0), b"2")
    directory.close()
    fs.write_atomically(f"{DATA}/orders-0/partition.metadata", b"version: 9\ntopic_id: cVc1N2pRSOGGnQR2nJQ3bw")
    again = a_directory(fs)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"orders-0 cannot be opened: .*partition\.metadata, line 1: version 9"):
            again.get(ORDERS, now_ms=0)
    assert values(again.get(USERS, now_ms=0)) == [b"2"]
    assert ORDERS in again
    assert len(again) == 2
    again.close()
    assert not fs.exists(f"{DATA}/.kafka_cleanshutdown")  # nobody can say what is in the broken one
    unclean = a_directory(fs)
    assert list(unclean.broken) == [ORDERS]
    assert values(unclean.get(USERS, now_ms=0)) == [b"2"]


def test_a_log_that_cannot_be_closed_leaves_the_directory_unclean() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"1")
    fs.faults.append(Fault("sync", path_end=".log"))
    with pytest.raises(StorageError, match="orders-0"):
        directory.close()
    assert not fs.exists(f"{DATA}/.kafka_cleanshutdown")
    assert not a_directory(fs).was_clean


def test_directories_that_are_not_ours_are_left_alone() -> None:
    fs = memory_fs(DATA)
    for name in ("lost+found", f"t-0.{HEX}-future", f"t-1.{HEX}-stray", "notes"):
        fs.make_dir(f"{DATA}/{name}")
    directory = a_directory(fs)
    assert len(directory) == 0
    assert directory.left_alone == [f"t-0.{HEX}-future", f"t-1.{HEX}-stray"]
    assert directory.take_chores(now_ms=10**12) == []
    directory.close()
    assert fs.exists(f"{DATA}/lost+found")


def test_meta_properties_say_whose_directory_it_is() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    assert directory.meta is None
    directory.write_meta(MetaProperties("cluster", 1, ID))
    directory.close()
    assert a_directory(fs).meta == MetaProperties("cluster", 1, ID)


# Creating, deleting, truncating


def test_a_log_survives_a_power_cut_with_its_topic_id_after_its_first_flush() -> None:
    fs = memory_fs(DATA)
    log = a_directory(fs).create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1")
    found = [a_directory(fs.crash(Random(seed))) for seed in range(50)]
    assert {tuple(again) for again in found} == {(), (ORDERS,)}
    assert {again.topic_id(ORDERS) for again in found} == {None, ID}
    flush(log)
    for seed in range(50):
        again = a_directory(fs.crash(Random(seed)))
        assert again.topic_id(ORDERS) == ID
        assert values(again.get(ORDERS, now_ms=0)) == [b"1"]


def test_a_log_that_does_not_know_its_topic_is_told() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    directory.create(ORDERS, topic_id=ID, now_ms=0)
    directory.close()
    fs.remove(f"{DATA}/orders-0/partition.metadata")
    again = a_directory(fs)
    log_again = again.get(ORDERS, now_ms=0)
    assert log_again is not None
    assert (log_again.topic_id, again.topic_id(ORDERS)) == (None, None)
    again.adopt(ORDERS, ID)
    assert (log_again.topic_id, again.topic_id(ORDERS)) == (ID, ID)
    again.close()
    assert a_directory(fs).topic_id(ORDERS) == ID
    fs.faults.append(Fault("open", path_end="partition.metadata"))
    with pytest.raises(StorageError, match="cannot write into data/orders-0"):
        again.adopt(ORDERS, ID)


def test_neither_creation_nor_deletion_waits_for_the_disk() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(USERS, topic_id=ID, now_ms=0), b"1", b"2")
    directory.plan_checkpoint().run()
    syncs = [Fault("sync"), Fault("sync_dir")]
    fs.faults.extend(syncs)
    directory.delete(USERS, now_ms=0)
    for partition in (ORDERS, USERS):  # of which one was there before
        directory.create(partition, topic_id=ID[::-1], now_ms=0)
    assert fs.faults == syncs


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


def test_a_truncation_lowers_the_recovery_point_on_disk_before_anything_is_appended() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2", b"3")
    log.roll(now_ms=0)
    flush(log)
    directory.cleaner.cleaned_to[ORDERS] = 3
    directory.plan_checkpoint().run()
    assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 3\n"
    directory.truncate_to(ORDERS, 1)
    assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 0\n"
    assert directory.cleaner.cleaned_to == {ORDERS: 1}
    directory.truncate_to(ORDERS, 5)  # beyond the end: nothing happens
    assert log.log_end_offset == 1


def test_a_log_that_starts_anew_elsewhere_is_not_taken_for_what_it_was() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1", b"2", b"3")
    log.roll(now_ms=0)
    flush(log)
    directory.cleaner.cleaned_to[ORDERS] = 3
    directory.plan_checkpoint().run()
    directory.truncate_fully_and_start_at(ORDERS, 1)
    assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 1\n"
    assert directory.cleaner.cleaned_to == {ORDERS: 1}
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_cleaner_offsets_survive_and_those_of_deleted_logs_do_not() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs, config=COMPACT)
    for partition in (ORDERS, USERS):
        append(directory.create(partition, topic_id=ID, now_ms=0), b"1")
        directory.cleaner.cleaned_to[partition] = 1
    directory.delete(USERS, now_ms=0)
    directory.close()
    assert fs.read_bytes(f"{DATA}/cleaner-offset-checkpoint") == b"0\n1\norders 0 1\n"
    assert a_directory(fs, config=COMPACT).cleaner.cleaned_to == {ORDERS: 1}


def test_a_disk_that_fails_to_delete_says_so() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    directory.create(ORDERS, topic_id=ID, now_ms=0)
    fs.faults.append(Fault("rename"))
    with pytest.raises(StorageError, match="cannot delete data/orders-0"):
        directory.delete(ORDERS, now_ms=0)


def test_a_disk_that_fails_to_create_says_so() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    fs.faults.append(Fault("open", path_end="partition.metadata"))
    with pytest.raises(StorageError, match="cannot create data/orders-0"):
        directory.create(ORDERS, topic_id=ID, now_ms=0)


def test_open_files_are_bounded_whatever_the_number_of_partitions(tmp_path: Path) -> None:
    directory = a_directory(RealFileSystem(), path=str(tmp_path), max_open_files=8)
    before = open_descriptors()
    logs = [directory.create(TopicPartition("t", number), topic_id=ID, now_ms=0) for number in range(40)]
    for round_number in range(3):
        for log in logs:
            append(log, b"%d" % round_number)
        assert open_descriptors() - before <= 8
    assert [values(log) for log in logs] == [[b"0", b"1", b"2"]] * 40
    assert open_descriptors() - before <= 8
    directory.close()
    again = a_directory(RealFileSystem(), path=str(tmp_path), max_open_files=8)
    assert len(again) == 40
    assert all(values(again.get(partition, now_ms=0)) == [b"0", b"1", b"2"] for partition in again)
    assert open_descriptors() - before <= 8
    again.close()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_somebody_else_keeps_is_left_alone(clean: bool) -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    for partition in (ORDERS, USERS):
        log = directory.create(partition, topic_id=ID, now_ms=0)
        append(log, b"a")
        flush(log)
    if clean:
        directory.close()
    else:
        fs = fs.crash(Random(1))
    again = LogDirectory.open(fs, DATA, lambda _: LogConfig(), now_ms=0, not_ours=("users-3",))
    assert list(again) == [ORDERS]
    assert again.left_alone == ["users-3"]
    assert again.get(USERS, now_ms=0) is None
