"""The sticky assignors: as even as possible, and then as little change as possible.

Both find the same assignment. Members with `sticky` give up everything before each rebalance, and tell by user data
what they had. With `cooperative-sticky` they keep it (KIP-429): a partition that moves is given to nobody at first, and
to its new owner in the rebalance that follows as soon as the old one has let go of it.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from headrace.client.assignors.java_order import in_hash_order
from headrace.client.assignors.racks import Racks
from headrace.client.assignors.spec import NO_GENERATION, Assignment, Member, Topics
from headrace.client.assignors.sticky_alike import assign_alike
from headrace.client.assignors.sticky_mixed import assign_mixed
from headrace.client.topic_partition import TopicPartition, by_topic

STICKY: Final = "sticky"
COOPERATIVE_STICKY: Final = "cooperative-sticky"

_INT: Final = Struct(">i")
_SHORT: Final = Struct(">h")


class History(NamedTuple):
    """What a member says that it had; None where it does not tell in which generation."""

    partitions: Sequence[TopicPartition]
    generation: int | None


class StickyAssignor:
    name = STICKY
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return write_history(owned, generation)

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        return _assign(topics, members, {member.id: read_history(member.user_data) for member in members})[0]


class CooperativeStickyAssignor:
    name = COOPERATIVE_STICKY
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:  # noqa: ARG002
        return _INT.pack(generation)

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        histories = {member.id: _owned(member) for member in members}
        assignment, moving = _assign(topics, members, histories)
        if moving is None:
            moving = _moving(members, assignment)
        for partition, member_id in moving.items():
            assignment[member_id].remove(partition)
        return assignment


def _owned(member: Member) -> History:
    if member.generation != NO_GENERATION:
        return History(member.owned, member.generation)
    if member.user_data is None:
        return History(member.owned, None)
    try:
        return History(member.owned, int(_INT.unpack_from(member.user_data)[0]))
    except error:
        return History(member.owned, NO_GENERATION)


def _moving(members: Sequence[Member], assignment: Assignment) -> dict[TopicPartition, str]:
    """Partitions that somebody has and another one gets, with the one that gets them."""
    added: dict[TopicPartition, str] = {}
    given_up: set[TopicPartition] = set()
    for member in members:
        owned, assigned = set(member.owned), set(assignment[member.id])
        added.update(dict.fromkeys(assigned - owned, member.id))
        given_up |= owned - assigned
    return {partition: member_id for partition, member_id in added.items() if partition in given_up}


def _assign(
    topics: Topics, members: Sequence[Member], histories: dict[str, History]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment; and what moves by it, if that is known."""
    by_id = {member.id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_hash_order(by_id)]
    owned, contested = _settle_claims(topics, ordered, histories)
    racks = Racks(topics, members)
    if _want_the_same(ordered):
        return assign_alike(topics, owned, contested, racks)
    return assign_mixed(topics, ordered, owned, histories, racks), None


def _want_the_same(members: Sequence[Member]) -> bool:
    """Members that want nothing, and come before the others, do not count: Kafka's client has it so."""
    wanted: set[str] = set()
    for member in members:
        if not wanted:
            wanted.update(member.topics)
        elif wanted != set(member.topics):
            return False
    return True


def _settle_claims(
    topics: Topics, members: Sequence[Member], histories: dict[str, History]
) -> tuple[dict[str, list[TopicPartition]], set[TopicPartition]]:
    """What each member had: of two that claim a partition the one of the later generation, of the same one none."""
    owned: dict[str, list[TopicPartition]] = {}
    contested: set[TopicPartition] = set()
    owners: dict[TopicPartition, Member] = {}
    for member in members:
        partitions, generation = histories[member.id]
        claimed = NO_GENERATION if generation is None else generation
        mine = owned[member.id] = []
        for partition in partitions:
            if partition.topic not in topics:
                continue
            other = owners.get(partition)
            if other is None:
                mine.append(partition)
            elif claimed < other.generation:
                continue
            else:
                if partition in owned[other.id]:
                    owned[other.id].remove(partition)
                if claimed == other.generation:
                    contested.add(partition)
                else:
                    mine.append(partition)
            owners[partition] = member
    return owned, contested


# User data of `sticky`: what the member had, topic by topic, and in which generation.


def write_history(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    topics = by_topic(partitions)
    parts = [_INT.pack(len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += [_SHORT.pack(len(name)), name, _INT.pack(len(numbers)), *map(_INT.pack, numbers)]
    return b"".join([*parts, _INT.pack(generation)])


def read_history(data: bytes | None) -> History:
    """What another member wrote; nothing if it cannot be read. The generation came with a later version."""
    if not data:
        return History((), None)
    try:
        partitions, place = _read_partitions(data)
        return History(partitions, int(_INT.unpack_from(data, place)[0]) if place < len(data) else None)
    except (error, UnicodeDecodeError):
        return History((), NO_GENERATION)


def _read_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    """Raises struct.error at the end of the data, whatever counts and lengths claim."""
    partitions: list[TopicPartition] = []
    (topic_count,) = _INT.unpack_from(data)
    place = _INT.size
    for _ in range(topic_count):
        (length,) = _SHORT.unpack_from(data, place)
        place += _SHORT.size
        if length < 0 or place + length > len(data):
            raise error("a name goes beyond the end")
        topic = data[place : place + length].decode()
        place += length
        (count,) = _INT.unpack_from(data, place)
        for _ in range(count):
            place += _INT.size
            partitions.append(TopicPartition(topic, _INT.unpack_from(data, place)[0]))
        place += _INT.size
    return partitions, place
