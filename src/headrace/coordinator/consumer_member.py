"""A member of a consumer group (KIP-848): what it said about itself, and what it has.

A member is a value: decisions make another one, and records say what changed.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from headrace.protocol.messages.group_records import ClassicMemberMetadata, ClassicProtocol

# Member epochs with a meaning of their own; all others are epochs of the group that the member has reached.
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_NOW: Final = -2  # a static member that comes back keeps its partitions

# Topic id -> partition -> the epoch at which the member got it.
Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
NOTHING_OWNED: Final[Owned] = {}


class MemberState(IntEnum):
    """Where a member stands on the way to its target; the numbers are those of the records."""

    STABLE = 0  # it has all that its target of this epoch says
    UNREVOKED_PARTITIONS = 1  # it has partitions that it must give up first
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that others have not given up
    UNKNOWN = 127  # a newer coordinator wrote something that this one does not know


class ConsumerMember(NamedTuple):
    """One member. Dynamic ones are known by their member id, static ones (KIP-345) by their instance id, too."""

    member_id: str
    member_epoch: int = JOINING
    previous_member_epoch: int = -1  # a member whose answer got lost still says this one
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""  # of topics, beside those that are named
    server_assignor: str | None = None
    assigned: Owned = NOTHING_OWNED
    revoking: Owned = NOTHING_OWNED  # to be given up; disjoint with `assigned`
    classic: ClassicMemberMetadata | None = None  # of a member that speaks the classic protocol

    @property
    def classic_protocols(self) -> tuple[ClassicProtocol, ...]:
        return () if self.classic is None else tuple(self.classic.supported_protocols)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def moved_to(self, member_epoch: int) -> "ConsumerMember":
        """In another epoch, or once more in the same."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch)
