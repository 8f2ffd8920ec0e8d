"""What the codecs by hand share: headers, strings, lengths, arrays of numbers, tags that nobody asked for."""

from struct import Struct
from typing import Any, Final

BYTE: Final = tuple(bytes((value,)) for value in range(128))
INT32: Final = Struct(">i")
_REQUEST: Final = Struct(">hhih")
_RESPONSE: Final = Struct(">iB")
# Replicas are few; more than 15 go the slow way.
_INT32S: Final = tuple(Struct(f">{count}i").unpack_from for count in range(16))
_COUNTED_INT32S: Final = tuple(Struct(f">B{count}i").pack for count in range(16))


class MalformedError(ValueError):
    """The frame is not what it claims to be."""


def read_uvarint(buffer: bytes, p: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in (0, 7, 14, 21, 28):
        if p >= end:
            raise MalformedError("cut")
        byte = buffer[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, p
    raise MalformedError("varint")


def uvarint(value: int) -> bytes:
    if value < 128:
        return BYTE[value]
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tags(buffer: bytes, p: int, end: int) -> int:
    count, p = read_uvarint(buffer, p, end)
    last = -1
    for _ in range(count):
        tag, p = read_uvarint(buffer, p, end)
        size, p = read_uvarint(buffer, p, end)
        if tag <= last or size > end - p:
            raise MalformedError("tag")
        last = tag
        p += size
    return p


def read_count(buffer: bytes, p: int, end: int) -> tuple[int, int]:
    """How many rows an array has that may not be null; each row takes a byte at least."""
    if p >= end:
        raise MalformedError("cut")
    n = buffer[p]
    p += 1
    if n > 127:
        n, p = read_uvarint(buffer, p - 1, end)
    if not 0 < n <= end - p + 1:
        raise MalformedError("count")
    return n - 1, p


def read_text(buffer: bytes, p: int, end: int) -> tuple[str | None, int]:
    if p >= end:
        raise MalformedError("cut")
    n = buffer[p]
    p += 1
    if n > 127:
        n, p = read_uvarint(buffer, p - 1, end)
    if not n:
        return None, p
    q = p + n - 1
    if q > end:
        raise MalformedError("cut")
    return buffer[p:q].decode(), q


def text(value: str | None) -> bytes:
    if value is None:
        return b"\0"
    body = value.encode()
    return uvarint(len(body) + 1) + body


def read_int32s(buffer: bytes, p: int, end: int) -> tuple[list[int], int]:
    if p < end and 0 < (n := buffer[p]) <= 16:
        q = p + 4 * n - 3
        if q > end:
            raise MalformedError("count")
        return list(_INT32S[n - 1](buffer, p + 1)), q
    n, p = read_count(buffer, p, end)
    q = p + n * 4
    if q > end:
        raise MalformedError("count")
    return list(Struct(f">{n}i").unpack_from(buffer, p)), q


def int32s(numbers: list[int]) -> bytes:
    n = len(numbers)
    if n < 16:
        return _COUNTED_INT32S[n](n + 1, *numbers)
    return uvarint(n + 1) + Struct(f">{n}i").pack(*numbers)


def read_request_header(buffer: bytes, p: int, end: int) -> tuple[tuple[Any, ...], int]:
    """(API key, version, correlation id, client id), of a flexible version."""
    if end - p < 11:
        raise MalformedError("cut")
    api_key, api_version, correlation_id, n = _REQUEST.unpack_from(buffer, p)
    p += 10
    client_id = None
    if n >= 0:
        q = p + n
        if q >= end:
            raise MalformedError("cut")
        client_id = buffer[p:q].decode()
        p = q
    elif n != -1:
        raise MalformedError("length")
    p = skip_tags(buffer, p, end) if buffer[p] else p + 1
    return (api_key, api_version, correlation_id, client_id), p


def request_header(header: tuple[Any, ...]) -> bytes:
    api_key, api_version, correlation_id, client_id = header
    client: bytes = client_id.encode()
    return _REQUEST.pack(api_key, api_version, correlation_id, len(client)) + client + b"\0"


def read_response_header(buffer: bytes, p: int, end: int) -> tuple[int, int]:
    if end - p < 5:
        raise MalformedError("cut")
    correlation_id, tags = _RESPONSE.unpack_from(buffer, p)
    return correlation_id, skip_tags(buffer, p + 4, end) if tags else p + 5


def response_header(correlation_id: int) -> bytes:
    return _RESPONSE.pack(correlation_id, 0)
