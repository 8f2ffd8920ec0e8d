from headrace.coordinator.batches import size_of
from headrace.coordinator.group_records import offset_commit
from headrace.protocol.messages.group_records import OffsetCommitValue
from tests.support.group_driver import GroupDriver, topic_id_of

PARTITIONS = 2_500
STEP = 1_000  # so many tombstones are written at once


def with_many_offsets() -> GroupDriver:
    driver = GroupDriver({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "60000"})
    driver.make_topic("t", 1)
    value = OffsetCommitValue(7, commit_timestamp=driver.now_ms, topic_id=topic_id_of("t"))
    for partition in range(PARTITIONS):
        driver.shard.replay(offset_commit("g", "t", partition, value))
    return driver


def test_many_expired_offsets_are_forgotten_in_several_batches_and_then_the_group() -> None:
    driver = with_many_offsets()
    driver.move(60_000)
    assert [len(step.records) for step in driver.steps] == [STEP, STEP, 501]
    assert driver.steps[-1].records[-1].type.name == "GroupMetadata"
    assert driver.shard.groups == {}


def test_many_offsets_of_a_deleted_topic_are_forgotten_in_several_batches() -> None:
    driver = with_many_offsets()
    driver.delete_topic("t")
    assert [len(step.records) for step in driver.steps] == [STEP, STEP, 500]
    assert not driver.shard.offsets
    assert "g" in driver.shard.groups


def test_other_changes_of_the_cluster_touch_no_offset() -> None:
    driver = with_many_offsets()
    driver.make_topic("u", 1)
    driver.make_topic("t", 2)
    driver.delete_topic("u")
    assert driver.steps == []


def test_tombstones_with_long_names_still_fit_into_a_batch() -> None:
    driver = GroupDriver({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "60000"})
    value = OffsetCommitValue(7, commit_timestamp=driver.now_ms)
    for partition in range(100):
        driver.shard.replay(offset_commit("g" * 20_000, "t", partition, value))
    driver.move(60_000)
    assert driver.shard.groups == {}
    assert all(sum(map(size_of, step.records)) < 1_048_588 for step in driver.steps)
