"""The range assignor: of each topic, neighbouring partitions to each member; the same numbers of all topics.

Members on a rack get partitions with a replica there, as far as each still gets its share. Topics with as many
partitions and the same members stay in step: what a member gets of one it gets of all (KIP-881).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from headrace.client.assignors.spec import Assignment, Member, Topics, by_name, needs_racks
from headrace.client.topic_partition import TopicPartition

NAME: Final = "range"


class RangeAssignor:
    name = NAME
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:  # noqa: ARG002
        return None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        assignment: Assignment = {member.id: [] for member in members}
        shares = [
            _TopicShares(topic, partitions, sorted((each for each in members if topic in each.topics), key=by_name))
            for topic, partitions in topics.items()
        ]
        if any(share.needs_racks for share in shares):
            _match_racks(shares)
        for share in shares:
            share.give_ranges(lambda _, __: True)
            for member_id, numbers in share.given.items():
                assignment[member_id] += [TopicPartition(share.topic, number) for number in sorted(numbers)]
        return assignment


class _TopicShares:
    """One topic, and what its members have got of it so far."""

    def __init__(self, topic: str, partitions: Sequence[frozenset[str]], members: Iterable[Member]) -> None:
        self.topic = topic
        self.partitions = partitions
        self.racks = {member.id: member.rack or None for member in members}
        self.given: dict[str, list[int]] = {member_id: [] for member_id in self.racks}
        self._free = dict.fromkeys(range(len(partitions)))
        self._share, self._extras = divmod(len(partitions), len(self.racks)) if self.racks else (0, 0)
        self.needs_racks = needs_racks(frozenset(rack for rack in self.racks.values() if rack), partitions)

    def room(self, member_id: str) -> int:
        return max(0, self._share + (self._extras > 0) - len(self.given[member_id]))

    def is_near(self, member_id: str, number: int) -> bool:
        rack = self.racks[member_id]
        return rack is None or rack in self.partitions[number]

    def give(self, member_id: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self._free[number]
            self.given[member_id].append(number)
        if len(self.given[member_id]) > self._share:
            self._extras -= 1

    def give_ranges(self, may_have: Callable[[str, int], bool]) -> None:
        for member_id in self.racks:
            numbers = [number for number in self._free if may_have(member_id, number)][: self.room(member_id)]
            if numbers:
                self.give(member_id, numbers)


def _match_racks(shares: Iterable[_TopicShares]) -> None:
    """Give what fits by rack."""
    in_step: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_TopicShares]] = defaultdict(list)
    for share in shares:
        has_racks = any(share.racks.values())
        in_step[tuple(share.racks.items()), len(share.partitions) if has_racks else 0].append(share)
    for (_, count), group in in_step.items():
        if len(group) > 1:
            _match_in_step(group, count)
        elif group[0].needs_racks:
            group[0].give_ranges(group[0].is_near)


def _match_in_step(group: Sequence[_TopicShares], count: int) -> None:
    members = dict.fromkeys(group[0].racks)
    for number in range(count):
        for member_id in members:
            if all(share.is_near(member_id, number) and share.room(member_id) for share in group):
                for share in group:
                    share.give(member_id, [number])
                if not any(share.room(member_id) for share in group):
                    del members[member_id]
                break
        if not members:
            break
