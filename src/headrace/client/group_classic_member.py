"""A member of a classic group: what it says to the coordinator, and what the answers mean. It only computes.

    OUT ──join──► JOINED ──sync──► STABLE
     ▲              │                │  the group rebalances: join again, as the same member
     └──────────────┴────────────────┘  the coordinator does not know us any more: begin anew

A generation is one agreement of the group. As long as it holds, what was assigned may be processed and committed; a
member that is told of another generation, or that it is unknown, has lost what it had.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from headrace.client.assignors.spec import Assignor, Member
from headrace.client.config import Settings
from headrace.client.errors import KafkaError, code_of, error_for
from headrace.client.group_member import GroupMember
from headrace.client.group_protocol import (
    PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

NO_GENERATION: Final = -1
UNKNOWN: Final = ""  # a member id before the coordinator has given one


class Verdict(Enum):
    """What follows from an answer."""

    DONE = "it worked"
    AGAIN = "ask again after a pause"
    ELSEWHERE = "ask again, of another coordinator"
    REJOIN = "the group rebalances: join again"
    BEGIN_ANEW = "we are not a member any more: join as a new one"
    FAILED = "the user must hear of it"
    FENCED = "another member has our name, for good"


_VERDICTS: Final = {
    ErrorCode.NONE: Verdict.DONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.ELSEWHERE,
    ErrorCode.NOT_COORDINATOR: Verdict.ELSEWHERE,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: Verdict.BEGIN_ANEW,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.BEGIN_ANEW,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.FENCED,
}


class Joined(NamedTuple):
    """The generation that was joined. `members` are all, at the leader; `must_assign` says that it assigns."""

    assignor: Assignor
    is_leader: bool
    must_assign: bool
    members: Sequence[Member]


class ClassicMember:
    def __init__(self, settings: Settings, assignors: Sequence[Assignor]) -> None:
        self._settings = settings
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._group_id = settings.text("group.id")
        self._instance_id = settings.optional_text("group.instance.id")
        # The most that all of our assignors can do: one that cannot keep partitions makes us give up all of them.
        self.is_cooperative = all(assignor.is_cooperative for assignor in assignors)
        self.generation = NO_GENERATION
        self.member_id = UNKNOWN
        self._protocol: str | None = None
        self._last: tuple[tuple[TopicPartition, ...], int] = ((), NO_GENERATION)  # assigned, and in which generation

    @property
    def identity(self) -> GroupMember:
        return GroupMember(self._group_id, self.generation, self.member_id, self._instance_id)

    # Joining

    def join(self, topics: Sequence[str], owned: Sequence[TopicPartition], reason: str) -> JoinGroupRequest:
        settings = self._settings
        return JoinGroupRequest(
            self._group_id,
            settings.number("session.timeout.ms"),
            settings.number("max.poll.interval.ms"),
            self.member_id,
            self._instance_id,
            PROTOCOL_TYPE,
            [self._introduction(assignor, topics, owned) for assignor in self._assignors.values()],
            reason,
        )

    def _introduction(
        self, assignor: Assignor, topics: Sequence[str], owned: Sequence[TopicPartition]
    ) -> JoinGroupRequestProtocol:
        last, generation = self._last
        said = write_subscription(
            topics,
            owned=owned,
            generation=self.generation,
            rack=self._settings.text("client.rack"),
            user_data=assignor.user_data(last, generation) if generation != NO_GENERATION else None,
        )
        return JoinGroupRequestProtocol(assignor.name, said)

    def joined(self, response: JoinGroupResponse) -> tuple[Verdict, KafkaError | Joined | None]:
        code = code_of(response.error_code)
        if code is ErrorCode.NONE:
            return self._take(response)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return Verdict.REJOIN, None
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return Verdict.AGAIN, error_for(code)
        return self.judge(code, "cannot be joined")

    def _take(self, response: JoinGroupResponse) -> tuple[Verdict, KafkaError | Joined | None]:
        assignor = self._assignors.get(response.protocol_name or "")
        if assignor is None:
            return Verdict.FAILED, error_for(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"The group {self._group_id!r} agreed on the assignor {response.protocol_name!r}, which is not among "
                f"ours: {', '.join(self._assignors)}.",
            )
        self.generation = response.generation_id
        self.member_id = response.member_id
        self._protocol = response.protocol_name
        is_leader = response.leader == response.member_id
        members = [
            read_subscription(row.member_id, row.group_instance_id, bytes(row.metadata)) for row in response.members
        ]
        return Verdict.DONE, Joined(assignor, is_leader, is_leader and not response.skip_assignment, members)

    def sync(self, assignment: Mapping[str, Sequence[TopicPartition]]) -> SyncGroupRequest:
        """`assignment` is what the leader decided; all others have none."""
        rows = [
            SyncGroupRequestAssignment(member_id, write_assignment(partitions))
            for member_id, partitions in assignment.items()
        ]
        return SyncGroupRequest(
            self._group_id, self.generation, self.member_id, self._instance_id, PROTOCOL_TYPE, self._protocol, rows
        )

    def synced(self, response: SyncGroupResponse) -> tuple[Verdict, KafkaError | list[TopicPartition] | None]:
        code = code_of(response.error_code)
        if code is not ErrorCode.NONE:
            return self.judge(code, "did not say what to read")
        assigned = read_assignment(bytes(response.assignment))
        self._last = (tuple(assigned), self.generation)
        return Verdict.DONE, assigned

    # Staying and leaving

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(self._group_id, self.generation, self.member_id, self._instance_id)

    def leave(self, reason: str) -> LeaveGroupRequest:
        """For brokers since 2.4."""
        members = [MemberIdentity(self.member_id, self._instance_id, reason)]
        return LeaveGroupRequest(self._group_id, members=members)

    def forget(self, *, is_id_kept: bool = False) -> None:
        """Not a member any more."""
        self.generation = NO_GENERATION
        if not is_id_kept:
            self.member_id = UNKNOWN

    def judge(self, code: ErrorCode, what: str) -> tuple[Verdict, KafkaError]:
        """What an error means; it is noted if we are not a member any more."""
        verdict = _VERDICTS.get(code) or (Verdict.AGAIN if code.retriable else Verdict.FAILED)
        if verdict is Verdict.BEGIN_ANEW:
            self.forget(is_id_kept=code is ErrorCode.ILLEGAL_GENERATION)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            message = (
                f"Another member of the group {self._group_id!r} has the name {self._instance_id!r} "
                "(group.instance.id): this one must stop."
            )
        else:
            message = f"The group {self._group_id!r} {what}: {code.meaning}"
        return verdict, error_for(code, message)
