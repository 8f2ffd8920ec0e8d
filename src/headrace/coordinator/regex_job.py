"""Which topics patterns stand for: a look-up over all names, in slices."""

from collections.abc import Iterable
from contextlib import suppress

from headrace.coordinator.topic_pattern import PatternError, TopicPattern


class RegexJob:
    """Compares patterns with the names that there were at the start."""

    __slots__ = ("_found", "_names", "_patterns", "started_ms")

    def __init__(self, regexes: Iterable[str], names: Iterable[str], started_ms: int) -> None:
        self.started_ms = started_ms
        self._names = iter(tuple(names))
        self._found: dict[str, set[str]] = {regex: set() for regex in regexes}
        self._patterns: list[tuple[TopicPattern, set[str]]] = []
        for regex, topics in self._found.items():
            with suppress(PatternError):  # another coordinator let it in; it stands for nothing here
                self._patterns.append((TopicPattern(regex), topics))

    def work(self, steps: int) -> bool:
        """Go on for some steps; whether all is done."""
        end = self._work_done + steps
        for name in self._names:
            for pattern, topics in self._patterns:
                if pattern.matches(name):
                    topics.add(name)
            if self._work_done >= end:
                return False
        return True

    @property
    def _work_done(self) -> int:
        return sum(pattern.work for pattern, _ in self._patterns)

    @property
    def found(self) -> dict[str, frozenset[str]]:
        return {regex: frozenset(topics) for regex, topics in self._found.items()}
