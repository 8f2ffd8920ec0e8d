"""A pattern as a tree of its parts.

Whoever writes a pattern is a client, so its length, the depth of the tree and the size of what it unfolds to are
limited.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from headrace.coordinator.re2_sets import CharacterSet

MAX_LENGTH: Final = 32_767  # characters of a pattern; people write some dozens
MAX_DEPTH: Final = 100  # of the tree; people write patterns of depth 5
MAX_SIZE: Final = 5_000  # states after repetitions are unfolded; names of topics end at 249 characters


class PatternError(ValueError):
    """The pattern is not one of RE2, or is too large; the message says why."""


class Kind(IntEnum):
    """The kinds of nodes of a pattern's tree."""

    CHARACTERS = 0  # one character of a set
    ASSERTION = 1  # nothing, at a place of some kind
    SEQUENCE = 2
    CHOICE = 3
    REPEAT = 4


class Place(IntEnum):
    """What an assertion can say about the place where it stands."""

    START = 0
    END = 1
    WORD_BOUNDARY = 2
    NO_WORD_BOUNDARY = 3
    LINE_START = 4
    LINE_END = 5


class Node(NamedTuple):
    """A part of a pattern."""

    kind: Kind
    characters: CharacterSet | None = None  # of CHARACTERS
    place: Place = Place.START  # of ASSERTION
    parts: tuple["Node", ...] = ()
    least: int = 0  # of REPEAT
    most: int | None = None  # of REPEAT; None is without end
    size: int = 1
    depth: int = 1


def characters(of: CharacterSet) -> Node:
    return Node(Kind.CHARACTERS, of)


def assertion(place: Place) -> Node:
    return Node(Kind.ASSERTION, place=place)


def joined(kind: Kind, parts: list[Node]) -> Node:
    """Parts one after the other, or one of them. Raises PatternError."""
    if len(parts) == 1:
        return parts[0]
    size = 1 + sum(part.size for part in parts)
    return _checked(Node(kind, parts=tuple(parts), size=size, depth=1 + max((part.depth for part in parts), default=0)))


def repeated(part: Node, least: int, most: int | None) -> Node:
    """Raises PatternError."""
    copies = least + 1 if most is None else most
    size = 1 + copies * (part.size + 1)
    return _checked(Node(Kind.REPEAT, parts=(part,), least=least, most=most, size=size, depth=1 + part.depth))


def _checked(node: Node) -> Node:
    if node.size > MAX_SIZE:
        raise PatternError(f"with its repetitions written out it has more than {MAX_SIZE} parts")
    if node.depth > MAX_DEPTH:
        raise PatternError(f"it is nested more than {MAX_DEPTH} deep")
    return node
