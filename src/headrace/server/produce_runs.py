"""Which Produce requests of one read begin alike, so that their batches may be written together.

Theory. A producer with several requests on their way sends them together, and nearly always to one partition. Of such a
run only the first request has to be understood (`repeated_produce`). Another one belongs to it if all of it but the
correlation id and the records is what the first one's was; by its size it is known where the records must begin and
how their length must be written. What is in the records is for the log to judge.

Bounds: a connection offers MAX_TOGETHER requests at most; LAYOUTS sizes are remembered by all connections together.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from headrace.protocol.frame import Range
from headrace.protocol.primitives import uvarint

LAYOUTS: Final = 1024
BEGINNING_AT: Final = 8  # behind the API's key, its version, and the correlation id
NO_TAGS: Final = bytes(3)  # of the partition, the topic and the request, which are all that follows the records


class _Layout(NamedTuple):
    """Of a request of a certain size, if its beginning has a certain length."""

    read: Callable[[bytearray, int], tuple[int, int, bytes, bytes]]  # API, correlation id, all up to the records, tags
    length: bytes  # of the records, as it must be written
    records_at: int
    records_bytes: int


@lru_cache(LAYOUTS)
def layout_of(length_at: int, size: int) -> _Layout | None:
    """None if no request of this size has the length of its records there."""
    for length_bytes in (1, 2, 3):
        records_at = length_at + length_bytes
        records_bytes = size - len(NO_TAGS) - records_at
        length = uvarint(records_bytes + 1) if records_bytes >= 0 else b""
        if len(length) == length_bytes:
            layout = Struct(f">Ii{records_at - BEGINNING_AT}s{records_bytes}x{len(NO_TAGS)}s")
            return _Layout(layout.unpack_from, length, records_at, records_bytes)
    return None


def find_run(
    buffer: bytearray, view: memoryview, frames: Sequence[Range], *, length_at: int, api: int, beginning: bytes
) -> tuple[list[int], list[memoryview]]:
    """The first requests that begin so, as many as there are: their correlation ids and their records."""
    numbers: list[int] = []
    records: list[memoryview] = []
    known_size = -1
    for start, end in frames:
        if end - start != known_size:  # nearly all have one size
            known_size = end - start
            layout = layout_of(length_at, known_size)
            if layout is None:
                break
            read, length, records_at, _ = layout
            head = beginning + length
        found_api, number, found_head, tags = read(buffer, start)
        if found_head != head or found_api != api or tags != NO_TAGS:
            break
        numbers.append(number)
        records.append(view[start + records_at : end - 3])
    return numbers, records
