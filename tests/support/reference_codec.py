"""A second codec for all messages: slow, without a single trick, straight from the definitions.

It walks the definition field by field and version by version, knows nothing of the generated modules, and is itself
checked against `kio`. Where `kio` has no such message (metadata and coordinator records), it is the judge.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from wiregen.model import Field, Message, Struct

from tests.support.messages import UNKNOWN_TAGS, Values

_FORMATS: Final = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
    "bool": ">?",
    "uuid": ">16s",
}
_ZEROS: Final[dict[str, Any]] = {"float64": 0.0, "bool": False, "uuid": bytes(16), "string": "", "bytes": b""}
_MAX_TEXT_BYTES: Final = 0x7FFF  # Kafka's limit, also where the length would have room for more
_PRESENT: Final = b"\x01"
_NULL_STRUCT: Final = b"\xff"


class RefusedError(ValueError):
    """Bytes that are no message of this version, or values that this version cannot carry."""


def default_of(field: Field) -> Any:
    """What a field is where nothing was said: the definition's word, or the zero of its type."""
    if field.default == "null" or field.type == "records":
        return None
    if field.is_array:
        return []
    if field.struct is not None:
        return defaults_of(field.struct)
    if field.default is None:
        return _ZEROS.get(field.type, 0)
    return {"true": True}.get(field.default) or int(field.default)


def defaults_of(row: Struct) -> dict[str, Any]:
    return {field.name: default_of(field) for field in row.fields}


def complete(row: Struct, values: Values) -> dict[str, Any]:
    """The same values with every field and every tag list present."""
    return {field.name: _complete_field(field, values) for field in row.fields} | {
        UNKNOWN_TAGS: tuple(values.get(UNKNOWN_TAGS, ()))
    }


def _complete_field(field: Field, values: Values) -> Any:
    value = values.get(field.name, default_of(field))
    if field.struct is None or value is None:
        return value
    return [complete(field.struct, row) for row in value] if field.is_array else complete(field.struct, value)


def encode(message: Message, version: int, values: Values) -> bytes:
    return _Writer(version, flexible=version in message.flexible).struct(message.body, complete(message.body, values))


def encode_with_claim(message: Message, version: int, values: Values, field: Field, count: int) -> bytes:
    """The same bytes, except that the length of `field` is said to be `count`."""
    writer = _Writer(version, flexible=version in message.flexible, claim=(field, count))
    return writer.struct(message.body, complete(message.body, values))


def decode(message: Message, version: int, data: bytes) -> dict[str, Any]:
    """Every field by name, those that the version does not have at their default. Raises RefusedError."""
    reader = _Reader(data, version, flexible=version in message.flexible)
    values = reader.struct(message.body)
    if reader.position != len(data):
        raise RefusedError(f"{len(data) - reader.position} bytes left over")
    return values


def _present(row: Struct, version: int, *, tagged: bool) -> list[Field]:
    fields = [field for field in row.fields if version in field.versions and (field.tag is not None) == tagged]
    return sorted(fields, key=lambda field: field.tag or 0)


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class _Writer:
    def __init__(self, version: int, *, flexible: bool, claim: tuple[Field, int] | None = None) -> None:
        self.version = version
        self.flexible = flexible
        self.claim = claim  # a field that is to have a false length, and that length

    def struct(self, row: Struct, values: Values) -> bytes:
        for field in row.fields:
            if self.version not in field.versions and not field.is_ignorable and not _is_default(field, values):
                raise RefusedError(f"version {self.version} has no {field.name}")
        encoded = b"".join(self.field(field, values[field.name]) for field in _present(row, self.version, tagged=False))
        if self.flexible:
            return encoded + self.tags(row, values)
        if values[UNKNOWN_TAGS]:
            raise RefusedError(f"version {self.version} has no tags")
        return encoded

    def tags(self, row: Struct, values: Values) -> bytes:
        tags = dict(values[UNKNOWN_TAGS])
        for field in _present(row, self.version, tagged=True):
            assert field.tag is not None
            if field.tag in tags:
                raise RefusedError(f"tag {field.tag} is known to this version: {field.name}")
            if not _is_default(field, values):
                tags[field.tag] = self.field(field, values[field.name])
        encoded = (varint(tag) + varint(len(content)) + content for tag, content in sorted(tags.items()))
        return varint(len(tags)) + b"".join(encoded)

    def field(self, field: Field, value: Any) -> bytes:
        nullable = self.version in field.nullable
        if value is None and not nullable:
            raise RefusedError(f"{field.name} cannot be null in version {self.version}")
        flexible = self.flexible and not field.is_inflexible
        if field.is_array:
            items: list[bytes] = [self.item(field, item) for item in value or ()]
            return self.length(field, value, "int32", flexible) + b"".join(items)
        if field.struct is not None and nullable:
            # The same two answers, but Kafka writes the marker as a varint under a tag, and as an int8 elsewhere.
            null = _NULL_STRUCT if field.tag is None else varint(0)
            return null if value is None else _PRESENT + self.struct(field.struct, value)
        if field.type == "string":
            text = None if value is None else _encoded_text(value)
            return self.length(field, text, "int16", flexible) + (text or b"")
        if field.type in ("bytes", "records"):
            return self.length(field, value, "int32", flexible) + bytes(value or b"")
        return self.item(field, value)

    def item(self, field: Field, value: Any) -> bytes:
        if field.struct is not None:
            return self.struct(field.struct, value)
        if field.type == "string":
            text = _encoded_text(value)
            return self.length(None, text, "int16", self.flexible) + text
        return struct.pack(_FORMATS[field.type], value)

    def length(self, field: Field | None, value: Any, legacy_type: str, flexible: bool) -> bytes:
        """The length of a field, or of an item in an array if that is None."""
        count = -1 if value is None else len(value)
        if self.claim is not None and self.claim[0] is field:
            count = self.claim[1]
        return varint(count + 1) if flexible else struct.pack(_FORMATS[legacy_type], count)


