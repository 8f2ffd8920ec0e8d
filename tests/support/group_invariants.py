"""What must be true of a shard of groups at any time: the invariants of classic_group.py and offsets.py."""

from collections import Counter
from typing import Any

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.groups import GroupShard
from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.internal_records import decode_coordinator_record
from headrace.protocol.messages.group_records import OffsetCommitValue
from tests.support.group_driver import GroupDriver, Marked

_SETTLED = (ClassicState.STABLE, ClassicState.EMPTY)


def check_all(driver: GroupDriver) -> None:
    for group in driver.shard.groups.values():
        if isinstance(group, ClassicGroup):
            check_classic(group)
            check_deadlines(driver.shard, group)
    check_replay(driver)
    assert committed_by(driver.shard) == oracle(driver), "the offsets are not what the log says"


def check_classic(group: ClassicGroup) -> None:
    members = group.members
    assert group.state is not ClassicState.DEAD
    assert all(member.member_id == key for key, member in members.items())
    statics = {member.instance_id: key for key, member in members.items() if member.instance_id is not None}
    assert group.static_members == statics
    assert group.awaiting_joins == sum(member.join is not None for member in members.values())
    assert group.votes == Counter(name for member in members.values() for name, _, _ in member.protocols)
    assert not (set(members) & set(group.pending_joins))
    assert set(group.pending_syncs) <= set(members)
    if group.state is ClassicState.EMPTY:
        assert not members
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING):
        assert group.leader_id in members
        assert all(group.protocol in {name for name, _, _ in member.protocols} for member in members.values())
    for member in members.values():
        assert member.join is None or group.state is ClassicState.PREPARING
        assert member.sync is None or group.state is ClassicState.COMPLETING
        assert not member.is_new or group.state is ClassicState.PREPARING


def check_deadlines(shard: GroupShard, group: ClassicGroup) -> None:
    """Nobody waits for ever: whoever is awaited has a deadline."""
    deadlines, group_id = shard.deadlines, group.group_id
    for member_id, member in group.members.items():
        assert member.waits or ("classic-session", group_id, member_id) in deadlines, member_id
    for member_id in group.pending_joins:
        assert ("classic-session", group_id, member_id) in deadlines, member_id
    if group.state is ClassicState.PREPARING:
        assert ("classic-join", group_id) in deadlines
    if group.pending_syncs:
        assert ("classic-sync", group_id) in deadlines


def check_replay(driver: GroupDriver) -> None:
    """Whoever takes over finds what is settled as it is, and of what is not, an earlier generation."""
    live, replayed = driver.shard, driver.replayed()
    assert live.offsets._committed == replayed.offsets._committed
    assert live.offsets._pending == replayed.offsets._pending
    assert live.offsets._open == replayed.offsets._open
    assert live.groups.keys() == replayed.groups.keys()
    for group_id, group in live.groups.items():
        other = replayed.groups[group_id]
        if isinstance(group, ClassicGroup):
            assert isinstance(other, ClassicGroup)
            if group.state in _SETTLED:
                assert settled(group) == settled(other)
            else:
                assert other.generation <= group.generation


def settled(group: ClassicGroup) -> Any:
    """What a group is when nothing is going on, apart from since when."""
    return group.state, group.topics, group.value(group.assignments())._replace(current_state_timestamp=0)


def committed_by(shard: GroupShard) -> dict[tuple[str, str, int], int]:
    return {
        (group_id, topic, partition): value.offset
        for group_id in shard.groups
        for topic, partitions in shard.offsets.of_group(group_id).items()
        for partition, value in partitions.items()
    }


def oracle(driver: GroupDriver) -> dict[tuple[str, str, int], int]:
    """What counts, from the whole log: the last commit outside of a transaction or in a committed one."""
    commits: dict[tuple[str, str, int], list[tuple[int, int, bool, int]]] = {}  # place, offset, counts, producer
    for number, entry in enumerate(driver.log):
        if isinstance(entry, Marked):
            producer_id = entry.producer.producer_id
            for key, rows in commits.items():
                commits[key] = [
                    (row[0], row[1], True, -1) if row[3] == producer_id else row
                    for row in rows
                    if row[3] != producer_id or entry.committed
                ]
            continue
        record = decode_coordinator_record(GROUP_RECORDS, entry.key, entry.value)
        if record.type.name != "OffsetCommit":
            continue
        if record.value is None:
            commits.pop(tuple(record.key), None)
        else:
            assert isinstance(record.value, OffsetCommitValue)
            row = (number, record.value.offset, entry.producer_id < 0, entry.producer_id)
            commits.setdefault(tuple(record.key), []).append(row)
    counting = {key: [row for row in rows if row[2]] for key, rows in commits.items()}
    return {key: max(rows)[1] for key, rows in counting.items() if rows}
