"""What the broker does unasked, by a clock that the tests move."""

import errno
from functools import partial

import pytest

from headrace.cluster.config_resolution import broker_values
from headrace.cluster.image import EMPTY_IMAGE
from headrace.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
)
from headrace.log.chores import WriteOut
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.log.retention import apply_retention
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.server.maintenance import (
    TIDY_INTERVAL_MS,
    TURN_MS,
    VISITING_MS,
    VISITS,
    WAKES,
    MaintenanceSettings,
)
from headrace.server.page_cache import PageCache
from headrace.server.partitions import CREATES_AT_ONCE
from tests.support.log_batches import a_batch
from tests.support.maintained_node import Site
from tests.support.one_node import NOW_MS

HOUR_MS = 3_600_000
SETTINGS = MaintenanceSettings()


@pytest.fixture
def site() -> Site:
    return Site()


def test_what_cannot_be_done_for_lack_of_descriptors_is_done_later(site: Site) -> None:
    site.node.create_topic("t", internal_segment_bytes="1000")
    site.append(count=3)
    log = site.node.partition("t").log
    assert len(log.segments) == 2
    log.segments.close()  # as when too many files are open
    site.fs.faults.append(Fault("open", errno.EMFILE, path_end="t-0/00000000000000000000.log"))
    site.pass_time(TIDY_INTERVAL_MS)
    assert log.recovery_point == 0
    site.pass_time(TIDY_INTERVAL_MS + TURN_MS)
    assert log.recovery_point == log.segments.active.base_offset


def test_old_segments_go_and_their_files_with_them(site: Site) -> None:
    site.node.create_topic("t", retention_ms=str(HOUR_MS), internal_segment_bytes="1000")
    site.append(count=6)
    assert len(site.files()) == 3
    site.pass_time(2 * HOUR_MS)
    log = site.node.partition("t").log
    assert log.log_start_offset == 6
    assert site.files() == ["00000000000000000006.log"]


def test_nobody_waits_for_the_disk_when_segments_go_that_were_synced(site: Site) -> None:
    site.node.create_topic("t", retention_bytes="1", internal_segment_bytes="1000")
    for sequence in range(6):
        site.append(producer=7, sequence=sequence)
    site.pass_time(TIDY_INTERVAL_MS)
    log = site.node.partition("t").log
    assert log.recovery_point == 4
    on_the_loop = [Fault("sync"), Fault("sync_dir")]
    site.fs.faults.extend(on_the_loop)
    assert apply_retention(site.fs, log, now_ms=site.node.clock.now_ms()) == 2
    assert (log.log_start_offset, site.fs.faults) == (4, on_the_loop)


