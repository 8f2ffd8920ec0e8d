"""Hypothesis strategies: plain values (see tests.support.messages) for any message at any version.

Hypothesis draws one run of bytes per message, and each decision below takes the next of them: drawing field by field
would cost ten times as much as the codecs that are tested. A zero byte is the simplest decision, and so is no byte at
all; thus Hypothesis shrinks a message by shrinking its bytes.

Only fields of the version get a value; the others stay at their default, as in a program written for that version.
Sizes are small, since a message is wide and deep enough by itself; the edges of every type come often, since that is
where codecs fail.
"""

import os
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from wiregen.model import Field, Struct

from tests.support.messages import UNKNOWN_TAGS, Definition
from tests.support.reference_codec import default_of

TIMES: Final = int(os.environ.get("HEADRACE_EXAMPLES", "1"))
DECISIONS: Final = 400  # enough for the widest messages with rows in rows; where it is not, the rest is zeros
MAX_ROWS: Final = 3

# Lengths around the places where a varint or the fast path for one-byte lengths takes another turn.
_EDGE_SIZES: Final = (126, 127, 128, 300)
_TEXTS: Final = ("", "a", "orders", "ströme-水道-€", "\x00", "\U0001f30a", *(size * "x" for size in _EDGE_SIZES))
_BLOBS: Final = (b"", b"\x00", b"\xff\xff\xff\xff", *(size * b"\xf5" for size in _EDGE_SIZES))
_ALPHABET: Final = "abcdefghijklmnop-_.0123\u00e4\u00e9\u20ac\u6c34\x7f"
_FLOATS: Final = (0.0, 1.5, -0.25, 1e300, -1e-300)
_TAGS: Final = (0, 1, 2, 3, 7, 127, 128, 2**31 - 2)  # to Kafka, 2**31 - 1 means the end of all tags
_INTEGERS: Final = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (16, 32)},
}


# None of them is the default of any field.
_OTHER_THAN_DEFAULT: Final[dict[str, Any]] = {
    **dict.fromkeys(_INTEGERS, 77),
    "float64": 7.5,
    "uuid": b"\x07" * 16,
    "string": "seven",
    "bytes": b"seven",
    "records": b"seven",
}


def other_than_default(field: Field) -> Any:
    if field.is_array:
        return [{} if field.struct is not None else _OTHER_THAN_DEFAULT[field.type]]
    if field.struct is not None:
        inner = next(each for each in field.struct.fields if each.struct is None)
        return {inner.name: other_than_default(inner)}
    return not default_of(field) if field.type == "bool" else _OTHER_THAN_DEFAULT[field.type]


def examples(count: int) -> settings:
    """Settings for tests over messages: that many examples, each of which may be large.

    HEADRACE_EXAMPLES says how many times as many, for a run of hours.
    """
    large = [HealthCheck.large_base_example, HealthCheck.data_too_large, HealthCheck.too_slow]
    return settings(max_examples=count * TIMES, deadline=None, suppress_health_check=large)


def values_of(definition: Definition, version: int, *, unknown_tags: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Values for a message of this version; with tags that it does not know, if it is flexible and they are wanted."""
    decisions = st.binary(min_size=DECISIONS, max_size=DECISIONS)
    return decisions.map(lambda data: values_from(data, definition, version, unknown_tags=unknown_tags))


def values_from(decisions: bytes, definition: Definition, version: int, *, unknown_tags: bool = True) -> dict[str, Any]:
    """The values that follow from these bytes."""
    with_tags = definition.is_flexible(version) and unknown_tags
    return _Choices(decisions, version, with_tags=with_tags).struct(definition.message.body)


class _Choices:
    """Bytes that are used up, one decision after the other."""

    def __init__(self, data: bytes, version: int, *, with_tags: bool) -> None:
        self.data = data
        self.position = 0
        self.version = version
        self.with_tags = with_tags

    def take(self, size: int) -> bytes:
        self.position += size
        return self.data[self.position - size : self.position].ljust(size, b"\0")

    def below(self, limit: int) -> int:
        return self.take(1)[0] % limit

    def is_one_in(self, limit: int) -> bool:
        return self.below(limit) == limit - 1

    def struct(self, row: Struct) -> dict[str, Any]:
        present = [field for field in row.fields if self.version in field.versions]
        values = {field.name: self.field(field) for field in present}
        if self.with_tags and self.is_one_in(4):
            values[UNKNOWN_TAGS] = self.unknown_tags({field.tag for field in row.fields})
        return values

    def field(self, field: Field) -> Any:
        if field.tag is not None and not self.is_one_in(2):
            return default_of(field)  # a tag at its default is not written at all
        if self.version in field.nullable and self.is_one_in(4):
            return None
        if field.is_array:
            return [self.item(field) for _ in range(self.below(MAX_ROWS + 1))]
        return self.item(field)

    def item(self, field: Field) -> Any:
        if field.struct is not None:
            return self.struct(field.struct)
        if field.type in _INTEGERS:
            return self.integer(*_INTEGERS[field.type])
        match field.type:
            case "bool":
                return self.is_one_in(2)
            case "uuid":
                return self.take(16) if self.is_one_in(2) else bytes(16)
            case "float64":
                return _FLOATS[self.below(len(_FLOATS))]
            case "string":
                return self.text()
            case "bytes" | "records":
                return self.blob()
            case unknown:
                raise AssertionError(f"no values for the type {unknown}")

    def integer(self, lowest: int, highest: int) -> int:
        edges = (0, highest, max(lowest, -1), lowest, 1)
        kind = self.below(2 * len(edges))
        if kind < len(edges):
            return edges[kind]
        return lowest + int.from_bytes(self.take(8), "big") % (highest - lowest + 1)

    def text(self) -> str:
        kind = self.below(2 * len(_TEXTS))
        if kind < len(_TEXTS):
            return _TEXTS[kind]
        return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in self.take(kind - len(_TEXTS)))

    def blob(self) -> bytes:
        kind = self.below(2 * len(_BLOBS))
        return _BLOBS[kind] if kind < len(_BLOBS) else self.take(kind - len(_BLOBS))

    def unknown_tags(self, known: set[int | None]) -> tuple[tuple[int, bytes], ...]:
        """Tags of no version: Kafka refuses to read one that only another version knows."""
        free = [tag for tag in _TAGS if tag not in known]
        chosen = {free[self.below(len(free))]: self.blob() for _ in range(1 + self.below(2))}
        return tuple(sorted(chosen.items()))
