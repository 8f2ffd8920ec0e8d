"""A struct as it stands on the wire in one version.

Layouts compare by value: versions whose layouts are equal share one decoder and one encoder.
"""

from dataclasses import dataclass
from typing import Final

from wiregen.model import DefinitionError, Field, Message, Struct

# The `struct` module's code and the size of each fixed type.
CODES: Final = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "bool": ("?", 1),
    "uuid": ("16s", 16),
}

HEAD_SIZES: Final = {"b": 1, "B": 1, "h": 2, "i": 4}


@dataclass(frozen=True)
class Slot:
    """A field in its place."""

    field: Field
    is_compact: bool  # its length is a varint, plus one
    is_nullable: bool
    row: "Layout | None"  # of a struct, or of the rows of an array of structs

    @property
    def is_fixed(self) -> bool:
        """Always the same number of bytes, no length before it."""
        return not self.field.is_array and self.field.type in CODES

    @property
    def is_struct(self) -> bool:
        return self.row is not None and not self.field.is_array

    @property
    def is_scalar_array(self) -> bool:
        return self.field.is_array and self.field.type in CODES

    @property
    def head(self) -> str:
        """The struct code of what announces a body: its length or count, or a mark that a struct is there.

        Of a varint it is the first byte. The mark is a varint under a tag (null: 0), elsewhere an int8 (null: -1).
        """
        if self.is_struct:
            return "b" if self.field.tag is None else "B"
        if self.is_compact:
            return "B"
        return "h" if self.field.type == "string" and not self.field.is_array else "i"

    @property
    def minimal_size(self) -> int:
        if self.is_fixed:
            return CODES[self.field.type][1]
        if self.is_struct and self.row and not self.is_nullable:
            return self.row.minimal_size
        return HEAD_SIZES[self.head]


@dataclass(frozen=True)
class Layout:
    struct: Struct
    slots: tuple[Slot, ...]  # in the order of the wire
    tagged: tuple[Slot, ...]  # by tag
    absent: tuple[Field, ...]
    is_flexible: bool

    @property
    def minimal_size(self) -> int:
        return sum(slot.minimal_size for slot in self.slots) + self.is_flexible

    def has_fixed_size(self, *, and_rare: bool) -> bool:
        """All rows have `minimal_size` bytes, as long as none has tagged fields (and rare fields, if that is said)."""
        return all(slot.is_fixed or (and_rare and slot.field.is_rare) for slot in self.slots)


def resolve(message: Message, version: int) -> Layout:
    return _resolve(message.body, version, is_flexible=version in message.flexible)


def _resolve(struct: Struct, version: int, *, is_flexible: bool) -> Layout:
    slots: list[Slot] = []
    tagged: list[Slot] = []
    absent: list[Field] = []
    for field in struct.fields:
        if version not in field.versions:
            absent.append(field)
            continue
        slot = Slot(
            field=field,
            is_compact=is_flexible and not field.is_inflexible,
            is_nullable=version in field.nullable,
            row=_resolve(field.struct, version, is_flexible=is_flexible) if field.struct else None,
        )
        if field.is_array and slot.row and slot.row.minimal_size == 0:
            raise DefinitionError(
                f"{struct.name}.{field.name}: a row of no bytes in version {version}; "
                "its count could not be checked against the frame"
            )
        if field.tag is None:
            slots.append(slot)
        elif is_flexible:
            tagged.append(slot)
        else:
            raise DefinitionError(f"{struct.name}.{field.name}: tagged in version {version}, which is not flexible")
    tagged.sort(key=lambda slot: slot.field.tag or 0)
    return Layout(struct, tuple(slots), tuple(tagged), tuple(absent), is_flexible)


def layouts(message: Message) -> list[tuple[Layout, tuple[int, ...]]]:
    """Each layout of the message with the versions that share it, in ascending order."""
    found: dict[Layout, list[int]] = {}
    for version in message.versions:
        found.setdefault(resolve(message, version), []).append(version)
    return [(layout, tuple(versions)) for layout, versions in found.items()]


def describe_versions(versions: tuple[int, ...]) -> str:
    """`version 3`, `versions 3-5`, `versions 0-2 and 4`."""
    spans: list[list[int]] = []
    for version in versions:
        if spans and version == spans[-1][1] + 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    text = " and ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"version{'s' if len(versions) > 1 else ''} {text}"
