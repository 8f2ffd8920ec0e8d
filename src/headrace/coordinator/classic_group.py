"""A classic group: its members, and where their rebalance stands.

Theory. The members of a group agree on who consumes what in rounds. Each round has a number, the generation.

    Empty                no member. Offsets may be kept, and members may be on their way
    PreparingRebalance   the join phase: whoever is to be in the next generation must join; answers wait until all did
    CompletingRebalance  the sync phase: the generation is made, one member leads it; answers to SyncGroup wait until
                         the leader has sent who gets what
    Stable               everybody has its assignment, or may fetch it
    Dead                 gone; only told to those who ask for a group that does not exist

        Empty ──join──► PreparingRebalance ──all joined, or time-out──► CompletingRebalance ──leader syncs──► Stable
          ▲                  │   ▲                                            │                                 │
          └──nobody joined───┘   └─── join, leave, time-out, other metadata ──┴─────────────────────────────────┘

What is hard and what is soft. A record is written when a generation is Stable, when a group becomes Empty, when a new
group is made and when a static member returns under another member id (`value` is what it says). Everything between two
records is soft: a coordinator that takes over knows the last stable generation, and members that joined since then are
told UNKNOWN_MEMBER_ID and join again. So on a running shard a record says nothing that its group does not know, and
`from_value` makes the group when there is none.

Invariants
    generation only grows; it changes with the end of a join phase and never otherwise
    Empty and Dead have no members; the other states have a leader among the members, once a join phase has ended
    static_members maps exactly the instance ids of the members to their member ids
    awaiting_joins is the number of members with a `join`; votes counts, for each protocol, the members that know it
    a member has a `sync` only in CompletingRebalance, and a `join` only in PreparingRebalance
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from headrace.coordinator.classic_member import ClassicMember, Waiting, member_of
from headrace.coordinator.classic_topics import subscribed_topics
from headrace.coordinator.group_records import group_metadata
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import GroupMetadataValue
from headrace.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember

CONSUMER_PROTOCOL_TYPE: Final = "consumer"  # what consumers of every language call their protocol
UNKNOWN_TIMESTAMP: Final = -1


class ClassicState(Enum):
    """As Kafka writes them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """See the head of this module. Deadlines and answers are the business of the classic_* modules."""

    __slots__ = (
        "awaiting_joins",
        "generation",
        "group_id",
        "initial_delay",
        "is_grown",
        "leader_id",
        "members",
        "pending_joins",
        "pending_syncs",
        "protocol",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "topics",
        "votes",
    )

    kind: Final = "classic"

    def __init__(self, group_id: str, *, now_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None  # None: it never had a member
        self.protocol: str | None = None  # which of the members' protocols the generation uses
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        # Dicts for sets: they keep the order, and an empty one takes a third of the room.
        self.pending_joins: dict[
            str, None
        ] = {}  # ids that were given out to members that have not joined with them yet
        self.pending_syncs: dict[str, None] = {}  # members of this generation that have not sent SyncGroup yet
        self.awaiting_joins = 0
        self.votes: dict[str, int] = {}
        self.topics: frozenset[str] | None = None  # that consumers are subscribed to; None: it is not known
        # The first rebalance waits for more members: how long this time, and how much is left after that.
        self.initial_delay: tuple[int, int] | None = None
        self.is_grown = False  # a member came during this delay, so it is worth waiting once more

    # What both kinds of group tell; see shard_state.py

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def is_subscribed(self, topic: str) -> bool:
        """Where the coordinator cannot read what consumers subscribe to, any topic may be among it."""
        return self.uses_consumer_protocol if self.topics is None else topic in self.topics

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        is_from_member = generation >= 0 or member_id != "" or instance_id is not None
        if generation < 0 and self.is_empty:
            return ErrorCode.NONE  # from outside, and nobody inside is disturbed
        if is_from_member:
            code = self.check_member(member_id, instance_id)
            if code:
                return code
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # A producer need not be a member, and cannot rejoin: its commit is fenced by its transaction instead.
        if not is_transactional and self.state is ClassicState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_offset_fetch(self, _member_id: str | None, _member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        """What other protocols than consumers' are subscribed to, nobody here knows."""
        return ErrorCode.NONE if self.is_empty or self.uses_consumer_protocol else ErrorCode.NON_EMPTY_GROUP

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def offset_expires_from(self, committed_ms: int) -> int | None:
        if self.protocol_type is None:
            return committed_ms
        if self.is_empty:
            return committed_ms if self.state_since_ms == UNKNOWN_TIMESTAMP else self.state_since_ms
        is_readable = self.uses_consumer_protocol and self.topics is not None
        return committed_ms if is_readable and self.state is ClassicState.STABLE else None

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return (group_metadata(self.group_id, None),)

    # Members

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member says how long everybody waits."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_everybody_joined(self) -> bool:
        return len(self.members) == self.awaiting_joins and not self.pending_joins

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is not None and existing != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if existing is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: ClassicMember, join: Waiting | None = None) -> None:
        assert member.instance_id not in self.static_members, f"{member.instance_id} is {self.static_members}"
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count_votes(member, 1)
        self.await_join(member, join)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Whoever it is: a member, one that was given an id, or nobody."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_votes(member, -1)
            self.await_join(member, None)
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static(self, member: ClassicMember, member_id: str) -> None:
        """A static member comes back under another id, and takes its own place."""
        assert member.instance_id is not None, f"{member.member_id} is not static"
        old_id = member.member_id
        self.members[member_id] = self.members.pop(old_id)
        member.member_id = member_id
        self.static_members[member.instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_syncs:
            del self.pending_syncs[old_id]
            self.pending_syncs[member_id] = None

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[JoinGroupRequestProtocol],
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count_votes(member, -1)
        member.protocols = protocols
        self._count_votes(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def await_join(self, member: ClassicMember, join: Waiting | None) -> None:
        """From now on the member waits for this answer, or for none."""
        self.awaiting_joins += (join is not None) - (member.join is not None)
        member.join = join

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        self.state = state
        self.state_since_ms = now_ms

    # Protocols

    def supports(self, protocol_type: str, protocols: Sequence[JoinGroupRequestProtocol]) -> bool:
        """Could a member with these be in the group together with those that are there?"""
        if self.is_empty:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.votes.get(protocol.name, 0) == everybody for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Of those that everybody knows, the one that most members prefer; of equals the oldest member's choice."""
        everybody = len(self.members)
        common = {name for name, count in self.votes.items() if count == everybody}
        ballots: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _, _ in member.protocols if name in common)
            ballots[choice] = ballots.get(choice, 0) + 1
        return max(ballots, key=lambda name: ballots[name])

    def _count_votes(self, member: ClassicMember, change: int) -> None:
        for name, _, _ in member.protocols:
            self.votes[name] = self.votes.get(name, 0) + change
            if not self.votes[name]:
                del self.votes[name]

    # Generations

    def begin_generation(self, now_ms: int) -> None:
        """The join phase is over; whoever is a member now is in the next generation."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.read_topics()
        self.move_to(ClassicState.COMPLETING if self.members else ClassicState.EMPTY, now_ms)
        self.pending_syncs.clear()

    def read_topics(self) -> None:
        """What the members want by now."""
        self.topics = None
        if self.uses_consumer_protocol:
            self.topics = subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    def roster(self) -> list[JoinGroupResponseMember]:
        """What the leader needs for the assignment."""
        return [
            JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        ]

    # Records

    def assignments(self) -> dict[str, bytes]:
        return {member_id: member.assignment for member_id, member in self.members.items()}

    def value(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        """The whole group, as a record says it. A member without an assignment has an empty one."""
        members = [
            member.row(self.protocol, assignments.get(member_id, b"")) for member_id, member in self.members.items()
        ]
        return GroupMetadataValue(
            self.protocol_type or "", self.generation, self.protocol, self.leader_id, self.state_since_ms, members
        )

    @staticmethod
    def of_consumers(
        group_id: str, members: Iterable[ClassicMember], generation: int, *, now_ms: int
    ) -> "ClassicGroup":
        """A stable group of consumers, who came together elsewhere."""
        group = ClassicGroup(group_id, now_ms=now_ms)
        group.generation = generation
        group.protocol_type = CONSUMER_PROTOCOL_TYPE
        for member in members:
            group.add(member)
        group.protocol = group.select_protocol()
        group.state = ClassicState.STABLE
        group.read_topics()
        return group

    @staticmethod
    def from_value(group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group that a record describes. Of what its members support, only what they chose is known."""
        group = ClassicGroup(group_id, now_ms=value.current_state_timestamp)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        group.leader_id = value.leader
        for member in value.members:
            group.add(member_of(member, value.protocol))
        if group.members:
            group.state = ClassicState.STABLE
        group.read_topics()
        return group
