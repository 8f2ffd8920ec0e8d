"""Compacted segments take the place of old ones: whole, or not at all, wherever the power is cut."""

import errno
from random import Random

import pytest

from headrace.log.aborted import AbortedTxn
from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner_run import CleanerLimits, CleaningPlan
from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem, PowerCut
from headrace.log.names import CLEANED, SEGMENT_SUFFIXES
from headrace.log.open_files import OpenFiles
from headrace.log.segment import Segment
from headrace.log.swap import Replacement, Swap
from headrace.protocol.batch import read_header
from headrace.protocol.records import iter_batches
from tests.support.log_batches import NOW_MS, append, end_transaction, flush, run_chores, values_of

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, cleanup_policy=frozenset({"compact"}))
DIRECTORY = "/data/t-0"
PLACE = TopicPartition("t", 0)


def a_log() -> tuple[MemoryFileSystem, Log]:
    """Three durable sealed segments (the second with an aborted transaction), and an active one."""
    fs = MemoryFileSystem()
    fs.make_dir("/data")
    fs.sync_dir("/")
    log = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    for number in range(5):
        append(log, b"v%02d" % number)
    append(log, b"txn", producer=7, transactional=True)
    end_transaction(log, commit=False, producer=7)
    for number in range(7, 16):
        append(log, b"v%02d" % number)
    run_chores(log)
    flush(log)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15]
    return fs, log


def compacted(fs: MemoryFileSystem, log: Log, *bases: int) -> list[Replacement]:
    """New segments, as compaction leaves them: every second batch of the first three segments, from each base on."""
    old = list(log.segments)[:3]
    batches = []
    for segment in list(log.segments)[:3]:
        content = fs.read_bytes(segment.path(".log"))
        batches += [content[at : at + header.size_bytes] for at, header in iter_batches(content)]
    replacements = []
    for base, end in zip(bases, (*bases[1:], 15), strict=True):
        segment = Segment.create(fs, DIRECTORY, base, CONFIG, open_files=OpenFiles(10), now_ms=NOW_MS, stage=CLEANED)
        for batch in batches:
            header = read_header(batch)
            if base <= header.base_offset < end and (header.base_offset % 2 == 0 or header.base_offset == 5):
                segment.append(batch, last_offset=header.last_offset, max_timestamp=header.max_timestamp)
        if base <= 6 < end:
            segment.add_aborted(AbortedTxn(7, 5, 6, 7))
        segment.write_indexes()
        segment.sync()
        replacements.append(Replacement([each for each in old if base <= each.base_offset < end], segment))
    fs.sync_dir(DIRECTORY)
    return replacements


def swap_in(log: Log, replacements: list[Replacement]) -> None:
    swap = Swap(log, replacements)
    swap.run()
    assert swap.is_done


def mixed(old_values: list[bytes | None], new_values: list[bytes | None], base: int) -> list[bytes | None]:
    """What is new below an offset, and old from there on. The old values stand at their offsets."""
    return [value for at, value in enumerate(old_values) if at >= base or value in new_values]


def test_new_segments_replace_old_ones_and_the_files_of_those_go() -> None:
    fs, log = a_log()
    swap_in(log, compacted(fs, log, 0))
    assert [segment.base_offset for segment in log.segments] == [0, 15]
    marker = b"\0\0\0\0\0\1"
    assert values_of(log) == [b"v00", b"v02", b"v04", b"txn", marker, b"v08", b"v10", b"v12", b"v14", b"v15"]
    run_chores(log)
    assert not any(name.endswith((".deleted", ".swap", ".cleaned")) for name in fs.list_dir(DIRECTORY))
    assert log.recovery_point == 15
    assert log.read(7, max_bytes=100).first_offset == 8
    log.close()
    assert values_of(Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)) == values_of(log)


def test_a_reader_of_an_old_segment_finishes_with_its_bytes() -> None:
    fs, log = a_log()
    found = log.read(1, max_bytes=1000)
    before = found.read()
    swap_in(log, compacted(fs, log, 0))
    run_chores(log)
    assert found.read() == before


