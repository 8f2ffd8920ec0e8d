"""Rounds of compaction on a log that lives on: which is next, when an outcome fits, a crash at each step of a swap."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner import Cleaner
from headrace.log.cleaner_keys import ENTRY_BYTES
from headrace.log.cleaner_run import CleanerLimits, CleaningOutcome
from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem, PowerCut
from headrace.log.names import CLEANED, parse_file_name
from headrace.log.open_files import OpenFiles
from headrace.log.retention import apply_retention
from headrace.protocol.records import Record
from tests.support.compaction import (
    COMPACT,
    PARTITION,
    CompactedLog,
    check_transactions,
    final_state,
    open_log,
    producer_facts,
    read_all,
    read_committed,
    replayed_producers,
)
from tests.support.segments import DIRECTORY


def no_pause(seconds: float) -> None:
    pass


def rows(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_all(log)]


def leftovers(fs: MemoryFileSystem) -> list[str]:
    parsed = [(name, parse_file_name(name)) for name in fs.list_dir(DIRECTORY)]
    return [name for name, file in parsed if file is not None and file.stage == CLEANED]


def test_a_round_leaves_the_newest_record_of_each_key_and_remembers_how_far_it_came() -> None:
    story = CompactedLog()
    story.append((b"a", b"1"), (b"b", b"1"))
    story.roll()
    story.append((b"a", b"2"))
    story.roll()
    story.append((b"b", b"2"))  # in the active segment, which is never cleaned
    assert story.clean() is not None
    assert rows(story.log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"b", b"2")]
    assert story.cleaner.cleaned_to == {PARTITION: 3}
    assert len(story.log.segments) == 2  # two became one
    assert leftovers(story.fs) == []
    assert story.plan() is None  # nothing is dirty any more


def test_reads_of_offsets_that_are_gone_go_on_with_the_next_one() -> None:
    story = CompactedLog()
    for value in range(10):
        story.append((b"a", b"%d" % value))
        story.roll()
    story.clean()
    assert [record.offset for record in read_all(story.log)] == [9]
    assert story.log.read(3, max_bytes=1000).first_offset is not None
    assert story.log.log_start_offset == 0


def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    story = CompactedLog(replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    story.append((b"a", b"1"), (b"a", b"2"))
    story.roll()
    assert story.plan() is None


def test_nothing_above_the_last_stable_offset_is_touched() -> None:
    story = CompactedLog()
    story.append((b"a", b"1"))
    story.roll()
    story.append((b"a", b"2"), producer=1, transactional=True)
    story.roll()
    story.append((b"a", b"3"))
    story.roll()
    story.clean()
    assert [record.offset for record in read_all(story.log)] == [0, 1, 2]
    story.end(1, commit=True)
    story.roll()
    story.clean()
    assert [record.offset for record in read_all(story.log)] == [2]


def test_compact_and_delete_together() -> None:
    config = replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    story = CompactedLog(config)
    story.append((b"a", b"1"))
    story.roll()
    story.append((b"b", b"1"), (b"b", b"2"))
    story.roll()
    story.clean()
    assert [record.offset for record in read_all(story.log)] == [0, 2]
    story.now_ms += 1001
    assert apply_retention(story.fs, story.log, now_ms=story.now_ms) == 1
    assert read_all(story.log) == []
    assert story.log.log_start_offset == 3
    story.append((b"c", b"1"))
    assert rows(story.log) == [(3, b"c", b"1")]


def test_retention_rolls_first_when_the_active_segment_has_had_its_time() -> None:
    story = CompactedLog(LogConfig(retention_ms=1000))
    story.append((b"a", b"1"))
    story.now_ms += 1001
    assert apply_retention(story.fs, story.log, now_ms=story.now_ms) == 1
    assert (story.log.log_start_offset, story.log.log_end_offset, len(story.log.segments)) == (1, 1, 1)


def dirty_story(*, dirty: int, clean: int) -> CompactedLog:
    story = CompactedLog()
    for index in range(clean):
        story.append((b"%d" % index, b"1"))
    story.roll()
    story.clean()
    for _ in range(dirty):
        story.append((b"a", b"1"))
    story.roll()
    return story


def test_the_dirtiest_log_is_next() -> None:
    little, much, none = dirty_story(dirty=1, clean=9), dirty_story(dirty=9, clean=1), dirty_story(dirty=0, clean=5)
    logs = [(TopicPartition("t", n), story.log) for n, story in enumerate((little, much, none))]
    cleaner = Cleaner(
        little.fs, OpenFiles(limit=9), {TopicPartition("t", 0): 9, TopicPartition("t", 1): 1, TopicPartition("t", 2): 5}
    )
    plans = [cleaner.plan_dirtiest(logs, now_ms=0) for _ in range(3)]
    assert [plan and plan.partition.partition for plan in plans] == [1, 0, None]


def test_one_round_at_a_time_for_one_log() -> None:
    story = dirty_story(dirty=5, clean=1)
    plan = story.plan()
    assert plan is not None
    assert story.plan() is None
    story.cleaner.finish(story.log, plan, plan.run(no_pause))
    story.append((b"a", b"2"))
    story.roll()
    assert story.plan() is not None


def test_a_log_with_damaged_data_is_not_tried_again() -> None:
    story = dirty_story(dirty=5, clean=1)
    plan = story.plan()
    assert plan is not None
    outcome = CleaningOutcome((), 0, 0, failure="no valid batch at byte 7")
    assert not story.cleaner.finish(story.log, plan, outcome)
    assert story.cleaner.uncleanable == {PARTITION: "no valid batch at byte 7"}
    assert story.plan() is None
    story.cleaner.forget(PARTITION)
    assert story.plan() is not None


def test_appends_during_a_round_are_not_lost() -> None:
    story = dirty_story(dirty=5, clean=1)
    plan = story.plan()
    assert plan is not None
    story.append((b"a", b"9"))
    story.roll()
    story.append((b"a", b"10"))
    assert story.cleaner.finish(story.log, plan, plan.run(no_pause))
    assert rows(story.log) == [(0, b"0", b"1"), (5, b"a", b"1"), (6, b"a", b"9"), (7, b"a", b"10")]


def test_an_outcome_is_thrown_away_when_retention_took_a_segment_meanwhile() -> None:
    story = dirty_story(dirty=5, clean=1)
    plan = story.plan()
    assert plan is not None
    outcome = plan.run(no_pause)
    assert leftovers(story.fs) != []
    story.log.advance_log_start(1)
    assert apply_retention(story.fs, story.log, now_ms=story.now_ms) == 1
    before = rows(story.log)
    assert not story.cleaner.finish(story.log, plan, outcome)
    assert rows(story.log) == before
    assert leftovers(story.fs) == []
    assert story.clean() is not None


def test_an_outcome_is_thrown_away_when_the_log_was_truncated_meanwhile() -> None:
    story = dirty_story(dirty=5, clean=1)
    plan = story.plan()
    assert plan is not None
    outcome = plan.run(no_pause)
    story.log.truncate_to(4)
    story.cleaner.truncated(PARTITION, 4)
    for _ in range(2):
        story.append((b"b", b"9"))  # as many bytes as before, but others
    story.roll()
    before = rows(story.log)
    assert not story.cleaner.finish(story.log, plan, outcome)
    assert rows(story.log) == before
    assert leftovers(story.fs) == []


def test_a_round_that_nobody_wants_any_more_neither_harms_the_log_nor_the_next_round() -> None:
    story = dirty_story(dirty=5, clean=1)
    first = story.plan()
    assert first is not None
    story.cleaner.truncated(PARTITION, 99)
    second = story.plan()
    assert second is not None
    failed = CleaningOutcome((), 0, 0, failure="it read another log under the same name")
    outcome = second.run(no_pause)
    assert not story.cleaner.finish(story.log, first, failed)
    assert story.cleaner.uncleanable == {}
    assert story.cleaner.finish(story.log, second, outcome)
    assert [record.offset for record in read_all(story.log)] == [0, 5]


def test_an_outcome_is_thrown_away_when_a_segment_has_another_size() -> None:
    story = dirty_story(dirty=5, clean=1)
    plan = story.plan()
    assert plan is not None
    outcome = plan.run(no_pause)
    story.log.truncate_to(4)
    story.roll()
    before = rows(story.log)
    assert not story.cleaner.finish(story.log, plan, outcome)
    assert rows(story.log) == before


def test_what_is_written_after_a_truncation_is_dirty() -> None:
    story = dirty_story(dirty=5, clean=1)
    story.clean()
    assert story.cleaner.cleaned_to == {PARTITION: 6}
    story.log.truncate_to(1)
    story.cleaner.truncated(PARTITION, 1)
    assert story.cleaner.cleaned_to == {PARTITION: 1}
    for value in range(5):
        story.append((b"b", b"%d" % value))
    story.roll()
    story.clean()
    assert rows(story.log) == [(0, b"0", b"1"), (5, b"b", b"4")]


def test_a_segment_damaged_on_disk_makes_the_log_uncleanable_and_is_still_there() -> None:
    story = dirty_story(dirty=5, clean=1)
    file = story.fs.open(f"{DIRECTORY}/{1:020d}.log")
    data = file.read(0, file.size)
    file.truncate(0)
    file.append(data[:-1] + b"?")
    plan = story.plan()
    assert plan is not None
    assert not story.cleaner.finish(story.log, plan, plan.run(no_pause))
    assert "00000000000000000001.log: no valid batch at byte" in story.cleaner.uncleanable[PARTITION]
    assert leftovers(story.fs) == []


# Crashes


def a_log_with_everything() -> CompactedLog:
    """Several segments that become two: superseded values, transactions, producers, a tombstone whose time has come."""
    story = CompactedLog(replace(COMPACT, segment_bytes=500))
    story.append((b"keep", b"1"))
    story.append((b"gone", b"old"))
    story.roll()
    story.append((b"x", b"1"), producer=1)
    story.append((b"aborted", b"!"), producer=2, transactional=True)
    story.end(2, commit=False)
    story.roll()
    story.append((b"gone", None), (b"x", b"2"))
    story.roll()
    story.clean()
    story.append((b"gone", b"newer"))
    story.append((b"y", b"1"), producer=2, transactional=True)
    story.end(2, commit=True)
    story.roll()
    story.append((b"gone", None), producer=1)
    story.roll()
    story.clean()  # the tombstone gets its horizon
    story.now_ms += COMPACT.delete_retention_ms
    story.append((b"x", b"3"))
    story.append((b"y", b"2"))
    story.roll()
    story.append((b"z", b"1"))
    flush(story.log)
    return story


def a_log_where_a_value_and_its_tombstone_go_together() -> CompactedLog:
    """Nothing of the first three segments is left. If the second came back without the third, `v` would be alive.

    A map for three keys ends the first round just before the tombstone, which gets its horizon all the same. Only in
    the second round may segments be large enough to be merged.
    """
    limits = CleanerLimits(dedupe_buffer_bytes=3 * ENTRY_BYTES)
    story = CompactedLog(replace(COMPACT, segment_bytes=150), limits=limits)
    story.append((b"z", bytes(60)))
    story.roll()
    story.append((b"v", b"old"))
    story.roll()
    story.append((b"a", b"1"))
    story.append((b"v", None))
    story.roll()
    story.clean()
    story.now_ms += COMPACT.delete_retention_ms
    story.use(replace(COMPACT, segment_bytes=450))
    story.append((b"a", bytes(300)), (b"z", b"2"))
    story.roll()
    story.append((b"y", b"1"))
    flush(story.log)
    return story


def flush(log: Log) -> None:
    for chore in log.take_chores():
        chore.run()
        chore.done()
    plan = log.plan_flush()
    if plan is not None:
        plan.run()
        plan.done()


def contents(records: list[Record]) -> set[tuple[int, bytes | None, bytes | None]]:
    return {(record.offset, record.key, record.value) for record in records}


@pytest.mark.parametrize("a_log", [a_log_with_everything, a_log_where_a_value_and_its_tombstone_go_together])
def test_a_crash_at_any_step_of_a_round_leaves_the_log_before_or_after_it(a_log: Callable[[], CompactedLog]) -> None:
    story = a_log()
    before = contents(read_all(story.log))
    state = final_state(read_committed(story.log))
    facts = producer_facts(story.log.producers)
    started = story.fs.steps
    done = story.clean()
    assert done is not None
    assert max(len(group.sources) for group in done[1].groups) > 1
    assert len(done[1].groups) > 1
    after = contents(read_all(story.log))
    steps = story.fs.steps - started
    assert after < before
    assert steps > 20
    for cut in range(steps + 1):
        story = a_log()
        recovery_point, high_watermark = story.log.recovery_point, story.log.high_watermark
        story.fs.power_steps = cut
        with contextlib.suppress(PowerCut):
            story.clean()
        for seed in range(6):
            survivor = story.fs.crash(Random(1000 * cut + seed))
            if seed % 2:  # and once more, while the log is being opened
                survivor = crash_while_opening(survivor, story.config, recovery_point, cut % 17, seed)
            log = open_log(
                survivor, story.config, clean=False, recovery_point=recovery_point, high_watermark=high_watermark
            )
            found = contents(read_all(log))
            assert after <= found <= before, (cut, seed)
            assert final_state(read_committed(log)) == state, (cut, seed)
            assert producer_facts(log.producers) == facts, (cut, seed)
            assert producer_facts(replayed_producers(log)) == facts, (cut, seed)
            check_transactions(log)


def crash_while_opening(
    fs: MemoryFileSystem, config: LogConfig, recovery_point: int, steps: int, seed: int
) -> MemoryFileSystem:
    fs.power_steps = steps
    try:
        open_log(fs, config, clean=False, recovery_point=recovery_point)
    except PowerCut:
        return fs.crash(Random(seed))
    fs.power_steps = None
    return fs.crash(Random(seed))


@pytest.mark.parametrize("operation", ["rename", "sync_dir"])
def test_a_disk_that_fails_during_the_swap_fails_the_log_and_a_new_opening_settles_it(operation: str) -> None:
    reference = a_log_with_everything()
    before = contents(read_all(reference.log))
    state = final_state(read_committed(reference.log))
    reference.clean()
    after = contents(read_all(reference.log))
    for skip in range(12):
        story = a_log_with_everything()
        plan = story.plan()
        assert plan is not None
        outcome = plan.run(no_pause)
        story.fs.faults.append(Fault(operation, skip=skip))
        try:
            story.cleaner.finish(story.log, plan, outcome)
        except StorageError:
            with pytest.raises(StorageError, match="takes no more writes"):
                story.append((b"a", b"1"))
        story.fs.faults.clear()
        log = open_log(story.fs, story.config, clean=False, high_watermark=story.log.high_watermark)
        assert after <= contents(read_all(log)) <= before, skip
        assert final_state(read_committed(log)) == state, skip
