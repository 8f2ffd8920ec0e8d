"""The target of a consumer group: what each member is to have in the end (KIP-848)."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.cluster.image import Image
from headrace.coordinator.assignors import ASSIGNORS
from headrace.coordinator.assignors.spec import NOTHING_ASSIGNED, Assignment, GroupSpec, MemberSpec
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import ConsumerMember
from headrace.coordinator.consumer_records import target_epoch_record, target_record
from headrace.protocol.internal_records import CoordinatorRecord


class Target(NamedTuple):
    """A new target; the records say what changed."""

    assignments: Mapping[str, Assignment]
    records: list[CoordinatorRecord]


def compute_target(
    group: ConsumerGroup,
    updated: ConsumerMember,
    *,
    epoch: int,
    assignor: str,
    is_homogeneous: bool,
    image: Image,
    now_ms: int,
) -> Target:
    """For the group as it is once `updated` is one of its members."""
    spec = _describe(group, updated, image, is_homogeneous=is_homogeneous)
    assignments = ASSIGNORS[assignor](spec)
    records = []
    for member_id in spec.members:
        target = assignments.get(member_id, NOTHING_ASSIGNED)
        if group.target.get(member_id) != target:  # a member without a target gets a record in any case
            records.append(target_record(group.group_id, member_id, target))
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return Target(assignments, records)


def _describe(group: ConsumerGroup, updated: ConsumerMember, image: Image, *, is_homogeneous: bool) -> GroupSpec:
    replaced_id = None if updated.instance_id is None else group.static_members.get(updated.instance_id)
    ids_of: dict[frozenset[str], tuple[bytes, ...]] = {}  # most members want the same
    members: dict[str, MemberSpec] = {}
    for member in (*(each for each in group.members.values() if each.member_id != replaced_id), updated):
        topics = group.subscriptions.topics_of(member)
        if topics not in ids_of:
            found = (image.topic_ids.get(topic) for topic in topics)
            ids_of[topics] = tuple(sorted(topic_id for topic_id in found if topic_id is not None))
        had = group.target_of(member) if member is updated else group.target.get(member.member_id, NOTHING_ASSIGNED)
        members[member.member_id] = MemberSpec(member.instance_id, ids_of[topics], had)
    counts = {topic_id: len(image.topics[topic_id].partitions) for ids in ids_of.values() for topic_id in ids}
    return GroupSpec(members, is_homogeneous, counts)
