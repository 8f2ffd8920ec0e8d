"""From Python values to bytes and back.

A serializer is a function `(topic, value) -> bytes | None`, a deserializer `(topic, data) -> value`; None stays None,
since it is Kafka's tombstone. Some have names: bytes, str, int, json. A schema registry brings its own.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeAlias

from headrace.client.errors import ConfigError

Serializer: TypeAlias = Callable[[str, Any], bytes | None]
Deserializer: TypeAlias = Callable[[str, bytes | None], Any]

_LONG: Final = Struct(">q")


def plain(topic: str, value: Any) -> bytes | None:
    """What needs no choice: bytes as they are, text as UTF-8."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {type(value).__name__} for {topic} is neither bytes nor text: say how it becomes bytes, such as "
        'value_serializer="json"'
    )


def to_json(_: str, value: Any) -> bytes | None:
    if value is None:
        return None
    import json  # only who uses it loads it

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def to_long(_: str, value: int | None) -> bytes | None:
    """Eight bytes, as Kafka's LongSerializer writes them."""
    return None if value is None else _LONG.pack(value)


def from_json(_: str, data: bytes | None) -> Any:
    if data is None:
        return None
    import json

    return json.loads(data)


def from_text(_: str, data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def from_long(_: str, data: bytes | None) -> int | None:
    return None if data is None else int(_LONG.unpack(data)[0])


_SERIALIZERS: Final[dict[str, Serializer]] = {"bytes": plain, "str": plain, "int": to_long, "json": to_json}
_DESERIALIZERS: Final[dict[str, Deserializer | None]] = {
    "bytes": None,
    "str": from_text,
    "int": from_long,
    "json": from_json,
}


def serializer(config: str, wanted: Any) -> Serializer:
    """What the config says; None is `plain`. Raises ConfigError."""
    if wanted is None:
        return plain
    if isinstance(wanted, str):
        if wanted not in _SERIALIZERS:
            raise ConfigError([_unknown(config, wanted, _SERIALIZERS)])
        return _SERIALIZERS[wanted]
    made: Serializer = _function(config, wanted)
    return made


def deserializer(config: str, wanted: Any) -> Deserializer | None:
    """What the config says; None leaves bytes as they are. Raises ConfigError."""
    if wanted is None:
        return None
    if isinstance(wanted, str):
        if wanted not in _DESERIALIZERS:
            raise ConfigError([_unknown(config, wanted, _DESERIALIZERS)])
        return _DESERIALIZERS[wanted]
    made: Deserializer = _function(config, wanted)
    return made


def _unknown(config: str, wanted: str, known: dict[str, Any]) -> str:
    return f'{config} must be one of {", ".join(known)} or a function (topic, value), not "{wanted}"'


def _function(config: str, wanted: Any) -> Any:
    if not callable(wanted):
        raise ConfigError([f"{config} must be a name or a function (topic, value), not {wanted!r}"])
    return wanted
