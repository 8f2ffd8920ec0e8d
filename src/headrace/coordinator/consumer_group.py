"""A consumer group (KIP-848): the coordinator assigns, and members are led there one by one.

Theory. Three layers, each with an epoch that follows the one above:

    group epoch          grows with everything that may change who gets what: members, subscriptions, topics, partitions
    assignment epoch     the group epoch for which the target was last computed: what each member is to have in the end
    member epoch         the assignment epoch that a member has reached on its way to its target

State of the group
    Empty          no members
    Assigning      the group epoch is ahead of the assignment epoch
    Reconciling    some member has not reached the target
    Stable         every member has reached it

State of a member, moved on by its heartbeats (consumer_reconciliation.py)
    STABLE                   it has what it is to have at its epoch
    UNREVOKED_PARTITIONS     it stays in its epoch until it has given up what it is to lose
    UNRELEASED_PARTITIONS    it is in the new epoch, and waits for partitions that others have not given up

There is no barrier: a member that is slow to give up a partition delays only the one who waits for that partition.

Invariants
    a partition has one owner at a time: somebody's `assigned` or `revoking`; nobody gets it while another has it
    assignment epoch <= group epoch; no member's epoch is above the assignment epoch
    members with an instance id are found in static_members, one for each instance
    subscriptions, owners and the counts of members are what the members say, summed up

All of it is hard state, changed by consumer_replay.py. Only whether the topics' metadata and patterns must be looked at
again is soft: yes after a start, and when topics change.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.coordinator.assignors.spec import NOTHING_ASSIGNED, Assignment
from headrace.coordinator.consumer_commits import check_commit, check_fetch
from headrace.coordinator.consumer_member import ConsumerMember, MemberState, Owned
from headrace.coordinator.consumer_records import group_tombstones
from headrace.coordinator.consumer_subscriptions import Subscriptions
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord

FIRST_EPOCH: Final = 1
NO_ASSIGNMENT_EPOCH: Final = -1  # what the epoch of the target is after its tombstone


class ConsumerGroup:
    """See the head of this module."""

    __slots__ = (
        "_stable_at",
        "assigned_at_ms",
        "assignment_epoch",
        "classic_count",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "is_metadata_stale",
        "is_regex_stale",
        "members",
        "metadata_hash",
        "owners",
        "static_members",
        "subscriptions",
        "target",
    )

    kind: Final = "consumer"
    protocol_type: Final = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0  # when the target was computed; 0: never
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, Assignment] = {}
        self.owners: dict[bytes, dict[int, str]] = {}  # topic id -> partition -> who has it
        self.subscriptions = Subscriptions()
        self.classic_count = 0  # members that speak the classic protocol
        self._stable_at: dict[int, int] = {}  # member epoch -> members that are STABLE there
        self.has_partition_metadata = False  # there is a record of Kafka 4.0 or older, which has to go
        self.is_metadata_stale = False
        self.is_regex_stale = False

    # What both kinds of group tell; see shard_state.py

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        reconciled = self._stable_at.get(self.assignment_epoch, 0)
        return "Stable" if reconciled == len(self.members) else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed(self, topic: str) -> bool:
        return self.subscriptions.has(topic)

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        member_epoch: int,
        *,
        is_transactional: bool,
        version: int,
        partitions: Iterable[tuple[bytes, int]],
    ) -> ErrorCode:
        if member_epoch < 0 and not self.members:
            return ErrorCode.NONE  # from outside, and nobody inside is disturbed
        if is_transactional and member_epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE  # a producer that is no member
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return check_commit(member, member_epoch, partitions, is_transactional=is_transactional, version=version)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = None if member_id is None else self.members.get(member_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else check_fetch(member, member_epoch)

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def offset_expires_from(self, committed_ms: int) -> int | None:
        return committed_ms

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return tuple(group_tombstones(self.group_id, self.members, self.subscriptions.resolved))

    # Questions

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """A static member that comes back under another id has the target of the one before."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id)
        return NOTHING_ASSIGNED if member_id is None else self.target.get(member_id, NOTHING_ASSIGNED)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        return partition in self.owners.get(topic_id, ())

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Is there a partition that it is to have, and that somebody else has not given up yet?"""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, ()) and self.is_owned(topic_id, partition)
            for topic_id, partitions in self.target.get(member.member_id, NOTHING_ASSIGNED).items()
            for partition in partitions
        )

    def speaks_only_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Would only members be left that speak the classic protocol?"""
        gone = list(leaving)
        classic_gone = sum(1 for member in gone if member.classic is not None)
        return self.classic_count - classic_gone == len(self.members) - len(gone)

    # Changes, by replay only

    def set_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._discount(before)
        self.members[member.member_id] = member
        self.subscriptions.add(member)
        self.classic_count += member.classic is not None
        self._count_stable(member, 1)
        for topic_id, partition in _partitions(member.assigned, member.revoking):
            self.owners.setdefault(topic_id, {})[partition] = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._discount(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _discount(self, member: ConsumerMember) -> None:
        self.subscriptions.remove(member)
        self.classic_count -= member.classic is not None
        self._count_stable(member, -1)
        for topic_id, partition in _partitions(member.assigned, member.revoking):
            owners = self.owners.get(topic_id, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]

    def _count_stable(self, member: ConsumerMember, change: int) -> None:
        if member.state is MemberState.STABLE:
            count = self._stable_at.get(member.member_epoch, 0) + change
            if count:
                self._stable_at[member.member_epoch] = count
            else:
                del self._stable_at[member.member_epoch]


def _partitions(*owned: Owned) -> Iterator[tuple[bytes, int]]:
    for each in owned:
        for topic_id, partitions in each.items():
            for partition in partitions:
                yield topic_id, partition
