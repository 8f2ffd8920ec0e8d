"""Compacted segments take the place of old ones: whole, or not at all, wherever the power is cut."""

from random import Random

import pytest

from headrace.log.aborted import AbortedTxn
from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem, PowerCut
from headrace.log.names import CLEANED, SEGMENT_SUFFIXES
from headrace.log.open_files import OpenFiles
from headrace.log.segment import Segment
from headrace.protocol.batch import read_header
from headrace.protocol.records import iter_batches
from tests.support.log_batches import NOW_MS, append, end_transaction, flush, run_chores, values_of

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, cleanup_policy=frozenset({"compact"}))
DIRECTORY = "/data/t-0"


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


def compacted(fs: MemoryFileSystem, log: Log, *bases: int) -> list[Segment]:
    """New segments, as compaction leaves them: every second batch of the first three segments, from each base on."""
    batches = []
    for segment in list(log.segments)[:3]:
        content = fs.read_bytes(segment.path(".log"))
        batches += [content[at : at + header.size_bytes] for at, header in iter_batches(content)]
    new = []
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
        new.append(segment)
    return new


def test_new_segments_replace_old_ones_and_the_files_of_those_go() -> None:
    fs, log = a_log()
    old = list(log.segments)[:3]
    log.replace_segments(old, compacted(fs, log, 0))
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
    log.replace_segments(list(log.segments)[:3], compacted(fs, log, 0))
    run_chores(log)
    assert found.read() == before


@pytest.mark.parametrize(("bases", "seeds"), [((0,), 10), ((0, 3), 4), ((0, 5, 10), 2)])
def test_a_power_cut_at_any_step_leaves_the_old_or_the_new_segments(bases: tuple[int, ...], seeds: int) -> None:
    fs, log = a_log()
    old_values = values_of(log)
    start = fs.steps
    log.replace_segments(list(log.segments)[:3], compacted(fs, log, *bases))
    new_values = values_of(log)
    steps = fs.steps - start
    assert steps > 20
    outcomes = set()
    for step in range(steps):
        for seed in range(seeds):
            fs, log = a_log()
            fs.power_steps = step
            with pytest.raises(PowerCut):
                log.replace_segments(list(log.segments)[:3], compacted(fs, log, *bases))
            survivor = fs.crash(Random(step * 100 + seed))
            again = Log.open(survivor, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
            values = values_of(again)
            outcomes.add("old" if values == old_values else "new" if values == new_values else str(values))
            if len(bases) > 1:  # a part of them may have been swapped: what is between is a mix of both, in order
                assert set(new_values) <= set(values) <= set(old_values)
                assert values == sorted(values, key=old_values.index)
            else:
                assert values in (old_values, new_values)
            left_over = [name for name in survivor.list_dir(DIRECTORY) if name.endswith((".swap", ".cleaned"))]
            assert left_over == []
            is_aborted_served = b"txn" in values
            aborted = again.aborted_transactions(0, again.log_end_offset)
            assert aborted == [AbortedTxn(7, 5, 6, 7)] or not is_aborted_served
            assert append(again, b"next").base_offset == 16
    assert {"old", "new"} <= outcomes


def test_recovery_finishes_a_swap_for_a_log_that_claims_to_be_closed() -> None:
    fs, log = a_log()
    new = compacted(fs, log, 0)
    log.close()
    for suffix in SEGMENT_SUFFIXES:
        fs.rename(new[0].path(suffix), new[0].files.path(suffix, ".swap"))
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
            log.replace_segments(list(log.segments)[:3], new)
        assert log.failure is not None
        assert values_of(log) == before
        again = Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS, recovery_point=15)
        assert values_of(again)[-1] == b"v15"
