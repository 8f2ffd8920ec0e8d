"""Metadata, version 12.

response  (throttle time, [(node id, host, port, rack)], cluster id, controller id,
          [(error, name, topic id, is internal, [(error, index, leader, leader epoch, replicas, in-sync replicas,
          offline replicas)], operations)])
"""

from struct import Struct
from typing import Any, Final

from benchmarks.handwritten.wire import (
    INT32,
    MalformedError,
    int32s,
    read_count,
    read_int32s,
    read_response_header,
    read_text,
    response_header,
    skip_tags,
    text,
    uvarint,
)

_ERROR: Final = Struct(">h")
_TOPIC: Final = Struct(">16s?")
_PARTITION: Final = Struct(">hiii")
_LAST: Final = Struct(">iB")


def decode_response(buffer: bytes, _view: memoryview, p: int, end: int) -> tuple[Any, ...]:
    correlation_id, p = read_response_header(buffer, p, end)
    if end - p < 5:
        raise MalformedError("cut")
    (throttle_time_ms,) = INT32.unpack_from(buffer, p)
    count, p = read_count(buffer, p + 4, end)
    brokers = []
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
        brokers.append((node_id, host, port, rack))
    cluster_id, p = read_text(buffer, p, end)
    if end - p < 5:
        raise MalformedError("cut")
    (controller_id,) = INT32.unpack_from(buffer, p)
    count, p = read_count(buffer, p + 4, end)
    topics = []
    for _ in range(count):
        topic, p = _decode_topic(buffer, p, end)
        topics.append(topic)
    p = skip_tags(buffer, p, end)
    if p != end:
        raise MalformedError("left over")
    return correlation_id, (throttle_time_ms, brokers, cluster_id, controller_id, topics)


def _decode_topic(buffer: bytes, p: int, end: int) -> tuple[tuple[Any, ...], int]:
    if end - p < 3:
        raise MalformedError("cut")
    (error_code,) = _ERROR.unpack_from(buffer, p)
    name, p = read_text(buffer, p + 2, end)
    if end - p < 18:
        raise MalformedError("cut")
    topic_id, is_internal = _TOPIC.unpack_from(buffer, p)
    count, p = read_count(buffer, p + 17, end)
    partitions = []
    for _ in range(count):
        if end - p < 18:
            raise MalformedError("cut")
        error, index, leader, leader_epoch = _PARTITION.unpack_from(buffer, p)
        replicas, p = read_int32s(buffer, p + 14, end)
        in_sync, p = read_int32s(buffer, p, end)
        offline, p = read_int32s(buffer, p, end)
        if p >= end:
            raise MalformedError("cut")
        p = skip_tags(buffer, p, end) if buffer[p] else p + 1
        partitions.append((error, index, leader, leader_epoch, replicas, in_sync, offline))
    if end - p < 5:
        raise MalformedError("cut")
    operations, tags = _LAST.unpack_from(buffer, p)
    p = skip_tags(buffer, p + 4, end) if tags else p + 5
    return (error_code, name, topic_id, is_internal, partitions, operations), p


def encode_response(correlation_id: int, body: tuple[Any, ...]) -> list[Any]:
    throttle_time_ms, brokers, cluster_id, controller_id, topics = body
    parts = [response_header(correlation_id) + INT32.pack(throttle_time_ms) + uvarint(len(brokers) + 1)]
    add = parts.append
    for node_id, host, port, rack in brokers:
        add(INT32.pack(node_id) + text(host) + INT32.pack(port) + text(rack) + b"\0")
    add(text(cluster_id) + INT32.pack(controller_id) + uvarint(len(topics) + 1))
    for error_code, name, topic_id, is_internal, partitions, operations in topics:
        add(_ERROR.pack(error_code) + text(name) + _TOPIC.pack(topic_id, is_internal) + uvarint(len(partitions) + 1))
        for error, index, leader, leader_epoch, replicas, in_sync, offline in partitions:
            add(_PARTITION.pack(error, index, leader, leader_epoch))
            add(int32s(replicas) + int32s(in_sync) + int32s(offline) + b"\0")
        add(_LAST.pack(operations, 0))
    add(b"\0")
    return parts
