"""Records that are written together must fit into one batch: how large they are, and how many are cut into batches."""

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.protocol.internal_records import CoordinatorRecord, encode_coordinator_record

_ROW_BYTES: Final = 32  # around a record in a batch, at most


def size_of(record: CoordinatorRecord) -> int:
    """At most so many bytes of a batch."""
    key, value = encode_coordinator_record(record.type, record.key, record.value, record.version)
    return len(key) + len(value or b"") + _ROW_BYTES


def in_batches(
    records: Iterable[CoordinatorRecord], *, most_records: int, most_bytes: int
) -> Iterator[tuple[CoordinatorRecord, ...]]:
    """In their order. One that is larger by itself is alone."""
    batch: list[CoordinatorRecord] = []
    left_bytes = most_bytes
    for record in records:
        size = size_of(record)
        if batch and (len(batch) == most_records or size > left_bytes):
            yield tuple(batch)
            batch, left_bytes = [], most_bytes
        batch.append(record)
        left_bytes -= size
    if batch:
        yield tuple(batch)
