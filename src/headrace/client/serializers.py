"""From Python values to bytes and back.

A serializer is a function `(topic, value) -> bytes | None`, a deserializer `(topic, data) -> value`; None stays None,
since it is Kafka's tombstone. Some have names: bytes, str, int, json. A schema registry brings its own.
"""

from collections.abc import Callable
from functools import wraps
from operator import index
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.client.errors import ConfigError

if TYPE_CHECKING:
    from headrace.protocol.record_encoding import Headers

Serializer: TypeAlias = Callable[[str, Any], bytes | None]
Deserializer: TypeAlias = Callable[[str, bytes | None], Any]

_LONG: Final = Struct(">q")
_MAX_TIMESTAMP: Final = 0x7FFF_FFFF_FFFF_FFFF


def plain(topic: str, value: Any) -> bytes | None:
    """What needs no choice: bytes as they are, text as UTF-8."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"what is sent to {topic} is of type {type(value).__name__}, neither bytes nor text: say how it becomes bytes, "
        'such as value_serializer="json", or key_serializer for keys'
    )


def header_pairs(topic: str, headers: Any) -> "Headers":
    """Headers as they are encoded, apart from the caller's list. Raises TypeError, before they share a batch."""
    pairs = tuple(headers)
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"a header for {topic} is a pair of a name and bytes or None, not {pair!r}")
        if not (pair[1] is None or isinstance(pair[1], bytes)):
            raise TypeError(f"the header {pair[0]!r} for {topic} is a {type(pair[1]).__name__}, not bytes or None")
        pair[0].encode()
    return pairs


def checked_timestamp(timestamp: Any) -> int:
    """Milliseconds since 1970. Raises TypeError, ValueError."""
    number = index(timestamp)
    if not 0 <= number <= _MAX_TIMESTAMP:
        raise ValueError(f"the timestamp {number} is not a number of milliseconds since 1970")
    return number


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
    return _checked(config, _function(config, wanted))


def _checked(config: str, function: Serializer) -> Serializer:
    """One of the user's own: what it returns by mistake would spoil the batch that it shares with other records."""

    @wraps(function)
    def serialize(topic: str, value: Any) -> bytes | None:
        data = function(topic, value)
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise TypeError(f"{config} returned a {type(data).__name__} for {topic}, not bytes or None")

    return serialize


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
