"""How a record's key and value become columns, and columns become a key and a value again.

| serde | bytes | columns |
|---|---|---|
| `Json("id long, user string")` | a JSON object in UTF-8 | one per field; a missing one is NULL, others are left out |
| `String("user")` | UTF-8 text | one; `String("id", "long")` casts the text |
| `Long("n")` | eight bytes, big endian, as Kafka's Long serialiser writes | one bigint |
| `Bytes("raw")` | as they are | one binary |
| `Own("id long", decode, encode)` | what your functions say | one per field of the schema |

A value of no bytes at all (null) is a tombstone: in a table it deletes its key; in a stream such a row has NULL in all
columns of the value. A null key gives NULL in the key's columns. Bytes that do not fit (no JSON, JSON of other types, a
Long of seven bytes, a text that cannot be cast, a function that raises) are a poison pill: the record goes to the app's
dead letters, with its bytes and where it came from; without dead letters the pipeline stops and says which it was.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.streams.errors import PlanError
from headrace.streams.functions import Function, function_of
from headrace.streams.schema import Field, Schema, parse_schema, parse_type, schema_text


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """`columns` is None for a serde that only writes: all columns there are."""

    columns: Schema | None

    def __str__(self) -> str:
        return "Json" if self.columns is None else f"Json({schema_text(self.columns)})"


@dataclass(frozen=True, slots=True)
class StringSerde:
    column: str
    type: str = "string"

    @property
    def columns(self) -> Schema:
        return (Field(self.column, self.type),)

    def __str__(self) -> str:
        return f"String({self.column})" if self.type == "string" else f"String({self.column} {self.type})"


@dataclass(frozen=True, slots=True)
class LongSerde:
    column: str

    @property
    def columns(self) -> Schema:
        return (Field(self.column, "bigint"),)

    def __str__(self) -> str:
        return f"Long({self.column})"


@dataclass(frozen=True, slots=True)
class BytesSerde:
    column: str

    @property
    def columns(self) -> Schema:
        return (Field(self.column, "binary"),)

    def __str__(self) -> str:
        return f"Bytes({self.column})"


@dataclass(frozen=True, slots=True)
class OwnSerde:
    columns: Schema
    decode: Function | None
    encode: Function | None

    def __str__(self) -> str:
        functions = " ".join(str(function) for function in (self.decode, self.encode) if function is not None)
        return f"Own({schema_text(self.columns)}: {functions})"


Serde = JsonSerde | StringSerde | LongSerde | BytesSerde | OwnSerde
SERDES = (JsonSerde, StringSerde, LongSerde, BytesSerde, OwnSerde)


def Json(schema: str | None = None) -> JsonSerde:  # noqa: N802 read as the name of a type, like String and Long
    """JSON objects. Without a schema it can only write, and writes all columns."""
    return JsonSerde(None if schema is None else parse_schema(schema))


def String(column: str = "value", type: str = "string") -> StringSerde:  # noqa: N802, A002
    """Text in one column; `type` is what the text is cast to."""
    return StringSerde(column, parse_type(type))


def Long(column: str = "value") -> LongSerde:  # noqa: N802
    return LongSerde(column)


def Bytes(column: str = "value") -> BytesSerde:  # noqa: N802
    return BytesSerde(column)


def Own(  # noqa: N802
    schema: str,
    decode: Callable[[bytes], dict[str, Any] | None] | None = None,
    encode: Callable[[dict[str, Any]], bytes | None] | None = None,
) -> OwnSerde:
    """Functions of one's own, for one record at a time: bytes to a dict of the schema's columns, and back."""
    if decode is None and encode is None:
        raise PlanError("Own needs a function: decode to read, encode to write, or both")
    return OwnSerde(
        parse_schema(schema),
        None if decode is None else function_of(decode, where="Own(decode=)"),
        None if encode is None else function_of(encode, where="Own(encode=)"),
    )


def reading(serde: object, *, where: str) -> Schema:
    """The columns that a serde makes of bytes."""
    if not isinstance(serde, SERDES):
        raise PlanError(f"{where} is {serde!r}: use Json, String, Long, Bytes or Own of headrace.streams")
    if serde.columns is None:
        raise PlanError(f'{where}: Json needs a schema to read by, such as Json("id long, user string")')
    if isinstance(serde, OwnSerde) and serde.decode is None:
        raise PlanError(f"{where}: this Own has no decode function, so it cannot read")
    return serde.columns


def writing(serde: object, *, where: str) -> tuple[str, ...] | None:
    """The columns that a serde needs to make bytes of; None for all there are."""
    if not isinstance(serde, SERDES):
        raise PlanError(f"{where} is {serde!r}: use Json, String, Long, Bytes or Own of headrace.streams")
    if isinstance(serde, OwnSerde) and serde.encode is None:
        raise PlanError(f"{where}: this Own has no encode function, so it cannot write")
    return None if serde.columns is None else tuple(field.name for field in serde.columns)