def _encoded_text(value: str) -> bytes:
    encoded = value.encode()
    if len(encoded) > _MAX_TEXT_BYTES:
        raise RefusedError(f"a string of {len(encoded)} bytes")
    return encoded


def _is_default(field: Field, values: Values) -> bool:
    default = default_of(field)
    if field.struct is not None and not field.is_array and default is not None:
        default = complete(field.struct, default)
    return bool(values[field.name] == default)


class _Reader:
    def __init__(self, data: bytes, version: int, *, flexible: bool) -> None:
        self.data = data
        self.position = 0
        self.version = version
        self.flexible = flexible

    def struct(self, row: Struct) -> dict[str, Any]:
        values = complete(row, {})
        for field in _present(row, self.version, tagged=False):
            values[field.name] = self.field(field)
        if self.flexible:
            values[UNKNOWN_TAGS] = self.tags(row, values)
        return values

    def tags(self, row: Struct, values: dict[str, Any]) -> tuple[tuple[int, bytes], ...]:
        known = {field.tag: field for field in _present(row, self.version, tagged=True)}
        unknown = []
        last = -1
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            if tag <= last:
                raise RefusedError(f"tag {tag} after {last}")
            last = tag
            content = self.take(size)
            if tag not in known:
                unknown.append((tag, content))
                continue
            inside = _Reader(content, self.version, flexible=True)
            values[known[tag].name] = inside.field(known[tag])
            if inside.position != size:
                raise RefusedError(f"tag {tag} of {size} bytes ends after {inside.position}")
        return tuple(unknown)

    def field(self, field: Field) -> Any:
        nullable = self.version in field.nullable
        flexible = self.flexible and not field.is_inflexible
        if field.is_array:
            count = self.length(field, "int32", flexible, nullable)
            if count is not None and count > len(self.data) - self.position:
                raise RefusedError(f"{count} rows of {field.name}, {len(self.data) - self.position} bytes are left")
            return None if count is None else [self.item(field) for _ in range(count)]
        if field.struct is not None and nullable:
            is_null = self.number("int8") < 0 if field.tag is None else self.varint() == 0
            return None if is_null else self.struct(field.struct)
        if field.type == "string":
            return self.sized(field, "int16", flexible, nullable, _text)
        if field.type in ("bytes", "records"):
            return self.sized(field, "int32", flexible, nullable, bytes)
        return self.item(field)

    def item(self, field: Field) -> Any:
        if field.struct is not None:
            return self.struct(field.struct)
        if field.type == "string":
            return self.sized(field, "int16", self.flexible, False, _text)
        return self.number(field.type)

    def sized(
        self, field: Field, legacy_type: str, flexible: bool, nullable: bool, convert: Callable[[bytes], Any]
    ) -> Any:
        size = self.length(field, legacy_type, flexible, nullable)
        return None if size is None else convert(self.take(size))

    def length(self, field: Field, legacy_type: str, flexible: bool, nullable: bool) -> int | None:
        length = self.varint() - 1 if flexible else self.number(legacy_type)
        if length >= 0:
            return int(length)
        if length < -1 or not nullable:
            raise RefusedError(f"length {length} of {field.name}")
        return None

    def number(self, type_name: str) -> Any:
        format_ = _FORMATS[type_name]
        return struct.unpack(format_, self.take(struct.calcsize(format_)))[0]

    def varint(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80 and value < 1 << 32:
                return value
        raise RefusedError("a varint of more than 32 bits")

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise RefusedError(f"{size} bytes wanted, {len(self.data) - self.position} are left")
        self.position += size
        return self.data[self.position - size : self.position]


def _text(data: bytes) -> str:
    if len(data) > _MAX_TEXT_BYTES:
        raise RefusedError(f"a string of {len(data)} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError("not UTF-8") from error