@pytest.mark.parametrize(("bases", "seeds"), [((0,), 10), ((0, 10), 4), ((0, 5, 10), 4)])
def test_a_power_cut_at_any_step_leaves_the_old_or_the_new_segments(bases: tuple[int, ...], seeds: int) -> None:
    fs, log = a_log()
    old_values = values_of(log)
    start = fs.steps
    swap_in(log, compacted(fs, log, *bases))
    new_values = values_of(log)
    steps = fs.steps - start
    assert steps > 20
    outcomes = set()
    for step in range(steps):
        fs, log = a_log()
        fs.power_steps = step
        with pytest.raises(PowerCut):
            swap_in(log, compacted(fs, log, *bases))
        for seed in range(seeds):
            survivor = fs.crash(Random(step * 100 + seed))
            again = Log.open(survivor, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
            values = values_of(again)
            outcomes.add("old" if values == old_values else "new" if values == new_values else str(values))
            # A part of them may have been swapped, then the older part.
            assert values in [mixed(old_values, new_values, base) for base in (*bases, 15)]
            left_over = [name for name in survivor.list_dir(DIRECTORY) if name.endswith((".swap", ".cleaned"))]
            assert left_over == []
            is_aborted_served = b"txn" in values
            aborted = again.aborted_transactions(0, again.log_end_offset)
            assert aborted == [AbortedTxn(7, 5, 6, 7)] or not is_aborted_served
            assert append(again, b"next").base_offset == 16
    assert {"old", "new"} <= outcomes


def test_recovery_finishes_a_swap_for_a_log_that_claims_to_be_closed() -> None:
    fs, log = a_log()
    ((_, new),) = compacted(fs, log, 0)
    log.close()
    for suffix in SEGMENT_SUFFIXES:
        fs.rename(new.path(suffix), new.files.path(suffix, ".swap"))
    again = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    assert [segment.base_offset for segment in again.segments] == [0, 15]
    assert values_of(again)[:3] == [b"v00", b"v02", b"v04"]


def test_unfinished_work_of_a_compaction_is_thrown_away() -> None:
    fs, log = a_log()
    compacted(fs, log, 0)
    before = values_of(log)
    log.close()
    again = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    assert values_of(again) == before
    assert not any(name.endswith(".cleaned") for name in fs.list_dir(DIRECTORY))


def test_a_swap_that_the_disk_refuses_ends_all_writing_but_no_reading() -> None:
    for skip in range(12):
        fs, log = a_log()
        before = values_of(log)
        new = compacted(fs, log, 0)
        fs.faults = [Fault("rename", skip=skip)]
        with pytest.raises(StorageError, match="could not take their place"):
            swap_in(log, new)
        assert log.failure is not None
        assert values_of(log) == before
        again = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
        assert values_of(again)[-1] == b"v15"


# What happens to the log between two steps

STEPS = 4


def steps_of_a_swap(count: int, *, synced: bool = True) -> tuple[MemoryFileSystem, Log, Swap]:
    """A log after so many steps; the sync of the last one has been, or has not."""
    fs, log = a_log()
    swap = Swap(log, compacted(fs, log, 0, 10))
    for number in range(count):
        assert swap.step()
        if synced or number + 1 < count:
            swap.sync()
    return fs, log, swap


def left_overs(fs: MemoryFileSystem) -> list[str]:
    return [name for name in fs.list_dir(DIRECTORY) if name.endswith((".swap", ".cleaned"))]


@pytest.mark.parametrize("count", range(STEPS + 1))
def test_readers_and_writers_notice_nothing_of_a_swap_under_way(count: int) -> None:
    fs, log, swap = steps_of_a_swap(count)
    old_values = values_of(a_log()[1])
    new_values = mixed(old_values, values_of(steps_of_a_swap(STEPS)[1]), 15)
    assert values_of(log) == (old_values if count < 3 else new_values)
    append(log, b"more")
    log.roll(now_ms=NOW_MS)
    append(log, b"and more")
    swap.run()
    assert swap.is_done
    assert log.swap is None
    assert values_of(log) == [*new_values, b"more", b"and more"]
    run_chores(log)
    assert left_overs(fs) == []
    log.close()
    assert values_of(Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)) == values_of(log)


@pytest.mark.parametrize("count", range(STEPS + 1))
def test_a_log_that_is_closed_in_the_middle_of_a_swap_is_opened_whole(count: int) -> None:
    fs, log, _ = steps_of_a_swap(count)
    log.close()
    again = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS)
    assert len(values_of(again)) == (16 if count < 2 else len(values_of(steps_of_a_swap(STEPS)[1])))
    assert left_overs(fs) == []


