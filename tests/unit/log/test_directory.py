"""A data directory: lock, clean and unclean starts, checkpoints, creation, bounded open files."""

import errno
import os
from pathlib import Path
from random import Random

import pytest

from headrace.log.checkpoints import CLEANER_OFFSETS, TopicPartition
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.errors import LockedError, StorageError
from headrace.log.fs import RealFileSystem
from headrace.log.memory_fs import Fault
from headrace.log.meta_properties import MetaProperties
from tests.support.compaction import COMPACT
from tests.support.data_directory import DATA, ID, ORDERS, USERS, a_directory, append, flush, values
from tests.support.segments import memory_fs

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


@pytest.mark.parametrize(("cleaned_to", "left"), [(0, [b"0"]), (2, [b"0", b"2", b"3"]), (3, [b"0", b"2", b"3"])])
def test_a_gap_that_compaction_has_left_is_no_loss_even_to_who_does_not_know_the_topic(
    cleaned_to: int, left: list[bytes]
) -> None:
    """Apache Kafka's cleaner leaves gaps between segments. A broker recovers its logs before it knows their configs."""
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"0")
    size = log.active.size
    append(log, b"1")
    log.roll(now_ms=0)
    append(log, b"2", b"3")
    directory.abandon()
    fs.open(log.segments[0].path(".log")).truncate(size)
    fs.write_atomically(f"{DATA}/{CLEANER_OFFSETS}", f"0\n1\norders 0 {cleaned_to}\n".encode())
    assert values(a_directory(fs).get(ORDERS, now_ms=0)) == left


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


def test_what_was_synced_and_is_not_there_is_reported() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    log = directory.create(ORDERS, topic_id=ID, now_ms=0)
    append(log, b"1")
    size = log.segments.active.size
    append(log, b"2")
    log.roll(now_ms=0)
    flush(log)
    directory.plan_checkpoint().run()
    fs = fs.crash(Random(1))
    fs.remove(f"{DATA}/orders-0/{2:020d}.log")
    segment = fs.open(f"{DATA}/orders-0/{0:020d}.log")
    segment.truncate(size + 10)
    segment.sync()
    again = a_directory(fs)
    assert again.warnings == [
        "orders-0 was synced up to offset 2, and ends at 1. All of it is read again; what is missing is lost."
    ]
    found = again.get(ORDERS, now_ms=0)
    assert found is not None
    assert found.recovery_report is not None
    assert found.recovery_report.loss == "10 bytes were not whole, and are cut off; the log ends at offset 1"


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


def test_a_log_that_had_no_room_for_its_recovery_leaves_the_directory_unclean() -> None:
    fs = memory_fs(DATA)
    directory = a_directory(fs)
    append(directory.create(ORDERS, topic_id=ID, now_ms=0), b"whole", b"damaged")
    directory.abandon()
    log_file = fs.open(f"{DATA}/orders-0/00000000000000000000.log")
    data = log_file.read(0, log_file.size)
    log_file.truncate(0)
    log_file.append(data[:-1] + b"?")
    fs.faults = [Fault("open", errno.EMFILE, path_end=".log")]
    directory = a_directory(fs)
    assert (directory.opened, directory.broken) == ({}, {})
    directory.close()
    directory = a_directory(fs)
    assert not directory.was_clean
    assert values(directory.get(ORDERS, now_ms=0)) == [b"whole"]


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
    some_id = "0123456789abcdef" * 2
    for name in ("lost+found", f"t-0.{some_id}-future", f"t-1.{some_id}-stray", "notes"):
        fs.make_dir(f"{DATA}/{name}")
    directory = a_directory(fs)
    assert len(directory) == 0
    assert directory.left_alone == [f"t-0.{some_id}-future", f"t-1.{some_id}-stray"]
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


# Creating, truncating


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
