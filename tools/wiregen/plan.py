"""A layout as a sequence of segments: a run of fixed fields, then at most one thing of variable size.

A run is one `unpack_from` or one `pack`; the length, count or tag byte of what follows is its last value. Structs that
cannot be null have no bytes of their own, so their fields join the run. Rows of arrays and structs that may be null are
planned on their own, by whoever emits the loop or the condition around them.
"""

import keyword
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from wiregen.layout import CODES, HEAD_SIZES, Layout, Slot
from wiregen.model import Field

# Names that generated functions use for themselves, and built-ins they call; a field of this name gets an underscore.
# fmt: off
RESERVED: Final = frozenset({
    "a", "any", "at", "b", "body", "buffer", "bytes", "c", "d", "end", "error", "known", "len", "message", "n",
    "new", "p", "parts", "q", "range", "stop", "t", "tag", "tags", "text", "unknown", "uuid", "view",
})
# fmt: on


class Names:
    """Local variables of one function: a field's own name where it is free, else with its path before it."""

    def __init__(self) -> None:
        self._by_path: dict[str, str] = {}
        self._taken: set[str] = set()

    def local(self, path: str, name: str) -> str:
        full = join(path, name)
        if full not in self._by_path:
            parents = path.split(".") if path else []
            local = f"{name}_" if name in RESERVED or keyword.iskeyword(name) else name
            while local in self._taken:
                local = f"{parents.pop()}_{local}" if parents else f"{local}_"
            self._taken.add(local)
            self._by_path[full] = local
        return self._by_path[full]

    def row(self, array: str) -> str:
        """For the rows of the array that is in this local."""
        key = f"a row of {array}"
        if key not in self._by_path:
            local = f"{array}_row"
            while local in self._taken:
                local = f"{local}_"
            self._taken.add(local)
            self._by_path[key] = local
        return self._by_path[key]


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


@dataclass(frozen=True)
class Place:
    """A layout at its place in a message: knows the path for error messages and the local of each field."""

    layout: Layout
    path: str
    names: Names

    def local(self, of: Field) -> str:
        return self.names.local(self.path, of.name)

    def path_of(self, of: Field) -> str:
        return join(self.path, of.name)

    def inside(self, slot: Slot) -> "Place":
        assert slot.row
        return Place(slot.row, self.path_of(slot.field), self.names)

    def locals(self) -> list[str]:
        """One for each field of the struct, present or not, in the order of the class."""
        return [self.local(each) for each in self.layout.struct.fields]


@dataclass(frozen=True)
class Value:
    """One fixed part of a run: the expression that is written or the local that is read, and its struct code."""

    code: str
    size: int
    local: str
    path: str


@dataclass
class Segment:
    """The struct codes of `values`, and then one byte or number more if something of variable size follows."""

    values: list[Value] = field(default_factory=list)
    opened: list[Place] = field(default_factory=list)  # structs whose first field may be in this run
    complete: list[Place] = field(default_factory=list)  # structs that are complete once the run is read
    place: Place | None = None  # of what follows the run, if anything does:
    body: Slot | None = None  # a field of variable size; None: the tagged fields of `place`
    closed: list[Place] = field(default_factory=list)  # structs that are complete once the tagged fields are read

    @property
    def head(self) -> str:
        """The struct code of what announces the variable part; empty if there is none."""
        if self.place is None:
            return ""
        return "B" if self.body is None else self.body.head

    @property
    def codes(self) -> str:
        return "".join(value.code for value in self.values) + self.head

    @property
    def size(self) -> int:
        return sum(value.size for value in self.values) + (HEAD_SIZES[self.head] if self.head else 0)

    @property
    def is_constant(self) -> bool:
        return self.place is None and not self.opened and all(value.code == "x" for value in self.values)

    def describe(self, path: str) -> Iterator[str]:
        """`name:size` of each value, relative to `path`, for error messages."""
        for value in self.values:
            yield f"{_relative(value.path, path)}:{value.size}"
        if self.place is not None:
            name = self.place.path_of(self.body.field) if self.body else join(self.place.path, "tags")
            yield f"{_relative(name, path)}:{HEAD_SIZES[self.head]}"


def _relative(name: str, path: str) -> str:
    return name.removeprefix(f"{path}.") if path else name


# What stands for an empty field in a run, told whether that is still the first one. None: the field is not folded.
Fold: TypeAlias = Callable[[Place, Slot, bool], Value | None]


def segments(place: Place, *, fold: Fold | None = None, without_tags: bool = False) -> list[Segment]:
    """The plan of one struct; of its usual form if rare fields are folded into runs and tagged fields left out."""
    planned: list[Segment] = [Segment()]

    def end_run(at: Place, body: Slot | None) -> None:
        last = planned[-1]
        last.place, last.body = at, body
        planned.append(Segment())

    def walk(at: Place) -> None:
        for slot in at.layout.slots:
            folded = fold(at, slot, len(planned) == 1) if fold and at is place and slot.field.is_rare else None
            if folded:
                planned[-1].values.append(folded)
            elif slot.is_fixed:
                code, size = CODES[slot.field.type]
                planned[-1].values.append(Value(code, size, at.local(slot.field), at.path_of(slot.field)))
            elif slot.is_struct and not slot.is_nullable:
                inside = at.inside(slot)
                planned[-1].opened.append(inside)
                walk(inside)
                if inside.layout.is_flexible:
                    planned[-2].closed.append(inside)
                else:
                    planned[-1].complete.append(inside)
            else:
                end_run(at, slot)
        if at.layout.is_flexible and without_tags and at is place:
            planned[-1].values.append(Value("x", 1, "", join(at.path, "tags")))
        elif at.layout.is_flexible:
            end_run(at, None)

    walk(place)
    if not planned[-1].values and not planned[-1].complete and not planned[-1].opened:
        planned.pop()
    return planned
