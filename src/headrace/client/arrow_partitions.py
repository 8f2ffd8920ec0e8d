"""The partitions of many keys at once: murmur2 over a column, with the results of `murmur2.py`.

Keys of the same length are hashed together, word by word; a column has few different lengths.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFF_FFFF)
_ROWS_AT_ONCE: Final = 65_536  # bounds the memory of one step

Numbers = npt.NDArray[np.uint32]


def partitions_of(keys: Any, count: int) -> npt.NDArray[np.int32]:
    """The partition of each key among `count`; -1 where it is null. `keys` is a pyarrow array of binary or text."""
    keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    if not pa.types.is_large_binary(keys.type):
        keys = keys.cast(pa.large_binary())
    _, edges_buffer, data_buffer = keys.buffers()
    edges = np.frombuffer(edges_buffer, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    octets = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    lengths = np.diff(edges)
    partitions = np.empty(len(keys), np.int32)
    for length in np.unique(lengths):
        (places,) = np.nonzero(lengths == length)
        for first in range(0, len(places), _ROWS_AT_ONCE):
            some = places[first : first + _ROWS_AT_ONCE]
            hashes = _murmur2(octets[edges[some, None] + np.arange(length)])
            partitions[some] = (hashes & _POSITIVE) % np.uint32(count)
    if keys.null_count:
        partitions[np.asarray(keys.is_null())] = -1
    return partitions


def _murmur2(keys: npt.NDArray[np.uint8]) -> Numbers:
    """Of keys that are the rows of a matrix."""
    rows, length = keys.shape
    result = np.full(rows, _SEED ^ np.uint32(length), np.uint32)
    whole = length & ~3
    words = np.ascontiguousarray(keys[:, :whole]).view("<u4")
    for column in range(whole >> 2):
        word = words[:, column] * _MULTIPLIER
        word ^= word >> np.uint32(24)
        result = result * _MULTIPLIER ^ word * _MULTIPLIER
    if whole < length:
        for place in range(whole, length):
            result ^= keys[:, place].astype(np.uint32) << np.uint32(8 * (place - whole))
        result *= _MULTIPLIER
    result ^= result >> np.uint32(13)
    result *= _MULTIPLIER
    return result ^ result >> np.uint32(15)
