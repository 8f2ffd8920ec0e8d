"""Does a pattern match a whole name? In time that grows only with the length of the name.

Python's own `re` tries one way after the other, and a pattern such as `(a+)+b` makes it try more ways than a broker has
time for; RE2, whose patterns these are, follows all ways at once. So does this:

    tree      of re2_syntax.py
    states    one for each set of characters that can come next; repetitions are unfolded
    sets      of states in which one can be after the same beginning of a name. They are made when they are first
              needed, and kept: a character of the next name is then one look into a dictionary.

`follow` counts its steps and stops on the way, so that whoever compares much can let others have their turn.
"""

from collections.abc import Generator
from typing import Final, NamedTuple

from headrace.coordinator.re2_sets import WORD, CharacterSet
from headrace.coordinator.re2_syntax import parse
from headrace.coordinator.re2_tree import Kind, Node, PatternError, Place

__all__ = ["Pattern", "PatternError"]

# Kept at a time; a pattern with more begins anew.
_MAX_SETS: Final = 1_000
_MAX_WAYS: Final = 100_000  # from one set to another
_MAX_CHARACTERS: Final = 10_000

_END: Final = 0  # the number of the state in which the pattern has matched
_OUTSIDE: Final = 0  # before the first and after the last character
_OTHER: Final = 1
_IN_WORD: Final = 2
_LINE_BREAK: Final = 3


class _State(NamedTuple):
    """Takes a character of one set and goes on; or, without one, takes nothing and goes on if `place` allows."""

    takes: int  # the bit of the set
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


class Pattern:
    """A pattern of RE2 that is compared with whole names."""

    __slots__ = ("_bits", "_characters", "_first", "_program", "_sees_places", "_sets", "_start", "_ways", "work")

    def __init__(self, pattern: str) -> None:
        """Raises PatternError."""
        builder = _Builder()
        self._first = builder.add(parse(pattern), _END)
        self._program = builder.states
        self._characters = builder.sets
        self._sees_places = builder.sees_places
        self._bits: dict[str, int] = {}  # by character: the sets that have it
        self.work = 0  # steps so far
        self._forget()

    def matches(self, name: str) -> bool:
        following = self.follow(name)
        while True:
            try:
                next(following)
            except StopIteration as end:
                return bool(end.value)

    def follow(self, name: str) -> Generator[int, None, bool]:
        """Whether it matches. On the way, the number of steps, of each that was not known before."""
        current = self._start
        self.work += len(name)
        yield len(name)
        for character in name:
            following = current.next.get(character)
            if following is None:
                before = self.work
                following = self._step(current, character)
                yield self.work - before
            current = following
            if not current.states:
                return False
        if current.accepts is None:
            current.accepts = _END in self._reachable(current, _OUTSIDE)
        return current.accepts

    def _forget(self) -> None:
        self._sets: dict[tuple[frozenset[int], int], _Set] = {}
        self._ways = 0
        self._start = self._set(frozenset((self._first,)), _OUTSIDE)

    def _step(self, current: _Set, character: str) -> _Set:
        bits = self._bits_of(character)
        kind = _kind(character)
        states = frozenset(
            self._program[state].following[0]
            for state in self._reachable(current, kind)
            if self._program[state].takes & bits
        )
        if len(self._sets) >= _MAX_SETS or self._ways >= _MAX_WAYS:
            self._forget()
        following = self._set(states, kind if self._sees_places else _OTHER)
        current.next[character] = following
        self._ways += 1
        return following

    def _bits_of(self, character: str) -> int:
        found = self._bits.get(character)
        if found is None:
            if len(self._bits) >= _MAX_CHARACTERS:
                self._bits.clear()
            found = sum(bit for of, bit in self._characters.items() if of.has(character))
            self._bits[character] = found
            self.work += len(self._characters)
        return found

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
            if state.takes or (place is not None and not _holds(place, current.before, after)):
                continue
            for each in following:
                if each not in reached:
                    reached.add(each)
                    waiting.append(each)
        self.work += len(reached)
        return reached


def _kind(character: str) -> int:
    if character in WORD:
        return _IN_WORD
    return _LINE_BREAK if character == "\n" else _OTHER


def _holds(place: Place, before: int, after: int) -> bool:
    if place is Place.START:
        return before == _OUTSIDE
    if place is Place.END:
        return after == _OUTSIDE
    if place is Place.LINE_START:
        return before in (_OUTSIDE, _LINE_BREAK)
    if place is Place.LINE_END:
        return after in (_OUTSIDE, _LINE_BREAK)
    is_boundary = (before == _IN_WORD) != (after == _IN_WORD)
    return is_boundary == (place is Place.WORD_BOUNDARY)


class _Builder:
    """From a tree to states. Each part is built in front of what follows it, so the end of the pattern comes first."""

    __slots__ = ("sees_places", "sets", "states")

    def __init__(self) -> None:
        self.states = [_State(0, None, ())]
        self.sets: dict[CharacterSet, int] = {}  # each with a bit of its own
        self.sees_places = False  # other than the start and the end

    def add(self, node: Node, following: int) -> int:
        """The state in which `node` begins, if it is followed by the state `following`."""
        if node.characters is not None:
            bit = self.sets.setdefault(node.characters, 1 << len(self.sets))
            return self._state(_State(bit, None, (following,)))
        if node.kind is Kind.ASSERTION:
            self.sees_places |= node.place not in (Place.START, Place.END)
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