@pytest.mark.parametrize("count", range(STEPS + 1))
def test_retention_may_be_faster_than_a_swap(count: int) -> None:
    fs, log, swap = steps_of_a_swap(count)
    log.delete_segments([log.segments[0]])
    start_offset = log.log_start_offset
    assert start_offset in (5, 10)
    expected = values_of(log)
    swap.run()
    assert swap.is_done == (count >= 3)
    assert log.swap is None
    assert values_of(log) == expected
    run_chores(log)
    log.close()
    again = Log.open(fs, DIRECTORY, CONFIG, clean=True, now_ms=NOW_MS, log_start_offset=start_offset)
    assert values_of(again) == expected
    assert left_overs(fs) == []


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize("count", range(STEPS + 1))
@pytest.mark.parametrize("offset", [3, 12])
def test_what_is_cut_off_during_a_swap_never_comes_back(offset: int, count: int, synced: bool) -> None:
    for seed in range(10):
        fs, log, swap = steps_of_a_swap(count, synced=synced)
        log.truncate_to(offset)
        expected = values_of(log)
        again = Log.open(fs.crash(Random(seed)), DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
        assert values_of(again) == expected
        assert again.log_end_offset <= offset
        swap.run()
        assert swap.is_done == (count >= 3)
        assert append(log, b"new").base_offset == log.log_end_offset - 1
        assert values_of(log) == [*expected, b"new"]
        flush(log)
        again = Log.open(fs.crash(Random(seed)), DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
        assert values_of(again) == [*expected, b"new"]


@pytest.mark.parametrize("count", range(STEPS + 1))
def test_what_is_appended_after_a_cut_during_a_swap_may_be_torn(count: int) -> None:
    fs, log, _ = steps_of_a_swap(count)
    log.truncate_to(3)
    expected = values_of(log)
    for number in range(2):
        append(log, b"%d" % number)
    for seed in range(20):
        again = Log.open(fs.crash(Random(seed)), DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
        assert values_of(again) in [[*expected, *([b"0", b"1"][:kept])] for kept in range(3)]


@pytest.mark.parametrize("is_cut_again", [False, True])
@pytest.mark.parametrize("count", range(3))
@pytest.mark.parametrize("offset", [-5, 3, 12])
def test_a_cut_without_a_descriptor_to_give_a_swap_up_may_be_tried_again(
    offset: int, count: int, is_cut_again: bool
) -> None:
    for seed in range(10):
        fs, log, swap = steps_of_a_swap(count)

        def cut(log: Log) -> None:
            if offset < 0:
                log.truncate_fully_and_start_at(-offset)
            else:
                log.truncate_to(offset)

        before = values_of(log)
        fs.faults.append(Fault("sync_dir", errno.EMFILE, DIRECTORY))
        with pytest.raises(StorageError, match="tried again"):
            cut(log)
        assert (log.failure, values_of(log)) == (None, before)
        append(log, b"new")
        if is_cut_again:
            cut(log)
        expected = [*before, b"new"] if not is_cut_again else values_of(log)
        assert (log.swap is None) == is_cut_again, "it is over, or its sync is still to come"
        swap.run()
        assert (swap.is_done, log.swap, log.failure) == (False, None, None)
        assert values_of(log) == expected
        flush(log)
        again = Log.open(fs.crash(Random(seed)), DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
        assert values_of(again) == expected


def test_a_power_cut_while_a_swap_is_given_up_leaves_a_whole_log() -> None:
    old_values, new_values = values_of(a_log()[1]), values_of(steps_of_a_swap(STEPS)[1])
    outcomes = set()
    for step in range(2):  # a rename and a sync
        fs, _, swap = steps_of_a_swap(2)
        fs.power_steps = step
        with pytest.raises(PowerCut):
            swap.abandon()
        for seed in range(20):
            survivor = fs.crash(Random(seed))
            again = Log.open(survivor, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
            assert values_of(again) in (old_values, mixed(old_values, new_values, 15))
            outcomes.add(values_of(again) == old_values)
    assert outcomes == {True, False}


@pytest.mark.parametrize("count", range(3))
def test_what_a_swap_has_left_that_was_given_up_is_cleared_away_wherever_the_power_is_cut(count: int) -> None:
    expected = values_of(a_log()[1])

    def given_up() -> tuple[MemoryFileSystem, Log]:
        fs, log, swap = steps_of_a_swap(count)
        swap.abandon()
        assert left_overs(fs)
        return fs, log

    def clear(fs: MemoryFileSystem, log: Log) -> None:
        limits = CleanerLimits()
        CleaningPlan(PLACE, fs, log.directory, CONFIG, limits, (), 0, (), {}, NOW_MS).discard()

    fs, log = given_up()
    before = fs.steps
    clear(fs, log)
    assert left_overs(fs) == []
    for step in range(fs.steps - before):
        fs, log = given_up()
        fs.power_steps = step
        with pytest.raises(PowerCut):
            clear(fs, log)
        for seed in range(5):
            survivor = fs.crash(Random(seed))
            again = Log.open(survivor, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
            assert values_of(again) == expected
            for offset in range(16):  # every index belongs to its log
                assert again.read(offset, max_bytes=1).first_offset == offset


@pytest.mark.parametrize("count", range(1, STEPS + 1))
def test_a_power_cut_while_the_next_start_settles_a_swap_costs_nothing_either(count: int) -> None:
    old_values, new_values = values_of(a_log()[1]), values_of(steps_of_a_swap(STEPS)[1])
    allowed = [mixed(old_values, new_values, base) for base in (0, 10, 15)]
    fs, _, _ = steps_of_a_swap(count, synced=False)
    for seed in range(8):
        for step in range(60):
            survivor = fs.crash(Random(seed))
            survivor.power_steps = step
            try:
                again = Log.open(survivor, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
            except PowerCut:
                survivor = survivor.crash(Random(seed + step))
                again = Log.open(survivor, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
                assert values_of(again) in allowed
                assert again.aborted_transactions(0, 16) == [AbortedTxn(7, 5, 6, 7)]
                offsets = [offset for offset in range(16) if old_values[offset] in values_of(again)]
                for offset in offsets:  # every index belongs to its log
                    assert again.read(offset, max_bytes=1).first_offset == offset
            else:
                break
        else:
            raise AssertionError("settling took more steps than were tried")


def test_a_sync_that_fails_ends_all_writing() -> None:
    fs, log = a_log()
    fs.faults.append(Fault("sync_dir", skip=2))
    with pytest.raises(StorageError, match="could not take their place"):
        Swap(log, compacted(fs, log, 0)).run()
    assert log.failure is not None
