"""Which names patterns stand for: a look-up over all of them, in slices."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from headrace.coordinator.re2_pattern import Pattern, PatternError


class RegexJob:
    """Compares patterns with the names that there were at the start."""

    __slots__ = ("_comparing", "_found", "_names", "_patterns", "started_ms")

    def __init__(self, regexes: Iterable[str], names: Iterable[str], started_ms: int) -> None:
        self.started_ms = started_ms
        self._names = tuple(names)
        self._found: dict[str, set[str]] = {regex: set() for regex in regexes}
        self._patterns: list[tuple[Pattern, set[str]]] = []
        for regex, names_found in self._found.items():
            with suppress(PatternError):  # another coordinator let it in; it stands for nothing here
                self._patterns.append((Pattern(regex), names_found))
        self._comparing = self._compare()

    def work(self, steps: int) -> bool:
        """Go on for some steps; whether all is done."""
        for done in self._comparing:
            steps -= done
            if steps <= 0:
                return False
        return True

    def _compare(self) -> Iterator[int]:
        """Each time the number of steps since the last."""
        for name in self._names:
            for pattern, found in self._patterns:
                if (yield from pattern.follow(name)):
                    found.add(name)

    @property
    def found(self) -> dict[str, frozenset[str]]:
        return {regex: frozenset(names) for regex, names in self._found.items()}
