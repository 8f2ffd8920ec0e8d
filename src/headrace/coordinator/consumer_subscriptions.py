"""What the members of a consumer group want, all together.

Counts go up and down with members, so that no question about a group needs a look at all its members.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.coordinator.assignors import RANGE, UNIFORM
from headrace.coordinator.consumer_member import ConsumerMember

# Of two assignors that as many members want, Kafka takes the one that comes first here.
_PREFERENCE: Final = (UNIFORM, RANGE)


class ResolvedRegex(NamedTuple):
    """The topics that a pattern stood for when it was last looked at."""

    topics: frozenset[str]
    version: int  # of the cluster's metadata
    timestamp_ms: int


class Subscriptions:
    """How many members want each topic, pattern and assignor, and what the patterns stand for."""

    __slots__ = ("_assignors", "_by_name", "_by_regex", "classic_protocols", "regexes", "resolved")

    def __init__(self) -> None:
        self._by_name: dict[str, int] = {}  # topic -> members that name it
        self._by_regex: dict[str, int] = {}  # topic -> patterns that stand for it
        self._assignors: dict[str, int] = {}
        self.regexes: dict[str, int] = {}  # pattern -> members that have it
        self.resolved: dict[str, ResolvedRegex] = {}
        self.classic_protocols: dict[str, int] = {}  # of members that speak the classic protocol

    def copy(self) -> "Subscriptions":
        """To try out a change."""
        other = Subscriptions()
        other._by_name = self._by_name.copy()
        other._by_regex = self._by_regex.copy()
        other._assignors = self._assignors.copy()
        other.regexes = self.regexes.copy()
        other.resolved = self.resolved.copy()
        other.classic_protocols = self.classic_protocols.copy()
        return other

    # Changes

    def add(self, member: ConsumerMember) -> None:
        self._count(member, 1)

    def remove(self, member: ConsumerMember) -> None:
        self._count(member, -1)

    def _count(self, member: ConsumerMember, change: int) -> None:
        _count(self._by_name, member.topics, change)
        if member.regex:
            _count(self.regexes, (member.regex,), change)
        if member.server_assignor is not None:
            _count(self._assignors, (member.server_assignor,), change)
        _count(self.classic_protocols, (protocol.name for protocol in member.classic_protocols), change)

    def set_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        before = self.resolved.pop(regex, None)
        if before is not None:
            _count(self._by_regex, before.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count(self._by_regex, resolved.topics, 1)

    def forget_unwanted(self) -> None:
        """What patterns stand for that nobody has any more."""
        for regex in [regex for regex in self.resolved if regex not in self.regexes]:
            self.set_resolved(regex, None)

    # Questions

    @property
    def topics(self) -> set[str]:
        """All topics that somebody wants, whether they exist or not."""
        return {*self._by_name, *self._by_regex}

    def has(self, topic: str) -> bool:
        return topic in self._by_name or topic in self._by_regex

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What one member wants: what it names, and what its pattern stands for."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        if resolved is None or not resolved.topics:
            return member.topics
        return member.topics | resolved.topics if member.topics else resolved.topics

    def are_homogeneous(self, member_count: int) -> bool:
        """Do all members want the same topics? A no may be wrong where patterns and names are mixed."""
        if not self.regexes:
            return all(count == member_count for count in self._by_name.values())
        if member_count not in self.regexes.values():
            return False
        return not self._by_name and all(count == 1 for count in self._by_regex.values())

    @property
    def preferred_assignor(self) -> str | None:
        """What most members ask for; None if nobody asks for one."""
        if not self._assignors:
            return None
        return max(self._assignors, key=lambda name: (self._assignors[name], -_rank(name)))


def _rank(assignor: str) -> int:
    return _PREFERENCE.index(assignor) if assignor in _PREFERENCE else len(_PREFERENCE)


def _count(counts: dict[str, int], names: Iterable[str], change: int) -> None:
    for name in names:
        count = counts.get(name, 0) + change
        if count > 0:
            counts[name] = count
        else:
            counts.pop(name, None)
