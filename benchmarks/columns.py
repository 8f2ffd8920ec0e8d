"""Columns: records per second from batches to Arrow and back, on one core.

The data is made to be ordinary: keys of 10 bytes, values of text around 100 bytes that differ from record to record,
each record a few milliseconds after the one before. The goals are for values of varied length; equal lengths, random
bytes, headers and codecs are shown for comparison. CRCs are checked and written, as they are in a real fetch and a real
produce.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from benchmarks.figures import Figure, cpu_seconds
from headrace.protocol.batch import stamp
from headrace.protocol.columns import decode_batches, encode_batches
from headrace.protocol.compression import Codec
from headrace.protocol.records import NewRecord, build_batch, read_records

_RECORDS: Final = 40_000  # four large batches, about 5 MB: a fetch
_LARGE: Final = 10_000
_SMALL: Final = 160
_ONE_BATCH: Final = 1 << 30  # bytes; so large that the number of records decides
_WORDS: Final = (
    "order",
    "paid",
    "shipped",
    "user",
    "country",
    "amount",
    "price",
    "city",
    "items",
    "error",
    "retry",
    "host",
)


def run() -> list[Figure]:
    varied = _records(lambda draw: draw.randrange(60, 141))
    equal = _records(lambda _: 100)
    noise = _records(lambda draw: draw.randrange(60, 141), text=False)
    with_headers = [record._replace(headers=(("trace", b"0123456789abcdef"), ("source", b"web"))) for record in varied]
    figures = [
        _decode("decode, 10,000-record batches", varied, _LARGE, goal=1.3),
        _decode("decode, 160-record batches", varied, _SMALL, goal=0.8),
        _encode("encode, 10,000-record batches", varied, _LARGE, goal=2.0),
        _encode("encode, 160-record batches", varied, _SMALL),
        _decode("decode, values of equal length", equal, _LARGE, goal=1.3),
        _decode("decode, values of equal length, 160-record batches", equal, _SMALL, goal=0.8),
        _encode("encode, values of equal length", equal, _LARGE, goal=2.0),
        _decode("decode, values of random bytes", noise, _LARGE),
        _decode("decode, two headers per record", with_headers, _LARGE),
        _encode("encode, two headers per record", with_headers, _LARGE),
    ]
    for codec in (Codec.LZ4, Codec.ZSTD):
        figures.append(_decode(f"decode, {codec.name.lower()}", varied, _LARGE, codec=codec))
        figures.append(_encode(f"encode, {codec.name.lower()}", varied, _LARGE, codec=codec))
    figures.append(_one_by_one(varied))
    return figures


def _records(size: Any, *, text: bool = True) -> list[NewRecord]:
    draw = random.Random(7)
    now = 1_700_000_000_000
    records = []
    for _ in range(_RECORDS):
        now += draw.randrange(0, 5)
        length = size(draw)
        value = _sentence(draw, length) if text else draw.randbytes(length)
        records.append(NewRecord(now, b"user%06d" % draw.randrange(10**6), value))
    return records


def _sentence(draw: random.Random, length: int) -> bytes:
    words = [f"{draw.choice(_WORDS)}={draw.randrange(10 ** draw.randrange(1, 8))}" for _ in range(length // 8 + 2)]
    return ",".join(words).encode().ljust(length, b".")[:length]


def _log(records: Sequence[NewRecord], per_batch: int, codec: Codec) -> bytes:
    return b"".join(
        build_batch(records[first : first + per_batch], base_offset=first, codec=codec)
        for first in range(0, len(records), per_batch)
    )


def _decode(
    name: str, records: Sequence[NewRecord], per_batch: int, *, codec: Codec = Codec.NONE, goal: float | None = None
) -> Figure:
    log = _log(records, per_batch, codec)
    assert decode_batches(log, topic="orders", partition=0).table.num_rows == len(records)
    seconds = cpu_seconds(lambda: decode_batches(log, topic="orders", partition=0), calls=3)
    return _figure(name, len(records) / seconds, goal)


def _encode(
    name: str, records: Sequence[NewRecord], per_batch: int, *, codec: Codec = Codec.NONE, goal: float | None = None
) -> Figure:
    parts = [
        decode_batches(build_batch(records[first : first + _LARGE]), topic="orders", partition=0).table.combine_chunks()
        for first in range(0, len(records), _LARGE)
    ]
    size = _ONE_BATCH if per_batch == _LARGE else len(_log(records, per_batch, Codec.NONE)) * per_batch // len(records)
    assert _values(parts, size, codec) == [record.value for record in records]

    def work() -> None:
        for part in parts:
            encode_batches(part, batch_bytes=size, codec=codec)

    return _figure(name, len(records) / cpu_seconds(work, calls=3), goal)


def _values(parts: Sequence[pa.Table], size: int, codec: Codec) -> list[bytes | None]:
    log = bytearray()
    offset = 0
    for part in parts:
        for batch in encode_batches(part, batch_bytes=size, codec=codec):
            stamp(batch, 0, base_offset=offset, leader_epoch=0)
            log += batch
            offset = decode_batches(batch, topic="orders", partition=0, first_offset=offset).next_offset
    values: list[bytes | None] = decode_batches(log, topic="orders", partition=0).table.column("value").to_pylist()
    return values


def _one_by_one(records: Sequence[NewRecord]) -> Figure:
    batch = bytes(build_batch(records[:_LARGE]))
    seconds = cpu_seconds(lambda: sum(1 for _ in read_records(batch)), calls=1)
    return _figure("read one by one, for comparison", _LARGE / seconds, None)


def _figure(name: str, per_second: float, goal: float | None) -> Figure:
    return Figure(name, per_second / 1e6, "M records/s", goal, at_most=False)
