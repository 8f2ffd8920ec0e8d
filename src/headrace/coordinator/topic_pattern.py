"""Does a pattern match the whole name of a topic? In time that grows only with the length of the name.

Python's own `re` tries one way after the other, and a pattern such as `(a+)+b` makes it try more ways than a broker has
time for; RE2, whose patterns these are, follows all ways at once. So does this:

    tree      of re2_syntax.py
    states    one for each character that can come next; repetitions are unfolded
    sets      of states in which one can be after the same beginning of a name. They are made when they are first
              needed, and kept: a character of the next name is then one look into a dictionary.

`work` counts the steps, so that whoever matches many names can stop for others in between.
"""

from typing import Final, NamedTuple

from headrace.coordinator.re2_sets import BIT_OF, WORD
from headrace.coordinator.re2_syntax import parse
from headrace.coordinator.re2_tree import Kind, Node, PatternError, Place

__all__ = ["PatternError", "TopicPattern"]

_MAX_SETS: Final = 1_000  # kept at a time; a pattern with more begins anew

_END: Final = 0  # the number of the state in which the pattern has matched
_OUTSIDE: Final = 0  # before the first and after the last character
_OTHER: Final = 1
_IN_WORD: Final = 2


class _State(NamedTuple):
    """Takes one of `symbols` and goes on; or, without any, takes nothing and goes on if `place` allows."""

    symbols: int
    place: Place | None
    following: tuple[int, ...]


class _Set:
    """States in which one can be; `before` is what stood before this place."""

    __slots__ = ("accepts", "before", "next", "states")

    def __init__(self, states: frozenset[int], before: int) -> None:
        self.states = states
        self.before = before
        self.next: dict[str, _Set] = {}
        self.accepts: bool | None = None  # not known yet


class TopicPattern:
    """A pattern of RE2 that is compared with whole names."""

    __slots__ = ("_first", "_program", "_sees_words", "_sets", "_start", "work")

    def __init__(self, pattern: str) -> None:
        """Raises PatternError."""
        builder = _Builder()
        self._first = builder.add(parse(pattern), _END)
        self._program = builder.states
        self._sees_words = builder.sees_words
        self.work = 0
        self._forget()

    def matches(self, name: str) -> bool:
        current = self._start
        self.work += len(name)
        for character in name:
            following = current.next.get(character)
            current = following if following is not None else self._step(current, character)
            if not current.states:
                return False
        if current.accepts is None:
            current.accepts = _END in self._reachable(current, _OUTSIDE)
        return current.accepts

    def _forget(self) -> None:
        self._sets: dict[tuple[frozenset[int], int], _Set] = {}
        self._start = self._set(frozenset((self._first,)), _OUTSIDE)

    def _step(self, current: _Set, character: str) -> _Set:
        bit = BIT_OF.get(character, 0)
        kind = _IN_WORD if character in WORD else _OTHER
        states = frozenset(
            self._program[state].following[0]
            for state in self._reachable(current, kind)
            if self._program[state].symbols & bit
        )
        if len(self._sets) >= _MAX_SETS:
            self._forget()
        following = self._set(states, kind if self._sees_words else _OTHER)
        current.next[character] = following
        return following

    def _set(self, states: frozenset[int], before: int) -> _Set:
        found = self._sets.get((states, before))
        if found is None:
            found = self._sets[states, before] = _Set(states, before)
        return found

    def _reachable(self, current: _Set, after: int) -> set[int]:
        """All states that are reached without taking a character; `after` is what stands behind this place."""
        reached = set(current.states)
        waiting = list(reached)
        while waiting:
            _, place, following = state = self._program[waiting.pop()]
            if state.symbols or (place is not None and not _holds(place, current.before, after)):
                continue
            for each in following:
                if each not in reached:
                    reached.add(each)
                    waiting.append(each)
        self.work += len(reached)
        return reached


def _holds(place: Place, before: int, after: int) -> bool:
    if place is Place.START:
        return before == _OUTSIDE
    if place is Place.END:
        return after == _OUTSIDE
    is_boundary = (before == _IN_WORD) != (after == _IN_WORD)
    return is_boundary == (place is Place.WORD_BOUNDARY)


class _Builder:
    """From a tree to states. Each part is built in front of what follows it, so the end of the pattern comes first."""

    __slots__ = ("sees_words", "states")

    def __init__(self) -> None:
        self.states = [_State(0, None, ())]
        self.sees_words = False

    def add(self, node: Node, following: int) -> int:
        """The state in which `node` begins, if it is followed by the state `following`."""
        if node.kind is Kind.CHARACTERS:
            # A set that no name can match leads nowhere.
            return self._state(_State(node.symbols, None, (following,) if node.symbols else ()))
        if node.kind is Kind.ASSERTION:
            self.sees_words |= node.place in (Place.WORD_BOUNDARY, Place.NO_WORD_BOUNDARY)
            return self._state(_State(0, node.place, (following,)))
        if node.kind is Kind.SEQUENCE:
            for part in reversed(node.parts):
                following = self.add(part, following)
            return following
        if node.kind is Kind.CHOICE:
            return self._state(_State(0, None, tuple(self.add(part, following) for part in node.parts)))
        return self._add_repeat(node, following)

    def _add_repeat(self, node: Node, following: int) -> int:
        part = node.parts[0]
        if node.most is None:
            again = self._state(_State(0, None, ()))
            self.states[again] = _State(0, None, (self.add(part, again), following))
            following = again
        else:
            for _ in range(node.most - node.least):
                following = self._state(_State(0, None, (self.add(part, following), following)))
        for _ in range(node.least):
            following = self.add(part, following)
        return following

    def _state(self, state: _State) -> int:
        self.states.append(state)
        return len(self.states) - 1
