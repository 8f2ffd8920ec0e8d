"""Record headers of many records at once, as an Arrow column: list<struct<key: string, value: binary>>.

Most records have none, and then the column costs nothing. Otherwise the headers are read in rounds: the first header of
all records that have one, then the second, and so on; when only a few records go on, those are finished one by one. A
record without headers is null here, as it is in Spark's Kafka source.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.protocol.column_varints import Octets, Positions, read_varints
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import MAX_HEADERS
from headrace.protocol.varints import read_varint

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_FEW: Final = 16  # a round over arrays costs about as much as this many headers one by one


class Spans(NamedTuple):
    """Where the key and the value of each header lie, record by record; a value length of -1 is null."""

    key_starts: Positions
    key_lengths: Positions
    value_starts: Positions
    value_lengths: Positions


def read_headers(octets: Octets, at: Positions, ends: Positions, counts: Positions) -> tuple[Spans, Positions]:
    """The headers of records whose headers begin `at`, `counts` of them each, and the places after them."""
    rows = np.flatnonzero(counts)
    if (counts < 0).any() or (counts[rows] > np.minimum((ends - at)[rows] // 2, MAX_HEADERS)).any():
        raise CorruptBatchError("a record has more headers than it has room for, or than are allowed")
    after_last = np.cumsum(counts)
    spans = Spans(*(np.empty(after_last[-1], np.int64) for _ in Spans._fields))
    after = at.copy()
    slots = (after_last - counts)[rows]
    places = at[rows]
    while len(rows) > _FEW:
        key_lengths, key_starts = read_varints(octets, places)
        value_lengths, value_starts = read_varints(octets, key_starts + np.maximum(key_lengths, 0))
        places = value_starts + np.maximum(value_lengths, 0)
        for column, content in zip(spans, (key_starts, key_lengths, value_starts, value_lengths), strict=True):
            column[slots] = content
        after[rows] = places
        slots += 1
        unfinished = slots < after_last[rows]
        rows, slots, places = rows[unfinished], slots[unfinished], places[unfinished]
    for row, slot, place in zip(rows.tolist(), slots.tolist(), places.tolist(), strict=True):
        after[row] = _read_rest(octets, place, int(ends[row]), spans, slot, int(after_last[row]))
    if spans.key_lengths.min() < 0 or spans.value_lengths.min() < -1:
        raise CorruptBatchError("a header without a key, or with a length below -1")
    return spans, after


def _read_rest(octets: Octets, place: int, end: int, spans: Spans, slot: int, last_slot: int) -> int:
    """Read the headers `slot`..`last_slot` of one record; the place after them."""
    record = octets[place:end].tobytes()
    position = 0
    try:
        for index in range(slot, last_slot):
            length, position = read_varint(record, position)
            spans.key_starts[index], spans.key_lengths[index] = place + position, length
            position += max(length, 0)
            length, position = read_varint(record, position)
            spans.value_starts[index], spans.value_lengths[index] = place + position, length
            position += max(length, 0)
    except IndexError:
        raise CorruptBatchError("the headers of a record go beyond its end") from None
    return place + position


def header_column(source: Any, spans: Spans, counts: Positions) -> Any:
    """The Arrow array of headers; `source` is the Arrow buffer that the spans point into."""
    size = len(spans.key_starts)
    keys = take_spans(source, spans.key_starts, spans.key_lengths)
    values = take_spans(source, spans.value_starts, spans.value_lengths)
    try:
        keys = keys.cast(pa.string())
    except pa.ArrowInvalid:
        raise CorruptBatchError("a header's key is not UTF-8") from None
    entries = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    assert offsets[-1] == size, (offsets[-1], size)
    return pa.Array.from_buffers(
        HEADERS, len(counts), [validity(counts > 0), pa.py_buffer(offsets)], children=[entries]
    )


def take_spans(source: Any, starts: Positions, lengths: Positions) -> Any:
    """The bytes at `starts` as an Arrow array of their own; a length below zero is null.

    Ascending spans of one buffer are every other slot of a binary array over that buffer, so that Arrow's `take` does
    the copying. It takes two thirds of the time of a cast from binary_view.
    """
    count = len(starts)
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = starts
    edges[1::2] = starts + np.maximum(lengths, 0)
    slots = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), source])
    taken = slots.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    if lengths.min() >= 0:
        return taken
    return pa.Array.from_buffers(pa.binary(), count, [validity(lengths >= 0), *taken.buffers()[1:]])


def validity(valid: npt.NDArray[np.bool_]) -> Any:
    """An Arrow validity bitmap."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
