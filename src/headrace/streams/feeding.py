"""Rows of Python as records, by the serde that a source reads them with: how tests feed a pipeline."""

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from headrace.streams.errors import PlanError
from headrace.streams.plan import Plan, Source
from headrace.streams.schema import names
from headrace.streams.serdes import BytesSerde, JsonSerde, LongSerde, OwnSerde, Serde, StringSerde


class Record(NamedTuple):
    """A record as a topic has it. `json` and `text` read its value."""

    key: bytes | None
    value: bytes | None
    timestamp: datetime
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def json(self) -> Any:
        """None for a tombstone."""
        return None if self.value is None else json.loads(self.value)

    @property
    def text(self) -> str | None:
        return None if self.value is None else self.value.decode()


def source_of(plan: Plan, topic: str) -> Source:
    """The source that reads a topic. Raises PlanError if none does."""
    sources = [node for node in plan.nodes() if isinstance(node, Source)]
    for source in sources:
        if topic in source.topics or (source.pattern is not None and _matches(source.pattern, topic)):
            return source
    known = ", ".join(topic for source in sources for topic in source.topics)
    raise PlanError(f"the app does not read the topic {topic!r}; it reads {known or 'patterns only'}")


def encoded(source: Source, row: object, key: object = None) -> tuple[bytes | None, bytes | None]:
    """Key and value. Bytes stay as they are, None is null; the key is taken from the row if it is not given."""
    if key is None and isinstance(row, Mapping) and source.key is not None and set(source.shape.key) <= set(row):
        key = row
    return _bytes(source.key, key), _bytes(source.value, row)


def _bytes(serde: Serde | None, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    match serde:
        case None:
            return str(value).encode()
        case JsonSerde():
            return _json(serde, value)
        case StringSerde():
            return str(_only(serde.column, value)).encode()
        case LongSerde():
            return int(_only(serde.column, value)).to_bytes(8, "big", signed=True)
        case BytesSerde():
            return bytes(_only(serde.column, value))
        case OwnSerde():
            if serde.encode is None or serde.encode.call is None:
                raise PlanError(f"{serde} has no encode function: feed bytes")
            made: bytes | None = serde.encode.call(value)
            return made


def _json(serde: JsonSerde, value: object) -> bytes:
    if isinstance(value, Mapping):
        wanted = value.keys() if serde.columns is None else names(serde.columns)
        value = {name: value[name] for name in wanted if name in value}
    return json.dumps(value, default=_json_value, ensure_ascii=False).encode()


def _json_value(value: object) -> str:
    if isinstance(value, date):  # datetime is one, too
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{value!r} has no form in JSON")


def _only(column: str, value: object) -> Any:
    return value[column] if isinstance(value, Mapping) else value


def _matches(pattern: str, topic: str) -> bool:
    return re.fullmatch(pattern, topic) is not None
