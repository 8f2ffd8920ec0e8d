"""`kio` as an independent codec: it was generated from Kafka's own definitions, by others.

Its fields are ours in the same order, under nearly the same names, but its values are richer: a timeout is a
timedelta, a timestamp a datetime, an error code an enumeration. `representable` replaces what these cannot hold (an
error code that does not exist, a year beyond 9999) by a value that they can; everything else passes as it is.
"""

import re
from dataclasses import MISSING, fields
from dataclasses import Field as KioField
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Any, Final, get_args
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.index import LoadableEntityType, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, get_field_tag, is_optional
from kio.static.constants import EntityType
from wiregen.model import Field, Struct

from tests.support.messages import Definition, Values

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ERROR_CODES: Final = sorted(int(code) for code in ErrorCode)
_DATETIME_END_MS: Final = 253_402_300_800_000  # the year 10000
_TIMEDELTA_END_MS: Final = 10**14  # beyond it kio's way through float seconds rounds


def kio_type(definition: Definition, version: int) -> Any | None:
    """kio's class for a message at a version, or None if it has no such message."""
    name = str(definition)
    kind: LoadableEntityType = EntityType.data
    if definition.api_key is not None:
        kind = EntityType.request if definition.message.table == "request" else EntityType.response
        name = name.removesuffix("Request").removesuffix("Response")
    elif name in ("RequestHeader", "ResponseHeader"):
        kind = EntityType.header
    try:
        return resolve_name(schema_name_map[_kio_name(name)][version][kind])
    except KeyError:
        return None


def _kio_name(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def encode(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def decode(kio_class: Any, data: bytes) -> Any:
    """What kio reads from all of `data`."""
    entity, size = entity_reader(kio_class)(data, 0)
    assert size == len(data), f"kio read {size} of {len(data)} bytes"
    return entity


def pairs(row: Struct, kio_class: Any, version: int) -> list[tuple[Field, "KioField[Any]"]]:
    """Our fields of a version beside kio's. Raises AssertionError where they are not the same fields."""
    ours = [field for field in row.fields if version in field.versions]
    theirs = fields(kio_class)
    assert [_core(field.name) for field in ours] == [_core(field.name) for field in theirs], f"{kio_class} v{version}"
    return list(zip(ours, theirs, strict=True))


def _core(name: str) -> str:
    """A field's name without the unit and the underscores, which kio writes differently."""
    return name.removesuffix("_ms").replace("_", "")


def row_class(theirs: "KioField[Any]") -> Any | None:
    """kio's class behind a struct or an array of structs."""
    found = classify_field(theirs)
    return found.type_ if isinstance(found, EntityField | EntityTupleField) else None


def tag_of(theirs: "KioField[Any]") -> int | None:
    return get_field_tag(theirs)


def is_nullable(ours: Field, theirs: "KioField[Any]") -> bool:
    """Whether null can be on the wire; kio says None also for the zero uuid and for the timestamp -1."""
    if not ours.is_array and theirs.metadata.get("kafka_type") in ("uuid", "datetime_i64"):
        return False
    return isinstance(theirs.type, UnionType) and NoneType in get_args(theirs.type)


def default_value(ours: Field, theirs: "KioField[Any]", version: int) -> Any:
    """kio's default as a plain value; MISSING where it leaves the default to the type."""
    if theirs.default is MISSING:
        return MISSING
    return _from_kio(ours, theirs, version, theirs.default)


def to_kio(row: Struct, kio_class: Any, version: int, values: Values) -> Any:
    """kio's object with these values."""
    both = pairs(row, kio_class, version)
    return kio_class(**{theirs.name: _to_kio(ours, theirs, version, values[ours.name]) for ours, theirs in both})


def _to_kio(ours: Field, theirs: "KioField[Any]", version: int, value: Any) -> Any:
    if value is None:
        return None
    if ours.struct is not None:
        inner = row_class(theirs)
        if not ours.is_array:
            return to_kio(ours.struct, inner, version, value)
        return tuple(to_kio(ours.struct, inner, version, item) for item in value)
    kind = theirs.metadata["kafka_type"]
    return tuple(_scalar_to_kio(kind, item) for item in value) if ours.is_array else _scalar_to_kio(kind, value)


def _scalar_to_kio(kind: str, value: Any) -> Any:
    match kind:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else _EPOCH + timedelta(milliseconds=value)
        case "uuid":
            return UUID(bytes=value) if any(value) else None
        case _:
            return value


def from_kio(row: Struct, entity: Any, version: int) -> dict[str, Any]:
    """kio's object as plain values."""
    both = pairs(row, type(entity), version)
    return {ours.name: _from_kio(ours, theirs, version, getattr(entity, theirs.name)) for ours, theirs in both}


def _from_kio(ours: Field, theirs: "KioField[Any]", version: int, value: Any) -> Any:
    if ours.struct is not None and value is not None:
        if not ours.is_array:
            return from_kio(ours.struct, value, version)
        return [from_kio(ours.struct, item, version) for item in value]
    if ours.is_array:
        return None if value is None else [_scalar_from_kio(theirs.metadata["kafka_type"], item) for item in value]
    return _scalar_from_kio(theirs.metadata.get("kafka_type", ""), value)


def _scalar_from_kio(kind: str, value: Any) -> Any:
    match kind:
        case "error_code":
            return int(value)
        case "timedelta_i32" | "timedelta_i64":
            return value // timedelta(milliseconds=1)
        case "datetime_i64":
            # kio comes here by way of float seconds, so the microseconds are noise.
            return -1 if value is None else round((value - _EPOCH) / timedelta(milliseconds=1))
        case "uuid":
            return bytes(16) if value is None else value.bytes
        case _:
            return value


def representable(row: Struct, kio_class: Any, version: int, values: Values) -> dict[str, Any]:
    """The same values, with those replaced that kio's types cannot hold."""
    settled = dict(values)
    for ours, theirs in pairs(row, kio_class, version):
        value = values[ours.name]
        inner = row_class(theirs)
        if value is None:
            continue
        if ours.struct is not None and ours.is_array:
            settled[ours.name] = [representable(ours.struct, inner, version, item) for item in value]
        elif ours.struct is not None:
            settled[ours.name] = representable(ours.struct, inner, version, value)
        elif not ours.is_array:
            settled[ours.name] = _representable_scalar(theirs, value)
    return settled


def _representable_scalar(theirs: "KioField[Any]", value: Any) -> Any:
    match theirs.metadata["kafka_type"]:
        case "error_code":
            return value if value in _ERROR_CODES else _ERROR_CODES[value % len(_ERROR_CODES)]
        case "timedelta_i64":
            return value % _TIMEDELTA_END_MS
        case "datetime_i64":
            return -1 if value == -1 and is_optional(theirs) else value % _DATETIME_END_MS
        case _:
            return value
