"""Logs that others wrote: older versions, groups of kinds that are not served, and settings that changed since then."""

import pytest

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.group_records import group_metadata, offset_commit
from headrace.coordinator.result import Producer
from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.internal_records import (
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from headrace.protocol.messages.group_records import (
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from tests.support.consumer_protocol import subscription_bytes
from tests.support.group_driver import GroupDriver, Written

MEMBER = MemberMetadata("m1", None, "client", "/10.0.0.1", 60_000, 10_000, subscription_bytes(["t"]), b"t-0")
GROUP = GroupMetadataValue("consumer", 5, "range", "m1", 1_000, [MEMBER])


def load(*records: CoordinatorRecord) -> GroupDriver:
    driver = GroupDriver()
    for record in records:
        data = encode_coordinator_record(record.type, record.key, record.value, record.version)
        driver.log.append(Written(*data, -1))
    driver.restart()
    return driver


def the_group(driver: GroupDriver) -> ClassicGroup:
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


@pytest.mark.parametrize("version", range(5))
def test_a_group_is_read_in_each_version(version: int) -> None:
    group = the_group(load(group_metadata("g", GROUP)._replace(version=version)))
    assert (group.state, group.generation, group.protocol, group.leader_id) == (ClassicState.STABLE, 5, "range", "m1")
    assert group.state_since_ms == (1_000 if version >= 2 else -1)
    # Before version 1 the time for a rebalance was that of the session.
    assert group.members["m1"].rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert group.topics == frozenset(["t"])


@pytest.mark.parametrize("version", range(5))
def test_an_offset_is_read_in_each_version(version: int) -> None:
    value = OffsetCommitValue(7, 3, "text", 1_000, 2_000, b"0123456789abcdef")
    driver = load(offset_commit("g", "t", 0, value)._replace(version=version))
    found = driver.shard.offsets.get("g", "t", 0)
    assert found is not None
    assert (found.offset, found.metadata, found.commit_timestamp) == (7, "text", 1_000)
    assert found.leader_epoch == (3 if version >= 3 else -1)
    assert found.expire_timestamp == (2_000 if version == 1 else -1)


def test_offsets_of_very_old_brokers_count() -> None:
    key = LegacyOffsetCommitKey("g", "t", 0)
    driver = load(CoordinatorRecord(GROUP_RECORDS[0], key, 0, LegacyOffsetCommitValue(7, "text", 1_000)))
    assert driver.shard.offsets.get("g", "t", 0) == OffsetCommitValue(7, -1, "text", 1_000)
    driver = load(
        CoordinatorRecord(GROUP_RECORDS[0], key, 0, LegacyOffsetCommitValue(7, "text", 1_000)),
        CoordinatorRecord(GROUP_RECORDS[0], key, None, None),
    )
    assert driver.shard.offsets.get("g", "t", 0) is None


def test_groups_that_are_not_served_are_left_alone() -> None:
    share = CoordinatorRecord(GROUP_RECORDS[11], ShareGroupMetadataKey("s"), 0, ShareGroupMetadataValue(1, 2))
    driver = load(share, group_metadata("g", GROUP))
    assert set(driver.shard.groups) == {"g"}


def test_the_last_record_counts() -> None:
    driver = load(
        group_metadata("g", GROUP), group_metadata("g", GROUP._replace(generation=6, members=[], leader=None))
    )
    assert (the_group(driver).state, the_group(driver).generation) == (ClassicState.EMPTY, 6)
    driver = load(group_metadata("g", GROUP), group_metadata("g", None))
    assert driver.shard.groups == {}


def test_members_get_a_session_when_the_log_is_loaded_not_before() -> None:
    driver = load(group_metadata("g", GROUP))
    driver.move(9_999)
    assert the_group(driver).members
    driver.move(1)
    assert not the_group(driver).members


def test_a_leader_that_is_not_among_the_members_is_replaced_with_the_next_rebalance() -> None:
    driver = load(group_metadata("g", GROUP._replace(leader="gone", members=[MEMBER, MEMBER._replace(member_id="m2")])))
    driver.move(10_000)
    assert the_group(driver).state is ClassicState.EMPTY


def test_a_transaction_that_was_open_is_ended_by_its_marker() -> None:
    driver = GroupDriver()
    record = offset_commit("g", "t", 0, OffsetCommitValue(7))
    key, value = encode_coordinator_record(record.type, record.key, record.value, record.version)
    driver.log.append(Written(key, value, 9))
    driver.restart()
    assert driver.shard.offsets.is_pending("g", "t", 0)
    driver.shard.replay_end(Producer(9, 0), committed=True)
    assert driver.shard.offsets.get("g", "t", 0) == OffsetCommitValue(7)
    assert [*driver.shard.offsets.places("g")] == [("t", 0)]


def test_the_key_of_an_offset_is_kafkas() -> None:
    record = offset_commit("g", "t", 258, None)
    assert encode_coordinator_record(record.type, record.key, record.value, record.version) == (
        b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x01\x02",
        None,
    )
    record = offset_commit("g", "t", 0, OffsetCommitValue(7, 3, "m", 9))
    key, value = encode_coordinator_record(record.type, record.key, record.value, record.version)
    assert value == b"\x00\x04" + (7).to_bytes(8, "big") + b"\x00\x00\x00\x03\x02m" + (9).to_bytes(8, "big") + b"\x00"
    assert decode_coordinator_record(GROUP_RECORDS, key, value).key == OffsetCommitKey("g", "t", 0)
