"""Produce, version 9.

request   (transactional id, acks, timeout, [(topic, [(index, records)])])
response  ([(topic, [(index, error, base offset, append time, log start, [(batch index, text)], text)])], throttle time)
"""

from struct import Struct
from typing import Any, Final

from benchmarks.handwritten.wire import (
    INT32,
    MalformedError,
    read_count,
    read_request_header,
    read_response_header,
    read_text,
    read_uvarint,
    request_header,
    response_header,
    skip_tags,
    text,
    uvarint,
)

_ACKS: Final = Struct(">hi")
_INDEX: Final = Struct(">iB")
_WRITTEN: Final = Struct(">ihqqqBBB")  # no record errors, no error message, no tags: nearly always
_REFUSED: Final = Struct(">ihqqq")
_THROTTLE: Final = Struct(">iB")


def decode_request(buffer: bytes, view: memoryview, p: int, end: int) -> tuple[Any, ...]:
    header, p = read_request_header(buffer, p, end)
    transactional_id, p = read_text(buffer, p, end)
    if end - p < 7:
        raise MalformedError("cut")
    acks, timeout_ms = _ACKS.unpack_from(buffer, p)
    count, p = read_count(buffer, p + 6, end)
    topics = []
    for _ in range(count):
        name, p = read_text(buffer, p, end)
        if name is None:
            raise MalformedError("name")
        count, p = read_count(buffer, p, end)
        partitions = []
        for _ in range(count):
            if end - p < 5:
                raise MalformedError("cut")
            index, n = _INDEX.unpack_from(buffer, p)
            p += 5
            if n > 127:
                n, p = read_uvarint(buffer, p - 1, end)
            if n:
                q = p + n - 1
                records = view[p:q]
            else:
                q = p
                records = None
            if q >= end:
                raise MalformedError("cut")
            p = skip_tags(buffer, q, end) if buffer[q] else q + 1
            partitions.append((index, records))
        if p >= end:
            raise MalformedError("cut")
        p = skip_tags(buffer, p, end) if buffer[p] else p + 1
        topics.append((name, partitions))
    if p >= end:
        raise MalformedError("cut")
    p = skip_tags(buffer, p, end) if buffer[p] else p + 1
    if p != end:
        raise MalformedError("left over")
    return header, (transactional_id, acks, timeout_ms, topics)


def encode_request(header: tuple[Any, ...], body: tuple[Any, ...]) -> list[Any]:
    transactional_id, acks, timeout_ms, topics = body
    parts = [request_header(header) + text(transactional_id) + _ACKS.pack(acks, timeout_ms) + uvarint(len(topics) + 1)]
    add = parts.append
    for name, partitions in topics:
        add(text(name) + uvarint(len(partitions) + 1))
        for index, records in partitions:
            if records is None:
                add(_INDEX.pack(index, 0))
            else:
                add(INT32.pack(index) + uvarint(len(records) + 1))
                add(records)
            add(b"\0")
        add(b"\0")
    add(b"\0")
    return parts


def decode_response(buffer: bytes, _view: memoryview, p: int, end: int) -> tuple[Any, ...]:
    correlation_id, p = read_response_header(buffer, p, end)
    count, p = read_count(buffer, p, end)
    topics = []
    for _ in range(count):
        name, p = read_text(buffer, p, end)
        if name is None:
            raise MalformedError("name")
        count, p = read_count(buffer, p, end)
        partitions: list[Any] = []
        for _ in range(count):
            if end - p < 33:
                raise MalformedError("cut")
            index, error, base_offset, append_time, log_start, n, m, tags = _WRITTEN.unpack_from(buffer, p)
            if n == 1 and not m and not tags:
                p += 33
                partitions.append((index, error, base_offset, append_time, log_start, [], None))
                continue
            errors, p = _decode_errors(buffer, p + 30, end)
            message, p = read_text(buffer, p, end)
            p = skip_tags(buffer, p, end)
            partitions.append((index, error, base_offset, append_time, log_start, errors, message))
        p = skip_tags(buffer, p, end)
        topics.append((name, partitions))
    if end - p < 5:
        raise MalformedError("cut")
    throttle_time_ms, tags = _THROTTLE.unpack_from(buffer, p)
    p = skip_tags(buffer, p + 4, end) if tags else p + 5
    if p != end:
        raise MalformedError("left over")
    return correlation_id, (topics, throttle_time_ms)


def _decode_errors(buffer: bytes, p: int, end: int) -> tuple[list[Any], int]:
    count, p = read_count(buffer, p, end)
    errors = []
    for _ in range(count):
        if end - p < 6:
            raise MalformedError("cut")
        (batch_index,) = INT32.unpack_from(buffer, p)
        message, p = read_text(buffer, p + 4, end)
        p = skip_tags(buffer, p, end)
        errors.append((batch_index, message))
    return errors, p


def encode_response(correlation_id: int, body: tuple[Any, ...]) -> list[Any]:
    topics, throttle_time_ms = body
    parts = [response_header(correlation_id) + uvarint(len(topics) + 1)]
    add = parts.append
    for name, partitions in topics:
        add(text(name) + uvarint(len(partitions) + 1))
        for index, error, base_offset, append_time, log_start, errors, message in partitions:
            if not errors and message is None:
                add(_WRITTEN.pack(index, error, base_offset, append_time, log_start, 1, 0, 0))
                continue
            add(_REFUSED.pack(index, error, base_offset, append_time, log_start) + uvarint(len(errors) + 1))
            for batch_index, error_message in errors:
                add(INT32.pack(batch_index) + text(error_message) + b"\0")
            add(text(message) + b"\0")
        add(b"\0")
    add(_THROTTLE.pack(throttle_time_ms, 0))
    return parts
