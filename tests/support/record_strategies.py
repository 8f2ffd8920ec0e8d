"""Records and batches for tests: nulls, headers, gaps, zeros, and timestamps that go back and forth.

Records come from hypothesis, which can make a failing one smaller. Whole batches and logs come from a seed that
hypothesis draws: that is thirty times as fast, and a failure is still reproduced by its seed.
"""

import random

from hypothesis import strategies as st

from headrace.protocol.batch import BatchHeader, verify
from headrace.protocol.compression import Codec
from headrace.protocol.records import Headers, NewRecord, Record, build_batch, read_records, rebuild_batch

# Zeros and short lengths make values look like records, which is what the columnar reader has to see through.
_LOOKALIKE = bytes([0, 0, 0, 1, 2, 12, 14, 16, 0x80, 0x90, 0xFF])

lookalikes = st.lists(st.sampled_from(_LOOKALIKE), max_size=40).map(bytes)
contents = st.none() | st.binary(max_size=200) | lookalikes
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4).map(tuple)
timestamps = st.integers(-1, 2**45) | st.sampled_from([0, 1_700_000_000_000, 1_700_000_000_001])
codecs = st.sampled_from(Codec)
new_records = st.builds(NewRecord, timestamps, contents, contents, st.just(()) | headers)
record_lists = st.lists(new_records, min_size=1, max_size=12)

# Payloads of one record, each broken in its own way, and what the reader says about it.
GOOD = b"\x00\x00\x00\x01\x01\x00"  # attributes, two deltas, null key, null value, no headers
LONG_ZERO = b"\x80\x80\x80\x80\x00"
BROKEN_RECORDS: list[tuple[bytes, str]] = [
    (b"\x0b" + GOOD, "a record of -6 bytes"),
    (b"\x0e" + GOOD, "a record of 7 bytes, 6 are left"),
    (b"\x0a" + GOOD, "ends \\+1 bytes from where"),
    (b"\x0e" + GOOD + b"\0", "ends -1 bytes from where"),
    (b"\x0c" + GOOD + b"\0", "1 bytes follow the last"),
    (b"\x0c\x00\x00\x01\x01\x01\x00", "offset delta -1"),
    (b"\x0c\x00\x00\x02\x01\x01\x00", "offset delta 1"),
    (b"\x0c\x00\x00\x00\x03\x01\x00", "a length of -2"),
    (b"\x0c\x00\x00\x00\x01\x03\x00", "a length of -2"),
    (b"\x0c\x00\x00\x00\x06\x01\x00", "3 bytes in a record with 2"),
    (b"\x0c\x00\x00\x00\x01\x01\x01", "-1 headers"),
    (b"\x0c\x00\x00\x00\x01\x01\x02", "1 headers in a record with 0"),
    (b"\x10\x00\x00\x00\x01\x01\x02\x01\x00", "a header without a key"),
    (b"\x10\x00\x00\x00\x01\x01\x02\x00\x03", "a length of -2"),
    (b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x00", "not UTF-8"),
    (b"\x16\x00\x00\x80\x80\x80\x80\x80\x00\x01\x01\x00", "more than 5 bytes"),
    (b"\x14\x00\x00\x80\x80\x80\x80\x10\x01\x01\x00", "more than 32 bits"),
    (b"\x1e\x00" + b"\xff" * 9 + b"\x02\x00\x01\x01\x00", "more than 64 bits"),
    (b"\x20\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00", "more than 10 bytes"),
    (b"\x0c\x00\x00\x00\x01\x01\x80", "beyond the end"),
    (b"\x80" * 7, "more than 5 bytes"),
    (b"", "1 records cannot be in 0 bytes"),
    (b"\x0a" + GOOD[:-1], "1 records cannot be in 6 bytes"),
]
UNUSUAL_RECORDS: list[bytes] = [
    b"\x16\x00\x80\x80\x80\x80\x80\x00\x00\x01\x01\x00",
    b"\x14\x00\x00" + LONG_ZERO + b"\x01\x01\x00",
    b"\x1e\x00" + b"\xff" * 9 + b"\x01\x00\x01\x01\x00",
]


def _content(draw: random.Random) -> bytes | None:
    kind = draw.randrange(6)
    if kind == 0:
        return None
    size = draw.choice([0, 1, 10, 40, 130, draw.randrange(300)])
    if kind == 1:
        return bytes(draw.choices(_LOOKALIKE, k=size))
    return draw.randbytes(size) if kind == 2 else draw.randbytes(size // 2).hex().encode()


def _headers(draw: random.Random) -> Headers:
    return tuple(
        (draw.choice(["", "h", "é", "trace" * 20]), _content(draw)) for _ in range(draw.choice([0, 0, 1, 2, 5]))
    )


def random_batch(draw: random.Random, base_offset: int = 0) -> bytearray:
    """One batch as a log may hold it: new, or with gaps that compaction has left, or emptied by it."""
    headed = draw.random() < 0.3
    now = draw.choice([0, 1_700_000_000_000, draw.randrange(2**45)])
    spread = draw.choice([0, 1, 1000, 2**40])
    records = [
        NewRecord(now + draw.randint(-spread, spread), _content(draw), _content(draw), _headers(draw) if headed else ())
        for _ in range(draw.choice([1, 2, 5, 20, 80]))
    ]
    producer_id = draw.choice([-1, 7, 8])
    batch = build_batch(
        records,
        base_offset=base_offset,
        codec=draw.choice(list(Codec)),
        log_append_time_ms=draw.choice([None, None, now]),
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=-1 if producer_id < 0 else draw.randrange(2**31),
        transactional=producer_id >= 0 and draw.random() < 0.5,
        leader_epoch=draw.randint(-1, 5),
    )
    if draw.random() < 0.5:
        return batch
    header, read = opened(batch)
    share = draw.choice([0, 0.5, 1])
    kept = [record for record in read if draw.random() < share]
    return rebuild_batch(header, kept, delete_horizon_ms=draw.choice([None, draw.randrange(2**45)]))


def random_log(draw: random.Random, max_batches: int = 5) -> bytes:
    """Several batches behind one another, with gaps in their offsets."""
    log = bytearray()
    offset = draw.choice([0, 5, 2**40])
    for _ in range(draw.randint(0, max_batches)):
        batch = random_batch(draw, offset)
        offset = verify(batch).next_offset + draw.choice([0, 0, 3])
        log += batch
    return bytes(log)


seeds = st.integers(0, 2**64)
batches = seeds.map(lambda seed: random_batch(random.Random(seed)))
logs = seeds.map(lambda seed: random_log(random.Random(seed)))


def damage(data: bytes, seed: int) -> bytes:
    """A few bytes changed; sometimes the end cut off."""
    draw = random.Random(seed)
    damaged = bytearray(data or bytes(70))
    for _ in range(draw.randint(1, 5)):
        damaged[draw.randrange(len(damaged))] = draw.choice([0, 1, 2, 0x80, 0xFF, draw.randrange(256)])
    return bytes(damaged[: draw.randint(0, len(damaged))] if draw.random() < 0.1 else damaged)


def some_of(records: list[Record], choice: int) -> list[Record]:
    """The records that the bits of `choice` pick."""
    return [record for index, record in enumerate(records) if choice >> index & 1]


def opened(batch: bytes | bytearray) -> tuple[BatchHeader, list[Record]]:
    return verify(batch), list(read_records(batch))
