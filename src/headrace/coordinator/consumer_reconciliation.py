"""The next step of a member of a consumer group towards its target (KIP-848).

Theory. Partitions move from one member to another without a barrier for all:

    1. A member is told to give up what is not in its target. Until it says that it has, it stays in its epoch, and
       nobody else gets those partitions.                                                       UNREVOKED_PARTITIONS
    2. Then it is in the epoch of the target, and gets what nobody has. As long as others have not given up the rest, it
       asks again with every heartbeat.                                                        UNRELEASED_PARTITIONS
    3. It has all of its target.                                                                              STABLE

A target may change at any time; the next step simply goes towards the new one. What a member has given up is known from
the partitions that it reports. A member that reports nothing has not changed anything.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headrace.coordinator.assignors.spec import Assignment
from headrace.coordinator.consumer_member import NOTHING_OWNED, ConsumerMember, MemberState, Owned
from headrace.coordinator.refused import RefusedError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import TopicPartitions

Reported = Sequence[TopicPartitions] | None  # the partitions that a member says it has


class Goal(NamedTuple):
    """Where a member is to go, and what is in its way."""

    epoch: int
    target: Assignment
    wants: Callable[[bytes], bool]  # is the member subscribed to the topic of this id?
    is_owned: Callable[[bytes, int], bool]  # does any member have this partition?


def reconcile(member: ConsumerMember, goal: Goal, reported: Reported, *, has_new_wishes: bool) -> ConsumerMember:
    """The member after its next step, or as it is. Raises RefusedError if it must begin anew."""
    state = member.state
    if state is MemberState.UNKNOWN:
        if reported is None or reported:
            raise RefusedError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The state of this member is not known here. It must give up all its partitions and join again.",
            )
        return _go_on(member, goal, reported, stay_epoch=goal.epoch)
    if state is MemberState.STABLE and member.member_epoch == goal.epoch:
        return _give_up_unwanted(member, goal, reported) if has_new_wishes else member
    if state is MemberState.UNREVOKED_PARTITIONS and _still_has(reported, member.revoking):
        return _give_up_unwanted(member, goal, reported) if has_new_wishes else member
    return _go_on(member, goal, reported, stay_epoch=member.member_epoch)


def _go_on(member: ConsumerMember, goal: Goal, reported: Reported, *, stay_epoch: int) -> ConsumerMember:
    """Towards the target: give up what is not in it, or else take what is free."""
    kept: dict[bytes, Mapping[int, int]] = {}
    lost: dict[bytes, Mapping[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        target = frozenset(goal.target.get(topic_id, ()) if goal.wants(topic_id) else ())
        _put(kept, topic_id, {partition: epoch for partition, epoch in epochs.items() if partition in target})
        _put(lost, topic_id, {partition: epoch for partition, epoch in epochs.items() if partition not in target})
    if lost and _still_has(reported, lost):
        return member.moved_to(stay_epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=lost
        )
    is_waiting = _take_free(member, goal, kept)
    return member.moved_to(goal.epoch)._replace(
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned=kept,
        revoking=NOTHING_OWNED,
    )


def _take_free(member: ConsumerMember, goal: Goal, kept: dict[bytes, Mapping[int, int]]) -> bool:
    """Add to `kept` what the member is to have and nobody else has; whether something is left to wait for."""
    is_waiting = False
    for topic_id, partitions in goal.target.items():
        if not goal.wants(topic_id):
            continue
        had = kept.get(topic_id, {})
        own = member.revoking.get(topic_id, {})
        missing = [partition for partition in partitions if partition not in had]
        free = [partition for partition in missing if partition in own or not goal.is_owned(topic_id, partition)]
        is_waiting |= len(free) < len(missing)
        if free:
            kept[topic_id] = {**had, **dict.fromkeys(free, goal.epoch)}
    return is_waiting


def _give_up_unwanted(member: ConsumerMember, goal: Goal, reported: Reported) -> ConsumerMember:
    """The subscription changed, but not (yet) the target: what is not wanted any more goes at once."""
    unwanted = {topic_id: epochs for topic_id, epochs in member.assigned.items() if not goal.wants(topic_id)}
    if not unwanted:
        return member
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in unwanted}
    revoking = {
        topic_id: {**member.revoking.get(topic_id, {}), **unwanted.get(topic_id, {})}
        for topic_id in {**member.revoking, **unwanted}
    }
    member = member.moved_to(member.member_epoch)._replace(assigned=kept)
    if _still_has(reported, revoking):
        return member._replace(state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return member


def _still_has(reported: Reported, owned: Owned) -> bool:
    """Does the member have any of these? If it does not say, it has all that it had."""
    if reported is None:
        return True
    return any(partition in owned.get(topic.topic_id, ()) for topic in reported for partition in topic.partitions)


def _put(owned: dict[bytes, Mapping[int, int]], topic_id: bytes, epochs: Mapping[int, int]) -> None:
    if epochs:
        owned[topic_id] = epochs
