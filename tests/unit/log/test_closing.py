"""Many logs at once: closed by several threads, and flushed in rounds."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest

from headrace.log.checkpoints import TopicPartition
from headrace.log.chores import Step
from headrace.log.errors import StorageError
from headrace.log.flush_round import run_plans
from headrace.log.fs import RealFileSystem
from headrace.log.memory_fs import Fault
from tests.support.data_directory import DATA, ID, ORDERS, USERS, a_directory, append, flush, values
from tests.support.segments import memory_fs


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
