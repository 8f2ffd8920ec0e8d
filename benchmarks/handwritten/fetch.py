"""Fetch, version 16. What is tagged is rare, so it is one value that is mostly None: the tags by their number.

request   (max wait, min bytes, max bytes, isolation, session id, session epoch, [(topic id, [(partition, leader epoch,
          offset, fetched epoch, log start, max bytes)])], [(forgotten topic id, [partition])], rack,
          {0: cluster id, 1: (replica id, replica epoch)})
response  (throttle time, error, session id, [(topic id, [(index, error, high watermark, last stable, log start,
          [(producer id, first offset)] or None, preferred replica, records, {0: (diverging epoch, end offset),
          1: (leader, leader epoch), 2: (snapshot end offset, epoch)})])], {0: [(node id, host, port, rack)]})
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
_PARTITION_TAGS: Final = (Struct(">iq"), Struct(">ii"), Struct(">qi"))
_REPLICA_STATE: Final = Struct(">iq")


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
    tagged = None
    if buffer[p]:
        tagged, p = _decode_tags(buffer, p, end, (_decode_cluster, _decode_replica_state))
    else:
        p += 1
    if p != end:
        raise MalformedError("left over")
    return header, (*fixed, topics, forgotten, rack, tagged)


def encode_request(header: tuple[Any, ...], body: tuple[Any, ...]) -> list[Any]:
    *fixed, topics, forgotten, rack, tagged = body
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
    add(text(rack))
    if tagged:
        cluster_id, replica_state = tagged.get(0), tagged.get(1)
        add(
            _encode_tags(
                None if cluster_id is None else text(cluster_id),
                None if replica_state is None else _REPLICA_STATE.pack(*replica_state) + b"\0",
            )
        )
    else:
        add(b"\0")
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
            tagged = None
            if buffer[q]:
                tagged, p = _decode_tags(buffer, q, end, _DECODE_PARTITION_TAGS)
            else:
                p = q + 1
            partitions.append((index, error, high_watermark, last_stable, log_start, aborted, replica, records, tagged))
        p = skip_tags(buffer, p, end)
        topics.append((topic_id, partitions))
    tagged, p = _decode_tags(buffer, p, end, (_decode_endpoints,))
    if p != end:
        raise MalformedError("left over")
    return correlation_id, (throttle_time_ms, error_code, session_id, topics, tagged)


def _decode_tags(buffer: bytes, p: int, end: int, decoders: tuple[Any, ...]) -> tuple[dict[int, Any] | None, int]:
    """The values of the known tags, by number; the others are skipped."""
    count, p = read_uvarint(buffer, p, end)
    values = {}
    last = -1
    for _ in range(count):
        tag, p = read_uvarint(buffer, p, end)
        size, p = read_uvarint(buffer, p, end)
        if tag <= last or size > end - p:
            raise MalformedError("tag")
        last = tag
        q = p + size
        if tag < len(decoders):
            values[tag], p = decoders[tag](buffer, p, q)
            if p != q:
                raise MalformedError("tag size")
        p = q
    return values or None, p


def _encode_tags(*values: bytes | None) -> bytes:
    """Known tags, numbered from 0, without those that are None."""
    there = [(tag, value) for tag, value in enumerate(values) if value is not None]
    return uvarint(len(there)) + b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in there)


def _row_decoder(shape: Struct) -> Any:
    def decode(buffer: bytes, p: int, end: int) -> tuple[tuple[Any, ...], int]:
        if end - p <= shape.size:
            raise MalformedError("cut")
        return shape.unpack_from(buffer, p), skip_tags(buffer, p + shape.size, end)

    return decode


_DECODE_PARTITION_TAGS: Final = tuple(_row_decoder(shape) for shape in _PARTITION_TAGS)
_decode_replica_state: Final = _row_decoder(_REPLICA_STATE)
_decode_cluster: Final = read_text


def _decode_endpoints(buffer: bytes, p: int, end: int) -> tuple[list[Any], int]:
    count, p = read_count(buffer, p, end)
    endpoints = []
    for _ in range(count):
        if end - p < 11:
            raise MalformedError("cut")
        (node_id,) = INT32.unpack_from(buffer, p)
        host, p = read_text(buffer, p + 4, end)
        if host is None or end - p < 6:
            raise MalformedError("host")
        (port,) = INT32.unpack_from(buffer, p)
        rack, p = read_text(buffer, p + 4, end)
        p = skip_tags(buffer, p, end)
        endpoints.append((node_id, host, port, rack))
    return endpoints, p


def _encode_endpoints(endpoints: list[Any]) -> bytes:
    rows = [
        INT32.pack(node) + text(host) + INT32.pack(port) + text(rack) + b"\0" for node, host, port, rack in endpoints
    ]
    return uvarint(len(rows) + 1) + b"".join(rows)


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
    throttle_time_ms, error_code, session_id, topics, endpoints = body
    head = _RESPONSE.pack(throttle_time_ms, error_code, session_id)
    parts = [response_header(correlation_id) + head + uvarint(len(topics) + 1)]
    add = parts.append
    for topic_id, partitions in topics:
        add(topic_id + uvarint(len(partitions) + 1))
        for index, error, high_watermark, last_stable, log_start, aborted, replica, records, tagged in partitions:
            if aborted or tagged:
                add(_FIXED.pack(index, error, high_watermark, last_stable, log_start))
                add(b"\0" if aborted is None else uvarint(len(aborted) + 1))
                for producer_id, first_offset in aborted or ():
                    add(_ABORTED.pack(producer_id, first_offset, 0))
                add(INT32.pack(replica) + uvarint(0 if records is None else len(records) + 1))
                add(records or b"")
                values = (tagged or {}).get
                rows = [(shape, values(tag)) for tag, shape in enumerate(_PARTITION_TAGS)]
                add(_encode_tags(*(None if row is None else shape.pack(*row) + b"\0" for shape, row in rows)))
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
    add(_encode_tags(_encode_endpoints(endpoints[0])) if endpoints else b"\0")
    return parts
