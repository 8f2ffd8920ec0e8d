"""A member of a classic group."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.coordinator.result import Ticket
from headrace.protocol.messages.group_records import MemberMetadata
from headrace.protocol.messages.join_group import JoinGroupRequestProtocol

_ROW_BYTES: Final = 24  # numbers and lengths in a member's row


class Waiting(NamedTuple):
    """A JoinGroup request that waits for its answer."""

    ticket: Ticket
    version: int


class ClassicMember:
    """One member, and what it waits for."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[JoinGroupRequestProtocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id  # of a static member (KIP-345), which keeps its place while it restarts
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols  # the preferred one first, no name twice
        self.assignment = assignment
        self.join: Waiting | None = None
        self.sync: Ticket | None = None
        self.is_new = False  # it has not yet been in a generation

    @property
    def waits(self) -> bool:
        """Its answer is the coordinator's business, so its silence is not held against it."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """What it said for this protocol."""
        for name, metadata, _ in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} knows {[name for name, _, _ in self.protocols]}, not {protocol}")

    @property
    def size_bound(self) -> int:
        """Its row in the group's record has at most so many bytes, without the assignment."""
        texts = len(self.member_id) + len(self.instance_id or "") + len(self.client_id) + len(self.client_host)
        return 4 * texts + max(len(protocol.metadata) for protocol in self.protocols) + _ROW_BYTES

    def row(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """As the group's record says it."""
        return MemberMetadata(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def knows(self, protocols: Sequence[JoinGroupRequestProtocol]) -> bool:
        """Are these the protocols and metadata that it joined with?"""
        return [each[:2] for each in protocols] == [each[:2] for each in self.protocols]


def member_of(row: MemberMetadata, protocol: str | None) -> ClassicMember:
    """The member that a group's record describes."""
    return ClassicMember(
        row.member_id,
        row.group_instance_id,
        row.client_id,
        row.client_host,
        rebalance_timeout_ms=row.session_timeout if row.rebalance_timeout == -1 else row.rebalance_timeout,
        session_timeout_ms=row.session_timeout,
        protocols=(JoinGroupRequestProtocol(protocol or "", row.subscription),),
        assignment=row.assignment,
    )
