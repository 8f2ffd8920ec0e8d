"""Fetch, version 16. Tagged fields, which only replicas of the metadata quorum and moved leaders have, are skipped.

request   (max wait, min bytes, max bytes, isolation, session id, session epoch, [(topic id, [(partition, leader epoch,
          offset, fetched epoch, log start, max bytes)])], [(forgotten topic id, [partition])], rack)
response  (throttle time, error, session id, [(topic id, [(index, error, high watermark, last stable, log start,
          [(producer id, first offset)] or None, preferred replica, records)])])
"""

from struct import Struct
from typing import Any, Final

from benchmarks.handwritten.wire import (
    INT32,
    MalformedError,
    int32s,
    read_count,
    read_int32s,
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

_REQUEST: Final = Struct(">iiibii")
_TOPIC: Final = Struct(">16sB")
_PARTITION: Final = Struct(">iiqiqiB")
_RESPONSE: Final = Struct(">ihi")
_HEAD: Final = Struct(">ihqqqB")
_HEAD_WITH_REPLICA: Final = Struct(">ihqqqBi")
_EMPTY: Final = Struct(">ihqqqBiBB")
_FIXED: Final = Struct(">ihqqq")
_REPLICA: Final = Struct(">iB")
_ABORTED: Final = Struct(">qqB")


def decode_request(buffer: bytes, _view: memoryview, p: int, end: int) -> tuple[Any, ...]:
    header, p = read_request_header(buffer, p, end)
    if end - p < 22:
        raise MalformedError("cut")
    fixed = _REQUEST.unpack_from(buffer, p)
    count, p = read_count(buffer, p + 21, end)
    topics = []
    for _ in range(count):
        if end - p < 17:
            raise MalformedError("cut")
        topic_id, n = _TOPIC.unpack_from(buffer, p)
        p += 17
        if n > 127:
            n, p = read_uvarint(buffer, p - 1, end)
        if not 0 < n <= end - p + 1:
            raise MalformedError("count")
        partitions = []
        for _ in range(n - 1):
            if end - p < 33:
                raise MalformedError("cut")
            partition, leader_epoch, offset, fetched_epoch, log_start, max_bytes, tags = _PARTITION.unpack_from(
                buffer, p
            )
            p = skip_tags(buffer, p + 32, end) if tags else p + 33
            partitions.append((partition, leader_epoch, offset, fetched_epoch, log_start, max_bytes))
        p = skip_tags(buffer, p, end)
        topics.append((topic_id, partitions))
    count, p = read_count(buffer, p, end)
    forgotten = []
    for _ in range(count):
        if end - p < 17:
            raise MalformedError("cut")
        numbers, q = read_int32s(buffer, p + 16, end)
        forgotten.append((bytes(buffer[p : p + 16]), numbers))
        p = skip_tags(buffer, q, end)
    rack, p = read_text(buffer, p, end)
    if rack is None or p >= end:
        raise MalformedError("rack")
    p = skip_tags(buffer, p, end) if buffer[p] else p + 1
    if p != end:
        raise MalformedError("left over")
    return header, (*fixed, topics, forgotten, rack)


def encode_request(header: tuple[Any, ...], body: tuple[Any, ...]) -> list[Any]:
    *fixed, topics, forgotten, rack = body
    parts = [request_header(header) + _REQUEST.pack(*fixed) + uvarint(len(topics) + 1)]
    add = parts.append
    for topic_id, partitions in topics:
        add(topic_id + uvarint(len(partitions) + 1))
        for partition, leader_epoch, offset, fetched_epoch, log_start, max_bytes in partitions:
            add(_PARTITION.pack(partition, leader_epoch, offset, fetched_epoch, log_start, max_bytes, 0))
        add(b"\0")
    add(uvarint(len(forgotten) + 1))
    for topic_id, numbers in forgotten:
        add(topic_id + int32s(numbers) + b"\0")
    add(text(rack) + b"\0")
    return parts


def decode_response(buffer: bytes, view: memoryview, p: int, end: int) -> tuple[Any, ...]:
    correlation_id, p = read_response_header(buffer, p, end)
    if end - p < 11:
        raise MalformedError("cut")
    throttle_time_ms, error_code, session_id = _RESPONSE.unpack_from(buffer, p)
    count, p = read_count(buffer, p + 10, end)
    topics = []
    for _ in range(count):
        if end - p < 17:
            raise MalformedError("cut")
        topic_id, n = _TOPIC.unpack_from(buffer, p)
        p += 17
        if n > 127:
            n, p = read_uvarint(buffer, p - 1, end)
        if not 0 < n <= end - p + 1:
            raise MalformedError("count")
        partitions: list[Any] = []
        for _ in range(n - 1):
            if end - p < 31:
                raise MalformedError("cut")
            index, error, high_watermark, last_stable, log_start, n = _HEAD.unpack_from(buffer, p)
            p += 31
            aborted = None
            if n:
                aborted, p = _decode_aborted(buffer, p - 1, end)
            if end - p < 5:
                raise MalformedError("cut")
            replica, n = _REPLICA.unpack_from(buffer, p)
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
            partitions.append((index, error, high_watermark, last_stable, log_start, aborted, replica, records))
        p = skip_tags(buffer, p, end)
        topics.append((topic_id, partitions))
    p = skip_tags(buffer, p, end)
    if p != end:
        raise MalformedError("left over")
    return correlation_id, (throttle_time_ms, error_code, session_id, topics)


def _decode_aborted(buffer: bytes, p: int, end: int) -> tuple[list[Any], int]:
    count, p = read_count(buffer, p, end)
    aborted = []
    for _ in range(count):
        if end - p < 17:
            raise MalformedError("cut")
        producer_id, first_offset, tags = _ABORTED.unpack_from(buffer, p)
        p = skip_tags(buffer, p + 16, end) if tags else p + 17
        aborted.append((producer_id, first_offset))
    return aborted, p


def encode_response(correlation_id: int, body: tuple[Any, ...]) -> list[Any]:
    throttle_time_ms, error_code, session_id, topics = body
    head = _RESPONSE.pack(throttle_time_ms, error_code, session_id)
    parts = [response_header(correlation_id) + head + uvarint(len(topics) + 1)]
    add = parts.append
    for topic_id, partitions in topics:
        add(topic_id + uvarint(len(partitions) + 1))
        for index, error, high_watermark, last_stable, log_start, aborted, replica, records in partitions:
            if aborted:
                add(_FIXED.pack(index, error, high_watermark, last_stable, log_start) + uvarint(len(aborted) + 1))
                for producer_id, first_offset in aborted:
                    add(_ABORTED.pack(producer_id, first_offset, 0))
                add(INT32.pack(replica) + uvarint(0 if records is None else len(records) + 1))
                add(records or b"")
                add(b"\0")
                continue
            n = 0 if aborted is None else 1
            if records:
                row = _HEAD_WITH_REPLICA.pack(index, error, high_watermark, last_stable, log_start, n, replica)
                add(row + uvarint(len(records) + 1))
                add(records)
                add(b"\0")
            else:
                m = 0 if records is None else 1
                add(_EMPTY.pack(index, error, high_watermark, last_stable, log_start, n, replica, m, 0))
        add(b"\0")
    add(b"\0")
    return parts
