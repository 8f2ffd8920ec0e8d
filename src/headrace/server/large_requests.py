"""What a large request may be: Produce, and most of it must be records.

The bytes of records are never decoded, so a large Produce request costs what it takes to receive it. Everything else
is rows: a row of three bytes becomes an object of two hundred, and the worst that can be made of the APIs takes 70
bytes of memory for each byte on the wire. So other requests have a limit of their own, far below
`socket.request.max.bytes`: 10,000 topics with the longest of names and some configs each fit into it. And of a Produce
request above that limit the rows are counted before they are decoded.
"""

from contextlib import suppress
from struct import Struct
from struct import error as struct_error
from typing import Final

from headrace.protocol.errors import ProtocolError

LARGE_FROM_BYTES: Final = 8 << 20  # at worst 0.6 GB of rows
MAX_ROWS: Final = 100_000  # topics, partitions and tags of a large Produce request

_PRODUCE_KEY: Final = 0
_FLEXIBLE_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 13
_ACKS_AND_TIMEOUT_BYTES: Final = 6
_UUID_BYTES: Final = 16
_INDEX_BYTES: Final = 4
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UVARINT_SHIFTS: Final = range(0, 35, 7)


def check_large_request(buffer: bytearray, position: int, end: int, *, key: int, version: int) -> None:
    """For a request of LARGE_FROM_BYTES and more, whose body begins at `position`. Raises ProtocolError."""
    if key != _PRODUCE_KEY:
        raise ProtocolError(
            f"a request of {end - position} bytes; only Produce may have more than {LARGE_FROM_BYTES}: send it in parts"
        )
    rows = _Rows(buffer, position, is_flexible=version >= _FLEXIBLE_SINCE)
    with suppress(IndexError, struct_error):  # it is cut short or nonsense, which the decoder will say better
        rows.walk(version)
    # Also of one that is nonsense: the decoder would make all the rows that come before it.
    if rows.count > MAX_ROWS:
        raise ProtocolError(f"a Produce request of {end - position} bytes with more than {MAX_ROWS} rows")


class _Rows:
    """A walk over a Produce request that decodes nothing, and stops when it has seen too many rows."""

    __slots__ = ("_buffer", "_is_flexible", "_position", "count")

    def __init__(self, buffer: bytearray, position: int, *, is_flexible: bool) -> None:
        self._buffer = buffer
        self._position = position
        self._is_flexible = is_flexible
        self.count = 0

    def walk(self, version: int) -> None:
        """Raises IndexError and struct.error where the request does not go on."""
        self._skip_text()
        self._skip(_ACKS_AND_TIMEOUT_BYTES)
        for _ in range(self._rows()):
            if version >= _TOPIC_IDS_SINCE:
                self._skip(_UUID_BYTES)
            else:
                self._skip_text()
            for _ in range(self._rows()):
                self._skip(_INDEX_BYTES)
                self._skip(self._length(_INT32))
                self._skip_tags()
            self._skip_tags()
            if self.count > MAX_ROWS:
                return
        self._skip_tags()

    def _rows(self) -> int:
        """How many rows follow; none if that would be too many."""
        rows = self._length(_INT32)
        self.count += rows
        return rows if self.count <= MAX_ROWS else 0

    def _skip(self, size_bytes: int) -> None:
        self._position += size_bytes

    def _skip_text(self) -> None:
        self._skip(self._length(_INT16))

    def _skip_tags(self) -> None:
        if not self._is_flexible:
            return
        tags = self._uvarint()
        self.count += tags
        if self.count <= MAX_ROWS:
            for _ in range(tags):
                self._uvarint()
                self._skip(self._uvarint())

    def _length(self, integer: Struct) -> int:
        """Of what follows: plus one and as a varint in flexible versions, an integer before; null is 0."""
        if self._is_flexible:
            return max(self._uvarint() - 1, 0)
        length: int = integer.unpack_from(self._buffer, self._position)[0]
        self._skip(integer.size)
        return max(length, 0)

    def _uvarint(self) -> int:
        value = 0
        for shift in _UVARINT_SHIFTS:  # a longer one is nonsense, and the work would grow with its square
            byte = self._buffer[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise IndexError(f"a varint at {self._position} does not end")
