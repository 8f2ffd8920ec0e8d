"""What an assignor is given, and what it returns."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from headrace.client.topic_partition import TopicPartition

NO_GENERATION = -1

# The partitions of each topic, by number: on which racks each of them has replicas.
Topics: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
# The partitions of each member.
Assignment: TypeAlias = dict[str, list[TopicPartition]]


class Member(NamedTuple):
    """A member of a group as it introduced itself. `owned` and `generation` are of before; -1 is none."""

    id: str
    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack: str | None = None
    user_data: bytes | None = None


class Assignor(Protocol):
    """How a group divides its partitions. An own one needs these, and goes into partition_assignment_strategy."""

    name: str  # what the members of a group agree on
    is_cooperative: bool  # members keep what they have while the group rebalances, and give up only what moves

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """What a member tells the others' assignor: `owned` is what it was last assigned, in this generation."""

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        """Each partition of `topics` to one of the members that want its topic. Called at the group's leader only."""


def by_name(member: Member) -> tuple[bool, str]:
    """The order of members: those with a name of their own first, since it stays over restarts (KIP-345)."""
    return (True, member.id) if member.instance_id is None else (False, member.instance_id)


def needs_racks(members: frozenset[str], partitions: Sequence[frozenset[str]]) -> bool:
    """Whether racks make a difference (KIP-881): some partitions are not on all racks, and members are on some."""
    everywhere = frozenset().union(*partitions)
    return bool(members & everywhere) and any(racks != everywhere for racks in partitions)
