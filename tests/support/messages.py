"""All messages of definitions/, and the way between a generated NamedTuple and plain values.

Plain values are what the reference codec and the strategies speak: a struct is a dict of its fields by name, an array a
list, records and bytes are bytes. Fields that are at their default may be left out when a message is built.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from wiregen.model import Field, Message, Struct
from wiregen.parser import parse

from headrace.protocol.types import Decoder, Encoder

Values: TypeAlias = Mapping[str, Any]

DEFINITIONS: Final = Path(__file__).parents[2] / "definitions"
UNKNOWN_TAGS: Final = "unknown_tags"


@dataclass(frozen=True)
class Definition:
    """One message: its definition, and the module that was generated from it."""

    message: Message
    module_name: str
    api_key: int | None

    def __str__(self) -> str:
        return self.message.body.name

    @property
    def versions(self) -> range:
        return range(self.message.versions.first, self.message.versions.last + 1)

    def is_flexible(self, version: int) -> bool:
        return version in self.message.flexible

    @property
    def module(self) -> ModuleType:
        return import_module(f"headrace.protocol.messages.{self.module_name}")

    def decoder(self, version: int) -> Decoder[Any]:
        return getattr(self.module, f"decode_{self.message.table}")[version]  # type: ignore[no-any-return]

    def encoder(self, version: int) -> Encoder[Any]:
        return getattr(self.module, f"encode_{self.message.table}")[version]  # type: ignore[no-any-return]

    def build(self, values: Values) -> Any:
        return _build(self.module, self.message.body, values)

    def decode(self, version: int, data: bytes) -> Any:
        return self.decoder(version)(data, memoryview(data), 0, len(data))

    def encode(self, version: int, message: Any) -> bytes:
        return b"".join(bytes(part) for part in self.encoder(version)(message))


@cache
def all_messages() -> tuple[Definition, ...]:
    """Every message of every definition file, in the order of the files."""
    found = []
    for path in sorted(DEFINITIONS.glob("*.wire")):
        definition = parse(path)
        key = None if definition.api is None else definition.api.key
        found += [Definition(message, definition.module, key) for message in definition.messages]
    return tuple(found)


@cache
def message_named(name: str) -> Definition:
    return next(definition for definition in all_messages() if str(definition) == name)


def _build(module: ModuleType, struct: Struct, values: Values) -> Any:
    fields = {field.name: field for field in struct.fields}
    built = {
        name: value if name == UNKNOWN_TAGS else _build_field(module, fields[name], value)
        for name, value in values.items()
    }
    return getattr(module, struct.name)(**built)


def _build_field(module: ModuleType, field: Field, value: Any) -> Any:
    if field.struct is None or value is None:
        return value
    if field.is_array:
        return [_build(module, field.struct, row) for row in value]
    return _build(module, field.struct, value)


def fields_of(row: Struct, version: int) -> Iterator[tuple[Field, ...]]:
    """The way to every field of a version, down through its structs."""
    for field in row.fields:
        if version in field.versions:
            yield (field,)
            if field.struct is not None:
                yield from ((field, *rest) for rest in fields_of(field.struct, version))


def least_of(row: Struct, version: int) -> dict[str, Any]:
    """The fewest values that a struct must be given: records are null by default, which not every version can carry."""
    return {
        field.name: b""
        for field in row.fields
        if field.type == "records" and version in field.versions and version not in field.nullable
    }


def bare_of(row: Struct, version: int, *, rows: int, room: bytes = b"") -> dict[str, Any]:
    """The least that a struct can say: null where it may, and else that many rows of the same kind; no tags.

    With `room`, the first row of an array has these bytes as an unknown tag, so that a frame which ends too early still
    has as many bytes as that many rows could do with.
    """
    values: dict[str, Any] = {}
    for field in row.fields:
        if version not in field.versions or field.tag is not None:
            continue
        if version in field.nullable:
            values[field.name] = None
        elif field.struct is not None:
            inner = bare_of(field.struct, version, rows=rows, room=room)
            first = inner | {UNKNOWN_TAGS: ((77, room),)} if room else inner
            values[field.name] = [first] + [inner] * (rows - 1) if field.is_array else inner
        elif field.type == "records":
            values[field.name] = b""
    return values


def value_at(path: tuple[Field, ...], value: Any, version: int, *, rows: int = 1) -> dict[str, Any]:
    """Values with one field set, and the structs that lead to it; arrays on the way have that many equal rows."""
    *above, field = path
    values = {field.name: value}
    for outer in reversed(above):
        assert outer.struct is not None
        values = least_of(outer.struct, version) | values
        values = {outer.name: [values] * rows if outer.is_array else values}
    return values


def plain(message: Any) -> Any:
    """A generated message, or a part of it, as plain values with every field."""
    if hasattr(message, "_asdict"):
        return {name: value if name == UNKNOWN_TAGS else plain(value) for name, value in message._asdict().items()}
    if isinstance(message, list | tuple):
        return [plain(item) for item in message]
    if isinstance(message, memoryview):
        return bytes(message)
    return message
