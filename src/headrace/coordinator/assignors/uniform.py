"""The assignor `uniform`: as many partitions for each member as for every other, and as few moves as that allows.

When all members want the same topics (this file) each has a quota: the partitions divided by the members, and one
more for as many members as are needed to hand out the rest. First a member keeps what it has, up to its quota. What is
above goes into a pool with what nobody has, and the pool is dealt out to members below their quota. Who may have one
more is decided in the order of the members, and a member that has it already keeps it while there is one to give.

When they want different topics, uniform_mixed.py takes over.
"""

from typing import NamedTuple

from headrace.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from headrace.coordinator.assignors.uniform_mixed import assign_mixed

_TopicPartition = tuple[bytes, int]


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    if not group.members:
        return {}
    if not group.is_homogeneous:
        return assign_mixed(group)
    topic_ids = next(iter(group.members.values())).topic_ids
    if not topic_ids:
        return {}
    return _assign_same(group, frozenset(topic_ids))


class _Kept(NamedTuple):
    """What a member keeps, what it must give up, and how many it may still get."""

    kept: Assignment
    given_up: list[_TopicPartition]
    room: int


def _assign_same(group: GroupSpec, topic_ids: frozenset[bytes]) -> dict[str, Assignment]:
    pool = _unassigned(group, topic_ids)
    partition_count = sum(group.partition_counts[topic_id] for topic_id in topic_ids)
    quota, extras = divmod(partition_count, len(group.members))
    assigned: dict[str, Assignment] = {}
    hungry: list[tuple[str, int]] = []
    members_left = len(group.members)
    for member_id, member in group.members.items():
        has_extra = extras > 0
        kept, given_up, room = _keep(member, topic_ids, quota + has_extra)
        pool += given_up
        # Enough members come after this one to take all the extras, perhaps with what they already have.
        if has_extra and room > 0 and members_left > extras:
            room -= 1
            has_extra = False
        extras -= has_extra
        members_left -= 1
        assigned[member_id] = kept
        if room > 0:
            hungry.append((member_id, room))
    _deal(pool, hungry, assigned)
    return assigned


def _unassigned(group: GroupSpec, topic_ids: frozenset[bytes]) -> list[_TopicPartition]:
    taken: dict[bytes, set[int]] = {}
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            taken.setdefault(topic_id, set()).update(partitions)
    return [
        (topic_id, partition)
        for topic_id in sorted(topic_ids)
        for partition in range(group.partition_counts[topic_id])
        if partition not in taken.get(topic_id, ())
    ]


def _keep(member: MemberSpec, topic_ids: frozenset[bytes], quota: int) -> _Kept:
    kept: dict[bytes, tuple[int, ...]] = {}
    given_up: list[_TopicPartition] = []
    for topic_id, partitions in member.assigned.items():
        if topic_id not in topic_ids:
            continue
        if len(partitions) > quota:
            given_up += [(topic_id, partition) for partition in partitions[quota:]]
            partitions = partitions[:quota]
        if partitions:
            kept[topic_id] = partitions
        quota -= len(partitions)
    return _Kept(kept, given_up, quota)


def _deal(pool: list[_TopicPartition], hungry: list[tuple[str, int]], assigned: dict[str, Assignment]) -> None:
    start = 0
    for member_id, room in hungry:
        dealt = pool[start : start + room]
        start += len(dealt)
        if dealt:
            assigned[member_id] = _with(assigned[member_id], dealt)
    assert start == len(pool), f"{len(pool)} partitions in the pool, {start} dealt"


def _with(assignment: Assignment, dealt: list[_TopicPartition]) -> Assignment:
    more: dict[bytes, list[int]] = {}
    for topic_id, partition in dealt:
        more.setdefault(topic_id, []).append(partition)
    changed = {
        topic_id: tuple(sorted((*assignment.get(topic_id, ()), *partitions))) for topic_id, partitions in more.items()
    }
    return {**assignment, **changed}
