"""Zigzag varints of many records at once, as arrays: what `varints.py` does for one.

Reading goes byte by byte over all records together. Nearly every number has one or two bytes, and those two rounds
touch all records; what is longer is finished for the few records that have it. Places beyond the bytes at hand are
clipped, not refused: the caller compares the place where a record's fields end with the place where the record ends,
and that finds every such case.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.protocol.errors import CorruptBatchError

Octets: TypeAlias = npt.NDArray[np.uint8]
Positions: TypeAlias = npt.NDArray[np.int64]

_ONE: Final = np.uint64(1)
_SEVEN: Final = np.uint64(7)


def read_varints(octets: Octets, at: Positions, *, bits: int = 32) -> tuple[Positions, Positions]:
    """The numbers at the places `at`, and the places after them. Raises CorruptBatchError beyond `bits`."""
    byte = octets.take(at, mode="clip")
    after = at + 1
    raw = (byte & 0x7F).astype(np.uint64)
    longer = byte >= 0x80
    if longer.any():
        byte = octets.take(after, mode="clip")
        raw |= ((byte & 0x7F) * longer).astype(np.uint64) << _SEVEN
        after += longer
        longer &= byte >= 0x80
        if longer.any():
            _finish(octets, raw, after, np.flatnonzero(longer), bits)
    return (raw >> _ONE).view(np.int64) ^ -(raw & _ONE).view(np.int64), after


def _finish(
    octets: Octets, raw: npt.NDArray[np.uint64], after: Positions, rows: npt.NDArray[np.intp], bits: int
) -> None:
    """Complete in place the numbers in `rows`, which have more than two bytes."""
    shift = 14
    while len(rows):
        byte = octets.take(after[rows], mode="clip")
        if shift + 7 > bits and (byte >= 1 << (bits - shift)).any():
            raise CorruptBatchError(f"a varint of more than {bits} bits")
        raw[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[rows] += 1
        rows = rows[byte >= 0x80]
        shift += 7


class Varints(NamedTuple):
    """Numbers on their way to the wire."""

    raw: npt.NDArray[np.uint64]  # zigzag
    sizes: Octets  # how many bytes each one takes

    @classmethod
    def of(cls, numbers: Positions) -> "Varints":
        raw = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
        sizes = np.ones(len(raw), np.uint8)
        largest = int(raw.max(initial=0))
        limit = 0x80
        while largest >= limit:
            sizes += raw >= np.uint64(limit)
            limit <<= 7
        return cls(raw, sizes)

    def slice(self, first: int, last: int) -> "Varints":
        return Varints(self.raw[first:last], self.sizes[first:last])


def write_varints(*fields: Varints) -> tuple[Octets, npt.NDArray[np.int32]]:
    """The numbers of all fields, row by row, as bytes; and where each row begins and ends in them.

    The bytes are laid out in a matrix with as many columns as any row needs, from which those that are not needed are
    dropped.
    """
    columns = [int(field.sizes.max(initial=1)) for field in fields]
    rows = len(fields[0].raw)
    matrix = np.empty((rows, sum(columns)), np.uint8)
    needed = np.ones(matrix.shape, np.bool_)
    sizes = np.zeros(rows, np.uint8)
    at = 0
    for (raw, widths), column_count in zip(fields, columns, strict=True):
        sizes += widths
        smallest = int(widths.min(initial=column_count))
        for index in range(column_count):
            byte = raw.astype(np.uint8) if index == 0 else (raw >> np.uint64(7 * index)).astype(np.uint8)
            if index + 1 < smallest:
                byte |= 0x80
            elif index + 1 == column_count:
                byte &= 0x7F
            else:
                byte = np.where(widths > index + 1, byte | 0x80, byte & 0x7F)
            matrix[:, at] = byte
            if index >= smallest:
                needed[:, at] = widths > index
            at += 1
    edges = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=edges[1:])
    return (matrix.reshape(-1) if edges[-1] == matrix.size else matrix[needed]), edges