def test_a_turn_that_takes_long_ends_sooner(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.node.create_topic("t", partitions=10, retention_ms="1", internal_segment_bytes="1000")
    for index in range(10):
        site.node.partition("t", index).append(a_batch(), acks=1, now_ms=NOW_MS)

    def slow(fs: MemoryFileSystem, log: Log, *, now_ms: int) -> int:
        monkeypatch.setattr(site.node.clock, "_now_ms", site.node.clock.now_ms() + 1)
        return apply_retention(fs, log, now_ms=now_ms)

    monkeypatch.setattr("headrace.server.maintenance.apply_retention", slow)
    site.pass_time(SETTINGS.retention_interval_ms)
    assert sum(partition.log.log_start_offset for partition in site.node.partitions) == VISITING_MS


def test_young_segments_stay(site: Site) -> None:
    site.node.create_topic("t", retention_ms=str(HOUR_MS), internal_segment_bytes="1000")
    site.append(count=6)
    site.pass_time(HOUR_MS)
    assert site.node.partition("t").log.log_start_offset == 0


def test_retention_is_news_for_a_session(site: Site) -> None:
    site.node.create_topic("t", retention_ms=str(HOUR_MS), internal_segment_bytes="1000")
    site.append(count=6)
    rows = [FetchPartition(0, fetch_offset=6, partition_max_bytes=1000)]
    first = FetchRequest(session_epoch=0, topics=[FetchTopic("t", partitions=rows)])
    session_id = site.node.ask("Fetch", 12, first).session_id
    assert not site.node.ask("Fetch", 12, FetchRequest(session_id=session_id, session_epoch=1)).responses
    site.pass_time(2 * HOUR_MS)
    (topic,) = site.node.ask("Fetch", 12, FetchRequest(session_id=session_id, session_epoch=2)).responses
    assert topic.partitions[0].log_start_offset == 6


def test_a_log_that_fails_does_not_keep_others_from_retention(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    for topic in ("bad", "good"):
        site.node.create_topic(topic, retention_ms=str(HOUR_MS), internal_segment_bytes="1000")
        site.append(topic, count=6)
    site.fs.faults.append(Fault("rename", errno.EIO))
    site.pass_time(2 * HOUR_MS)
    assert site.node.partition("good").log.log_start_offset == 6
    assert site.node.partition("bad").log.failure is not None
    assert "[bad-0" in caplog.text


def test_many_partitions_are_visited_a_few_at_a_time(site: Site) -> None:
    site.node.create_topic("t", partitions=3 * VISITS, retention_ms="1", internal_segment_bytes="1000")
    for index in range(3 * VISITS):
        site.node.partition("t", index).append(a_batch(), acks=1, now_ms=NOW_MS)

    def retained() -> int:
        return sum(partition.log.log_start_offset for partition in site.node.partitions)

    site.pass_time(SETTINGS.retention_interval_ms)
    assert retained() == VISITS
    site.pass_time(TURN_MS)
    assert retained() == 2 * VISITS
    site.pass_time(TURN_MS)
    assert retained() == 3 * VISITS


def test_a_topic_deleted_between_two_turns_is_left_alone(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.node.create_topic("first", partitions=VISITS)
    site.node.partitions.wake(VISITS)
    site.node.create_topic("t", retention_ms="1")
    site.append()
    partition = site.node.partition("t")
    site.pass_time(SETTINGS.retention_interval_ms)
    site.node.delete_topic("t")
    site.pass_time(TURN_MS)
    assert partition.log.log_start_offset == 0
    assert not caplog.records


def test_logs_that_sleep_are_woken_and_get_their_retention(site: Site) -> None:
    site.node.create_topic("t", partitions=2 * WAKES, retention_ms=str(HOUR_MS))
    site.append()
    site.maintenance.stop()
    site.node.logs.close()
    again = Site(site.fs)
    again.node.partitions.apply(EMPTY_IMAGE, site.node.controller.image)
    again.pass_time(TURN_MS)
    assert len(again.node.partitions) == WAKES
    again.pass_time(TURN_MS)
    assert len(again.node.partitions) == 2 * WAKES
    again.pass_time(2 * HOUR_MS)
    assert again.node.partition("t").log.log_start_offset == 1


def test_new_partitions_that_nobody_asked_for_are_made_soon(site: Site) -> None:
    site.pass_time(TURN_MS)  # nobody sleeps, and nobody is looked for any more
    site.node.create_topic("t", partitions=CREATES_AT_ONCE + 2 * WAKES)
    assert len(site.node.partitions) == CREATES_AT_ONCE
    site.pass_time(TIDY_INTERVAL_MS - TURN_MS)
    assert len(site.node.partitions) == CREATES_AT_ONCE + WAKES
    site.pass_time(TURN_MS)
    assert len(site.node.partitions) == CREATES_AT_ONCE + 2 * WAKES


def test_rolled_segments_are_made_durable_soon(site: Site) -> None:
    site.node.create_topic("t", internal_segment_bytes="1000")
    site.append(count=5)
    log = site.node.partition("t").log
    assert log.recovery_point == 0
    site.pass_time(TIDY_INTERVAL_MS)
    assert log.recovery_point == 4


def test_what_is_too_much_of_the_page_cache_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.server.page_cache.GROWTH_BYTES", 1000)
    monkeypatch.setattr("headrace.server.maintenance.PageCache", partial(PageCache, kept_bytes=3000))
    site = Site()
    site.node.create_topic("t")
    site.append(count=20)
    site.node.clock.move(TIDY_INTERVAL_MS)
    assert [type(chore) for chore in site.node.worker.chores] == [WriteOut]


def test_records_are_synced_when_they_are_old_enough(site: Site) -> None:
    site.node.create_topic("t", flush_ms="3000")
    site.node.create_topic("never")
    site.append()
    site.append("never")
    site.pass_time(3000)
    log = site.node.partition("t").log
    assert log.flushed_offset == 0
    site.pass_time(TIDY_INTERVAL_MS)
    assert log.flushed_offset == 1
    assert site.node.partition("never").log.flushed_offset == 0


def test_producers_that_are_silent_for_long_are_forgotten(site: Site) -> None:
    site.node.create_topic("t")
    site.append(producer=1)
    site.pass_time(23 * HOUR_MS)
    site.append(producer=2)
    site.pass_time(2 * HOUR_MS)
    assert [state.producer_id for state in site.node.partition("t").log.producers] == [2]


def test_offsets_are_saved(site: Site) -> None:
    site.node.create_topic("t", internal_segment_bytes="1000")
    site.append(count=5)
    site.node.partition("t").advance_log_start(1)
    site.pass_time(TIDY_INTERVAL_MS)
    site.pass_time(SETTINGS.recovery_points_interval_ms)
    place = TopicPartition("t", 0)
    assert read_offsets(site.fs, f"/data/{RECOVERY_POINTS}") == {place: 4}
    assert read_offsets(site.fs, f"/data/{LOG_STARTS}") == {place: 1}
    assert read_offsets(site.fs, f"/data/{HIGH_WATERMARKS}") == {place: 5}


def test_high_watermarks_are_saved_more_often_than_the_others(site: Site) -> None:
    site.node.create_topic("t", internal_segment_bytes="1000")
    site.append(count=5)
    site.pass_time(SETTINGS.high_watermarks_interval_ms)
    assert read_offsets(site.fs, f"/data/{HIGH_WATERMARKS}") == {TopicPartition("t", 0): 5}
    assert read_offsets(site.fs, f"/data/{RECOVERY_POINTS}") == {}
    before = site.fs.steps
    site.pass_time(SETTINGS.high_watermarks_interval_ms)
    assert site.fs.steps == before  # nothing has changed


def test_intervals_of_checkpoints_are_those_of_the_configs() -> None:
    values = {
        **broker_values({}, {}, {}),
        "log.flush.offset.checkpoint.interval.ms": 1,
        "log.flush.start.offset.checkpoint.interval.ms": 2,
        "replica.high.watermark.checkpoint.interval.ms": 3,
    }
    settings = MaintenanceSettings.from_broker(values)
    assert settings.recovery_points_interval_ms == 1
    assert settings.log_starts_interval_ms == 2
    assert settings.high_watermarks_interval_ms == 3
    assert MaintenanceSettings.from_broker(broker_values({}, {}, {})) == SETTINGS


def test_offsets_that_cannot_be_saved_are_saved_the_next_time(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.node.create_topic("t")
    site.append()
    site.fs.faults.append(Fault("append", errno.ENOSPC, path_end=f"{HIGH_WATERMARKS}.tmp"))
    site.pass_time(SETTINGS.high_watermarks_interval_ms)
    assert "the checkpoints of /data cannot be saved" in caplog.text
    site.pass_time(SETTINGS.high_watermarks_interval_ms)
    assert read_offsets(site.fs, f"/data/{HIGH_WATERMARKS}") == {TopicPartition("t", 0): 1}


def test_the_files_of_a_deleted_topic_go_when_their_time_has_come(site: Site) -> None:
    site.node.create_topic("t", file_delete_delay_ms="60000")
    site.append()
    site.node.delete_topic("t")

    def is_there() -> bool:
        return any(name.startswith("t-0") for name in site.fs.list_dir("/data"))

    site.pass_time(59_000)
    assert is_there()
    site.pass_time(2 * TIDY_INTERVAL_MS)
    assert not is_there()


def test_background_work_waits_while_the_worker_has_no_room(site: Site) -> None:
    site.node.create_topic("t", internal_segment_bytes="1000", cleanup_policy="compact")
    site.append(count=10)
    site.node.worker.has_room = False
    site.node.clock.move(SETTINGS.recovery_points_interval_ms)
    assert not site.node.worker.chores
    site.node.worker.has_room = True
    site.pass_time(SETTINGS.recovery_points_interval_ms)
    assert site.node.partition("t").log.size_bytes < 2000


def test_after_the_stop_nothing_happens(site: Site) -> None:
    site.node.create_topic("t", retention_ms="1", internal_segment_bytes="1000", flush_ms="1")
    site.append(count=6)
    site.maintenance.stop()
    site.node.clock.move(10 * HOUR_MS)
    assert not site.node.worker.chores
    assert site.node.partition("t").log.log_start_offset == 0
