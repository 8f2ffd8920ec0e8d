"""The partitions of a node follow the image: opened, configured, led, deleted."""

import errno

import pytest

from headrace.cluster.image import CLUSTER_DEFAULT, EMPTY_IMAGE
from headrace.log.checkpoints import TopicPartition
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata_records import ConfigRecord, PartitionChangeRecord, PartitionRecord
from headrace.server.partitions import CREATES_AT_ONCE
from tests.support.log_batches import a_batch
from tests.support.one_node import NODE_ID, NOW_MS, OneNode

WEEK_MS = 7 * 86_400_000


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def node(fs: MemoryFileSystem) -> OneNode:
    return OneNode(fs, other_brokers=[2])


def directories(fs: MemoryFileSystem) -> list[str]:
    """Of logs that live."""
    return sorted(name for name in fs.list_dir("/data") if name.rpartition("-")[2].isdecimal())


def append(node: OneNode, topic: str = "t") -> int:
    return node.partition(topic).append(a_batch(b"a"), acks=1, now_ms=NOW_MS).base_offset


def test_a_new_topic_gets_a_log_for_each_partition_of_this_node(node: OneNode, fs: MemoryFileSystem) -> None:
    topic_id = node.create_topic("t", partitions=2)
    node.create_topic("elsewhere", replicas=[2], leader=2)
    assert directories(fs) == ["t-0", "t-1"]
    assert len(node.partitions) == 2
    partition = node.partition("t", 1)
    assert (partition.topic, partition.index, partition.topic_id) == ("t", 1, topic_id)
    assert partition.log.topic_id == topic_id
    assert node.partitions.leader(topic_id, 1) is partition
    assert node.partitions.replica(topic_id, 1) is partition


