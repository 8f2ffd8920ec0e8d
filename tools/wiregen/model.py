"""What a definition file says, as immutable values.

Nothing here knows bytes: `layout` resolves a struct for one version, and the emitters turn layouts into code.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

FOREVER: Final = 1 << 15  # above any version: they are int16 on the wire
SCALARS: Final = frozenset({"int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "bool", "uuid"})
SIZED: Final = frozenset({"string", "bytes", "records"})


class DefinitionError(ValueError):
    """A definition that cannot be read or makes no sense; the text says which file and line."""


@dataclass(frozen=True)
class Versions:
    """A closed range of versions; `first > last` is no version at all."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __and__(self, other: "Versions") -> "Versions":
        return Versions(max(self.first, other.first), min(self.last, other.last))


ALWAYS: Final = Versions(0, FOREVER)
NEVER: Final = Versions(1, 0)


@dataclass(frozen=True)
class Field:
    name: str
    type: str  # a scalar, one of SIZED, or the name of `struct`
    is_array: bool
    struct: "Struct | None"
    versions: Versions
    nullable: Versions
    tag: int | None
    default: str | None  # as written: a number, `true`, `null`; None is the zero of its type
    is_key: bool
    is_ignorable: bool
    is_inflexible: bool
    is_rare: bool


@dataclass(frozen=True)
class Struct:
    """A message's body or a row; `name` is the name of the Python class."""

    name: str
    fields: tuple[Field, ...]
    keeps_unknown_tags: bool  # it has flexible versions


@dataclass(frozen=True)
class Message:
    body: Struct
    versions: Versions
    flexible: Versions
    table: str  # decode_<table> and encode_<table> are the module's tables of codecs


@dataclass(frozen=True)
class Api:
    name: str
    key: int
    versions: Versions
    flexible: Versions
    unstable: int | None
    listeners: tuple[str, ...]


@dataclass(frozen=True)
class RecordType:
    """A record of the metadata log, or of a coordinator's log when `is_pair`: then it has a key and a value message."""

    name: str
    id: int
    is_pair: bool


@dataclass(frozen=True)
class Definition:
    """One file: one module."""

    module: str
    about: str
    messages: tuple[Message, ...]
    api: Api | None
    records: tuple[RecordType, ...]
    removed: tuple[Api, ...]

    def structs(self) -> list[Struct]:
        """Every struct of the file once, rows before what contains them."""
        found: dict[str, Struct] = {}

        def visit(struct: Struct) -> None:
            for field in struct.fields:
                if field.struct:
                    visit(field.struct)
            found.setdefault(struct.name, struct)

        for message in self.messages:
            visit(message.body)
        return list(found.values())


def snake_case(name: str) -> str:
    """FetchRequest -> fetch_request; KRaft counts as one word."""
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
