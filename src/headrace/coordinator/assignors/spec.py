"""What an assignor is told about a group."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

# Ascending partitions by topic id. A topic without partitions is absent: equal assignments are equal values.
Assignment: TypeAlias = Mapping[bytes, tuple[int, ...]]
NOTHING_ASSIGNED: Final[Assignment] = {}


class MemberSpec(NamedTuple):
    """What one member wants, and what it is to have so far."""

    instance_id: str | None
    topic_ids: Collection[bytes]  # what it is subscribed to, as far as it exists
    assigned: Assignment


class GroupSpec(NamedTuple):
    """All members, in the order in which an assignor shall go through them."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool  # all members are subscribed to the same topics
    partition_counts: Mapping[bytes, int]  # has every topic that a member is subscribed to