def test_what_is_not_led_here_has_a_reason(node: OneNode) -> None:
    topic_id = node.create_topic("far", replicas=[1, 2], leader=2)
    leader = node.partitions.leader
    assert leader("far", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader(topic_id, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader("far", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert leader("nope", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert leader(b"?" * 16, 0) is ErrorCode.UNKNOWN_TOPIC_ID


def test_more_partitions_are_opened_and_the_others_stay(node: OneNode) -> None:
    topic_id = node.create_topic("t")
    before = node.partition("t")
    node.controller.write(
        PartitionRecord(1, topic_id, [1], [1], leader=1, leader_epoch=0, partition_epoch=0, directories=[b"d" * 16])
    )
    assert node.partition("t", 0) is before
    assert node.partition("t", 1).is_leader


def test_a_deleted_topic_is_gone_with_its_files(node: OneNode, fs: MemoryFileSystem) -> None:
    node.create_topic("t")
    node.create_topic("u")
    node.delete_topic("t")
    assert directories(fs) == ["u-0"]
    assert node.partitions.leader("t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.topic for partition in node.partitions] == ["u"]


def test_a_topic_made_again_under_its_old_name_starts_empty(node: OneNode) -> None:
    old = node.create_topic("t")
    append(node)
    node.delete_topic("t")
    new = node.create_topic("t")
    assert append(node) == 0
    assert node.partitions.leader(old, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert node.partitions.leader(new, 0) is node.partition("t")


def test_a_replica_that_moves_away_takes_its_files_along(node: OneNode, fs: MemoryFileSystem) -> None:
    topic_id = node.create_topic("t", replicas=[1, 2])
    node.controller.write(PartitionChangeRecord(0, topic_id, isr=[2], leader=2, replicas=[2], directories=[b"d" * 16]))
    assert directories(fs) == []
    assert node.partitions.leader("t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_leadership_comes_and_goes_with_its_epoch(node: OneNode) -> None:
    topic_id = node.create_topic("t", replicas=[1, 2])
    partition = node.partition("t")
    node.controller.write(PartitionChangeRecord(0, topic_id, leader=2))
    assert node.partitions.leader("t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.is_leader
    node.controller.write(PartitionChangeRecord(0, topic_id, leader=NODE_ID))
    assert node.partition("t") is partition
    assert partition.leader_epoch == 2
    assert partition.log.epochs.latest_epoch == 2


def test_configs_of_the_topic_and_of_the_broker_reach_the_logs(node: OneNode) -> None:
    node.create_topic("t")
    node.create_topic("own", retention_ms="7")
    config = node.partition("t").log.config
    assert config.retention_ms == WEEK_MS
    node.controller.write(ConfigRecord(*CLUSTER_DEFAULT, "log.retention.ms", "1000"))
    assert [node.partition(topic).log.config.retention_ms for topic in ("t", "own")] == [1000, 7]
    node.set_config("t", "retention.ms", "5")
    node.set_config("own", "retention.ms", None)
    assert [node.partition(topic).log.config.retention_ms for topic in ("t", "own")] == [5, 1000]


def test_what_the_operator_set_is_the_default_of_topics() -> None:
    node = OneNode(static={"log.segment.bytes": "2000000", "log.cleanup.policy": "compact"})
    node.create_topic("t")
    config = node.partition("t").log.config
    assert (config.segment_bytes, config.is_compacted, config.is_deleted) == (2_000_000, True, False)


def test_topics_without_configs_share_one(node: OneNode) -> None:
    node.create_topic("t", partitions=2)
    node.create_topic("u")
    assert node.partition("t").log.config is node.partition("u").log.config


def test_partitions_of_a_topic_share_its_configs_also_when_they_wake_one_by_one(
    node: OneNode, fs: MemoryFileSystem
) -> None:
    node.create_topic("t", partitions=2, retention_ms="7")
    node.create_topic("u", retention_ms="8")
    again = restart(node, fs)
    first, second, other = (again.partition(*place).log.config for place in (("t", 0), ("t", 1), ("u", 0)))
    assert first is second
    assert (first.retention_ms, other.retention_ms) == (7, 8)


def test_a_log_that_cannot_be_opened_stops_no_other(
    node: OneNode, fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    fs.faults.append(Fault("open", errno.EIO, path_end="00000000000000000000.log"))
    node.create_topic("t", partitions=2)
    assert node.partitions.leader("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert node.partition("t", 1).is_leader
    assert "[t-0] is offline" in caplog.text


@pytest.mark.parametrize("path_end", ["t-0/partition.metadata", "t-0/00000000000000000000.log"])
def test_a_log_that_had_no_room_is_made_when_somebody_asks_and_there_is_some(
    node: OneNode, fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture, path_end: str
) -> None:
    fs.faults.append(Fault("open", errno.ENOSPC, path_end, times=2))
    node.create_topic("t")
    leader = node.partitions.leader
    for seconds in (0, 0, 1, 0):  # the second attempt fails, too
        node.clock.move(seconds * 1000)
        assert leader("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert fs.faults[0].times == 0
    node.clock.move(1000)
    assert append(node) == 0
    assert caplog.text.count("is offline") == 1


def test_of_many_new_partitions_most_are_made_when_somebody_asks_for_them(node: OneNode, fs: MemoryFileSystem) -> None:
    node.create_topic("t", partitions=CREATES_AT_ONCE + 3)
    assert len(fs.list_dir("/data")) == len(node.logs) == len(node.partitions) == CREATES_AT_ONCE
    last = CREATES_AT_ONCE + 2
    assert node.partition("t", last).is_leader
    assert node.partition("t", last).log.log_end_offset == 0
    assert len(node.logs) == CREATES_AT_ONCE + 1
    assert node.partitions.wake(1)
    assert not node.partitions.wake(1)
    assert len(node.logs) == CREATES_AT_ONCE + 3
    node.create_topic("u")
    assert len(node.partitions) == CREATES_AT_ONCE + 4


def test_a_topic_with_partitions_that_were_never_made_can_be_deleted(node: OneNode) -> None:
    node.create_topic("t", partitions=CREATES_AT_ONCE + 3)
    node.delete_topic("t")
    assert len(node.logs) == 0
    assert not node.partitions.are_some_asleep


def restart(node: OneNode, fs: MemoryFileSystem) -> OneNode:
    """The same node after a clean stop, with the image as it is now."""
    node.logs.close()
    again = OneNode(fs)
    again.partitions.apply(EMPTY_IMAGE, node.controller.image)
    again.partitions.delete_strays()
    return again


def test_a_restart_finds_the_records_and_the_high_watermark(node: OneNode, fs: MemoryFileSystem) -> None:
    node.create_topic("t")
    append(node)
    append(node)
    again = restart(node, fs)
    assert again.partition("t").log.high_watermark == 2
    assert append(again) == 2


def test_logs_that_lost_their_topic_id_belong_to_the_topic_of_their_name(node: OneNode, fs: MemoryFileSystem) -> None:
    """A power cut before the first flush does that."""
    topic_id = node.create_topic("kept")
    node.create_topic("gone")
    append(node, "kept")
    node.logs.close()
    node.controller.unsubscribe_all()
    node.delete_topic("gone")
    for name in ("kept", "gone"):
        fs.write_atomically(f"/data/{name}-0/partition.metadata", b"")
    again = OneNode(fs)
    again.partitions.apply(EMPTY_IMAGE, node.controller.image)
    again.partitions.delete_strays()
    assert again.partition("kept").log.log_end_offset == 1
    assert [str(place) for place in again.logs] == ["kept-0"]
    again.logs.close()
    assert OneNode(fs).logs.topic_id(TopicPartition("kept", 0)) == topic_id


def test_topics_that_were_deleted_while_the_node_was_away_are_deleted_at_its_start(
    node: OneNode, fs: MemoryFileSystem
) -> None:
    for topic in ("kept", "gone", "replaced"):
        node.create_topic(topic)
        append(node, topic)
    node.controller.unsubscribe_all()
    node.delete_topic("gone")
    node.delete_topic("replaced")
    node.create_topic("replaced")
    assert directories(fs) == ["gone-0", "kept-0", "replaced-0"]
    again = restart(node, fs)
    assert directories(fs) == ["kept-0", "replaced-0"]
    assert [append(again, topic) for topic in ("kept", "replaced")] == [1, 0]
    assert directories(fs) == ["kept-0", "replaced-0"]


class TestSleep:
    """After a restart logs are opened when somebody asks for them."""

    @pytest.fixture
    def again(self, node: OneNode, fs: MemoryFileSystem) -> OneNode:
        node.create_topic("t", partitions=3)
        node.create_topic("far", replicas=[1, 2])
        append(node)
        node.controller.write(PartitionChangeRecord(0, node.controller.image.topic_ids["far"], leader=2))
        again = restart(node, fs)
        again.controller.image = node.controller.image
        return again

    def test_nothing_is_opened_before_it_is_asked_for(self, again: OneNode) -> None:
        assert (len(again.partitions), again.logs.opened) == (0, {})
        assert append(again) == 1
        assert [str(place) for place in again.logs.opened] == ["t-0"]
        assert again.partitions.leader(again.controller.image.topic_ids["t"], 0) is again.partition("t")

    def test_what_is_not_led_here_sleeps_on(self, again: OneNode) -> None:
        assert again.partitions.leader("far", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert again.logs.opened == {}

    def test_a_few_at_a_time_are_woken(self, again: OneNode) -> None:
        assert again.partitions.wake(3)
        assert len(again.partitions) == 3
        assert not again.partitions.wake(3)
        assert len(again.partitions) == 4
        assert sum(partition.is_leader for partition in again.partitions) == 3

    def test_what_changed_meanwhile_holds_when_it_wakes(self, again: OneNode) -> None:
        topic_id = again.controller.image.topic_ids["t"]
        again.set_config("t", "retention.ms", "5")
        again.controller.write(PartitionChangeRecord(0, topic_id, leader=NODE_ID))
        partition = again.partition("t")
        assert (partition.log.config.retention_ms, partition.leader_epoch) == (5, 1)

    def test_a_topic_can_be_deleted_in_its_sleep(self, again: OneNode, fs: MemoryFileSystem) -> None:
        again.delete_topic("t")
        assert directories(fs) == ["far-0"]
        assert again.partitions.leader("t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        again.create_topic("t")
        assert append(again) == 0

    def test_one_that_cannot_be_opened_is_offline_and_not_tried_again(
        self, again: OneNode, fs: MemoryFileSystem
    ) -> None:
        fs.faults.append(Fault("open", errno.EIO, path_end="t-0/00000000000000000000.log"))
        assert again.partitions.leader("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert again.partitions.leader("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert again.partition("t", 1).is_leader
        assert not again.partitions.wake(10)


def test_a_topic_that_begins_to_sync_shows_only_what_is_synced_from_then_on() -> None:
    fs = MemoryFileSystem()
    node = OneNode(fs)
    node.create_topic("t")
    append(node)
    node.set_config("t", "flush.messages", "1")
    partition = node.partition("t")
    assert node.worker.chores, "what is there must be synced now"
    append(node)
    assert partition.log.high_watermark == 1  # it never goes back
    node.worker.step()
    node.worker.step()
    assert partition.log.high_watermark == 2


def test_an_image_that_did_not_change_changes_nothing(node: OneNode) -> None:
    node.create_topic("t")
    image = node.controller.image
    partitions = list(node.partitions)
    node.partitions.apply(image, image)
    assert list(node.partitions) == partitions


# While logs are synced


@pytest.mark.parametrize("comes_again", [False, True])
def test_a_topic_that_goes_while_it_is_synced_is_no_trouble(
    comes_again: bool, fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    node = OneNode(fs)
    node.create_topic("t", flush_messages="1")
    node.partition("t").append(a_batch(), acks=-1, now_ms=NOW_MS)
    node.delete_topic("t")
    if comes_again:
        node.create_topic("t", flush_messages="1")
    node.worker.step()
    assert caplog.messages == []
    if comes_again:
        assert "leader-epoch-checkpoint" not in fs.list_dir("/data/t-0")  # of the one before
        node.partition("t").append(a_batch(), acks=-1, now_ms=NOW_MS)
        node.worker.step()
        assert node.partition("t").log.high_watermark == 1
        assert "leader-epoch-checkpoint" in fs.list_dir("/data/t-0")


def test_others_are_synced_though_a_topic_that_waits_with_them_goes(fs: MemoryFileSystem) -> None:
    node = OneNode(fs)
    for topic in ("first", "gone", "last"):
        node.create_topic(topic, flush_messages="1")
        node.partition(topic).append(a_batch(), acks=-1, now_ms=NOW_MS)
    last = node.partition("last").log
    node.delete_topic("gone")
    node.worker.step()
    node.worker.step()
    assert last.high_watermark == 1


def test_a_log_that_cannot_be_opened_for_its_sync_does_not_hold_up_others(fs: MemoryFileSystem) -> None:
    node = OneNode(fs)
    for topic in ("first", "closed", "last"):
        node.create_topic(topic, flush_messages="1")
        node.partition(topic).append(a_batch(), acks=-1, now_ms=NOW_MS)
    closed = node.partition("closed").log
    closed.segments.close()  # as when too many files are open
    fs.faults.append(Fault("open", errno.EMFILE, path_end="closed-0/00000000000000000000.log"))
    node.worker.step()
    node.worker.step()
    assert (closed.high_watermark, node.partition("last").log.high_watermark) == (0, 1)
    node.partition("closed").append(a_batch(), acks=-1, now_ms=NOW_MS)
    node.worker.step()
    assert closed.high_watermark == 2
