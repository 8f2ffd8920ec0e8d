"""Compaction in the background, by a clock that the tests move: what a round and its swap do while the broker lives."""

import errno

import pytest

from headrace.log.checkpoints import (
    CLEANER_OFFSETS,
    TopicPartition,
    read_offsets,
)
from headrace.log.memory_fs import Fault
from headrace.server.maintenance import MaintenanceSettings
from tests.support.maintained_node import Site

SETTINGS = MaintenanceSettings()


@pytest.fixture
def site() -> Site:
    return Site()


def test_compacted_topics_keep_the_newest_of_each_key(site: Site) -> None:
    site.node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append(count=10)
    log = site.node.partition("t").log
    before = log.size_bytes
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert log.size_bytes < before / 2
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)
    site.pass_time(SETTINGS.recovery_points_interval_ms)
    assert read_offsets(site.fs, f"/data/{CLEANER_OFFSETS}") == {TopicPartition("t", 0): 8}
    site.append()
    assert log.log_end_offset == 11


def test_the_loop_never_waits_for_the_disk_when_compacted_segments_take_their_place(site: Site) -> None:
    site.node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append(count=10)
    log = site.node.partition("t").log
    before = log.size_bytes
    on_the_loop = [Fault("sync_dir"), Fault("sync")]
    site.fs.faults.extend(on_the_loop)
    site.node.clock.move(SETTINGS.cleaner_backoff_ms)
    while site.node.worker.chores:
        chore = site.node.worker.chores.popleft()
        site.fs.faults.clear()
        chore.run()
        site.fs.faults.extend(on_the_loop)
        chore.done()
    assert log.size_bytes < before / 2
    assert site.fs.faults == on_the_loop
    assert site.cleaner.cleaned_to == {TopicPartition("t", 0): 8}


def test_a_swap_that_the_disk_refuses_stops_no_other_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    for topic in ("bad", "good"):
        site.node.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="1000")
        site.append(topic, count=10)
    site.node.clock.move(SETTINGS.cleaner_backoff_ms)
    site.node.worker.step()
    site.fs.faults.append(Fault("sync_dir", path_end="bad-0"))
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert site.node.partition("bad").log.failure is not None
    assert "could not take their place" in caplog.text
    assert site.cleaner.cleaned_to == {TopicPartition("good", 0): 8}


@pytest.mark.parametrize("synced", range(4))
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_swap_without_a_descriptor_for_its_sync_goes_on_later(site: Site, synced: int, *, is_deleted: bool) -> None:
    site.node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append(count=10)
    log = site.node.partition("t").log
    site.node.clock.move(SETTINGS.cleaner_backoff_ms)
    site.node.worker.step()
    site.fs.faults.append(Fault("sync_dir", errno.EMFILE, path_end="t-0", skip=synced))
    site.pass_time(0)
    assert (log.failure, site.cleaner.cleaned_to) == (None, {})
    if is_deleted:
        site.node.delete_topic("t")
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert (log.failure, log.swap is None or is_deleted) == (None, True)
    assert site.cleaner.cleaned_to == ({} if is_deleted else {TopicPartition("t", 0): 8})
    site.node.create_topic("u", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append("u", count=10)
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert site.cleaner.cleaned_to[TopicPartition("u", 0)] == 8


def test_a_swap_that_retention_has_overtaken_is_given_up_later_without_a_descriptor(site: Site) -> None:
    site.node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append(count=10)
    log = site.node.partition("t").log
    site.node.clock.move(SETTINGS.cleaner_backoff_ms)
    for _ in range(2):  # the round, and the first sync: the new segments wait for their second one as `.swap`
        site.node.worker.step()
    log.delete_segments([log.segments[0]])
    start_offset = log.log_start_offset
    site.fs.faults.append(Fault("sync_dir", errno.EMFILE, path_end="t-0", skip=1))
    site.pass_time(0)
    assert (site.fs.faults[0].times, log.failure, log.swap is None) == (0, None, False)
    site.append()
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert (log.failure, log.swap, log.log_start_offset) == (None, None, start_offset)
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert site.cleaner.cleaned_to, "the next round compacts what is left"


@pytest.mark.parametrize("steps", range(1, 5))
def test_a_topic_that_is_deleted_while_its_compacted_segments_take_their_place(site: Site, steps: int) -> None:
    site.node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append(count=10)
    log = site.node.partition("t").log
    site.node.clock.move(SETTINGS.cleaner_backoff_ms)
    for _ in range(steps):
        site.node.worker.step()
    site.node.delete_topic("t")
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert log.failure is None
    assert site.cleaner.cleaned_to == {}
    site.node.create_topic("u", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append("u", count=10)
    site.pass_time(SETTINGS.cleaner_backoff_ms)
    assert site.cleaner.cleaned_to == {TopicPartition("u", 0): 8}


def test_a_topic_that_is_deleted_while_it_is_compacted(site: Site) -> None:
    site.node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append(count=10)
    site.node.clock.move(SETTINGS.cleaner_backoff_ms)
    assert site.node.worker.chores
    site.node.delete_topic("t")
    site.pass_time(0)
    assert site.cleaner.cleaned_to == {}
    site.pass_time(SETTINGS.cleaner_backoff_ms)


def test_a_topic_that_is_deleted_when_its_compaction_has_just_ended(site: Site) -> None:
    site.node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    site.append(count=10)
    log = site.node.partition("t").log
    site.node.clock.move(SETTINGS.cleaner_backoff_ms)
    (chore,) = [each for each in site.node.worker.chores if type(each).__name__ == "_Clean"]
    site.node.worker.chores.clear()
    chore.run()
    site.node.delete_topic("t")
    chore.done()
    assert log.failure is None
    assert site.cleaner.cleaned_to == {}
