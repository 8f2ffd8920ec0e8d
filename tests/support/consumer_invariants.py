"""What must be true of consumer groups at any time: the invariants of consumer_group.py, and that the log says all."""

from collections import Counter
from typing import Any

from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import LEAVING_FOR_NOW, ConsumerMember, MemberState
from headrace.coordinator.consumer_subscriptions import Subscriptions
from headrace.coordinator.groups import GroupShard
from tests.support.group_driver import GroupDriver


def check_consumer_groups(driver: GroupDriver) -> None:
    for group in driver.shard.groups.values():
        if isinstance(group, ConsumerGroup):
            check_members(group)
            check_sums(group)
            check_deadlines(driver.shard, group)
    replayed = driver.replayed()
    assert hard_state(replayed) == hard_state(driver.shard), "the log says something else"


def check_members(group: ConsumerGroup) -> None:
    assert group.assignment_epoch <= group.epoch
    owned = Counter(place for member in group.members.values() for place in owned_by(member))
    assert all(count == 1 for count in owned.values()), f"a partition has two owners: {owned}"
    targets = Counter(
        (topic_id, index)
        for target in group.target.values()
        for topic_id, indexes in target.items()
        for index in indexes
    )
    assert all(count == 1 for count in targets.values()), f"a partition is to have two owners: {targets}"
    for member in group.members.values():
        assert member.member_epoch == LEAVING_FOR_NOW or 0 <= member.member_epoch <= group.assignment_epoch, member
        assert not member.revoking or member.state is MemberState.UNREVOKED_PARTITIONS, member
        assert all(member.assigned.values()), member
        assert all(member.revoking.values()), member


def owned_by(member: ConsumerMember) -> list[tuple[bytes, int]]:
    """With what it has yet to give up."""
    return [
        (topic_id, index)
        for each in (member.assigned, member.revoking)
        for topic_id in each
        for index in each[topic_id]
    ]


def check_sums(group: ConsumerGroup) -> None:
    """What is kept beside the members is what they say."""
    members = group.members
    assert all(member.member_id == key for key, member in members.items())
    assert group.static_members == {m.instance_id: key for key, m in members.items() if m.instance_id is not None}
    assert group.classic_count == sum(member.classic is not None for member in members.values())
    owners = {
        (topic_id, index): member_id for topic_id, its in group.owners.items() for index, member_id in its.items()
    }
    assert owners == {place: key for key, member in members.items() for place in owned_by(member)}
    counted = Subscriptions()
    for member in members.values():
        counted.add(member)
    for regex, resolved in group.subscriptions.resolved.items():
        counted.set_resolved(regex, resolved)
    assert sums(group.subscriptions) == sums(counted)
    assert set(group.subscriptions.resolved) <= set(group.subscriptions.regexes), "nobody has the pattern any more"
    is_stable = all(member.is_reconciled_to(group.assignment_epoch) for member in members.values())
    expected = "Stable" if is_stable else "Reconciling"
    if group.epoch > group.assignment_epoch:
        expected = "Assigning"
    assert group.state_name == (expected if members else "Empty")


def check_deadlines(shard: GroupShard, group: ConsumerGroup) -> None:
    """Nobody is waited for for ever."""
    for member_id, member in group.members.items():
        assert ("consumer-session", group.group_id, member_id) in shard.deadlines, member_id
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch != LEAVING_FOR_NOW
        if is_revoking and member.classic is None:
            assert ("consumer-rebalance", group.group_id, member_id) in shard.deadlines, member_id


def hard_state(shard: GroupShard) -> Any:
    return {
        group_id: (
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
            group.assigned_at_ms,
            group.members,
            group.static_members,
            group.target,
            group.owners,
            group.state_name,
            sums(group.subscriptions),
        )
        for group_id, group in shard.groups.items()
        if isinstance(group, ConsumerGroup)
    }


def sums(subscriptions: Subscriptions) -> Any:
    return [getattr(subscriptions, name) for name in Subscriptions.__slots__]
