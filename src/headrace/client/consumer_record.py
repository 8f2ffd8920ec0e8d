"""A record as a consumer hands it out."""

from typing import Any, Final, NamedTuple, TypeAlias

from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import MAX_HEADERS
from headrace.protocol.varints import read_varint

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Origin(NamedTuple):
    """What all records of a batch have in common: who led the partition, and whose clock their timestamps are."""

    leader_epoch: int = -1
    is_log_append_time: bool = False


class _Fields(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int  # milliseconds since 1970
    key: Any
    value: Any
    raw_headers: bytes | None = None
    origin: Origin = Origin()


class ConsumerRecord(_Fields):
    """A record and its place: topic, partition, offset, timestamp in milliseconds, key, value, headers.

    Key and value are bytes, or what the deserializers made of them; None is null. Made by the million, so it is a
    tuple, and headers are taken apart only when somebody asks for them.
    """

    __slots__ = ()

    @property
    def headers(self) -> Headers:
        """Pairs of name and bytes, in the order of the producer; a name may come more than once."""
        return () if self.raw_headers is None else read_headers(self.raw_headers)

    @property
    def leader_epoch(self) -> int:
        """Of the leader that wrote it; -1 if the broker does not tell."""
        return self.origin.leader_epoch

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamp is the broker's; else it is the producer's."""
        return self.origin.is_log_append_time

    def __repr__(self) -> str:
        headers = f", headers={self.headers!r}" if self.raw_headers is not None else ""
        return (
            f"ConsumerRecord({self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r}, value={self.value!r}{headers})"
        )


def read_headers(raw: bytes) -> Headers:
    """From the count of headers on, all of `raw`. Raises CorruptBatchError."""
    try:
        count, place = read_varint(raw, 0)
        if not 0 <= count <= min((len(raw) - place) // 2, MAX_HEADERS):
            raise CorruptBatchError(f"{count} headers in {len(raw) - place} bytes, {MAX_HEADERS} at most")
        headers = []
        for _ in range(count):
            name, place = _read_bytes(raw, place)
            value, place = _read_bytes(raw, place)
            if name is None:
                raise CorruptBatchError("a header without a name")
            headers.append((name.decode(), value))
    except IndexError:
        raise CorruptBatchError("headers go beyond the end of their record") from None
    except UnicodeDecodeError as error:
        raise CorruptBatchError(f"the name of a header is not UTF-8: {error.reason}") from None
    if place != len(raw):
        raise CorruptBatchError(f"{len(raw) - place} bytes follow the last of {count} headers")
    return tuple(headers)


def _read_bytes(raw: bytes, place: int) -> tuple[bytes | None, int]:
    length, place = read_varint(raw, place)
    if length < 0:
        if length == _NULL:
            return None, place
        raise CorruptBatchError(f"a length of {length}; only -1, for null, is below zero")
    if place + length > len(raw):
        raise CorruptBatchError(f"{length} bytes where {len(raw) - place} are left")
    return raw[place : place + length], place + length


_NULL: Final = -1
