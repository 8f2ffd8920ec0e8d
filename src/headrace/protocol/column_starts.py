"""Where the records of many batches begin: the one step of columnar decoding that is sequential by nature.

A record says how long it is, so the next one can be found only after it: a chain. Walking it in Python costs more than
all the rest of the decoding. So the chain is guessed first, all at once, and then proven:

    guess   A record without headers ends in a zero (its header count), and the next begins with a length of one or two
            bytes and a zero (the attributes). In most values zeros are rare, so the places with that pattern are the
            record starts and little else.
    prove   Every guessed record must reach, by its own length, exactly the start of the next one; the first must stand
            at the start of its batch, the last must end with it, and there must be as many as the header says.
    walk    Where the proof fails (headers, values full of zeros) the chain is walked in Python, and proven likewise.

A wrong guess costs time, never correctness: nothing is believed but the proof.
"""

from typing import Final, NamedTuple

import numpy as np

from headrace.protocol.column_varints import Octets, Positions, read_varints
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import MIN_RECORD_SIZE
from headrace.protocol.varints import read_varint

# Guessing reads every byte, walking two per record: guessing takes a third of the time at 100 bytes, the same at 900.
_GUESS_MAX_RECORD_SIZE: Final = 512
# A word with a single byte of 1, times this, has the index of that byte in its top byte.
_BYTE_INDEX: Final = np.uint64(0x0001020304050607)
_TOP_BYTE: Final = np.uint64(56)
_ONE: Final = np.uint64(1)
_WALK_BLOCK: Final = 65536


class Payloads(NamedTuple):
    """Where the records of each batch lie in the bytes at hand, and how many there are; none is empty."""

    starts: Positions
    ends: Positions
    counts: Positions


class Records(NamedTuple):
    """Where the body of each record lies: what follows its length."""

    starts: Positions
    ends: Positions


def find_records(octets: Octets, payloads: Payloads) -> Records:
    """Find the records of all payloads. Raises CorruptBatchError if lengths and counts do not add up."""
    total = int(payloads.counts.sum())
    if int((payloads.ends - payloads.starts).sum()) <= total * _GUESS_MAX_RECORD_SIZE:
        try:
            return _prove(octets, _guess(octets, payloads, total), payloads)
        except CorruptBatchError:
            pass  # the guess may be at fault, not the batch
    return _prove(octets, _walk(octets, payloads, total), payloads)


def _prove(octets: Octets, starts: Positions, payloads: Payloads) -> Records:
    """The records at `starts`. Raises CorruptBatchError unless they form an unbroken chain through each payload."""
    after_last = np.cumsum(payloads.counts)
    if len(starts) == after_last[-1] and np.array_equal(starts[after_last - payloads.counts], payloads.starts):
        lengths, bodies = read_varints(octets, starts)
        ends = bodies + lengths
        expected_ends = np.empty_like(ends)
        expected_ends[:-1] = starts[1:]
        expected_ends[after_last - 1] = payloads.ends
        if lengths.min() >= 0 and np.array_equal(ends, expected_ends):
            return Records(bodies, ends)
    raise CorruptBatchError("the lengths of the records do not add up to the length of their batch")


def _guess(octets: Octets, payloads: Payloads, total: int) -> Positions:
    """The places that look like record starts, in ascending order."""
    size = len(octets)
    marks = np.empty(size // 8 * 8 + 8, np.uint8)  # 1 where a record may start; whole words, and a place for the end
    inner = marks[1 : size - 2]
    np.minimum(octets[2:-1], octets[3:], out=inner)
    np.maximum(inner, octets[:-3], out=inner)  # zero where a zero stands one place before, and one or two after
    np.equal(inner, 0, out=inner.view(np.bool_))
    end = 0
    for start, next_end in zip(payloads.starts.tolist(), payloads.ends.tolist(), strict=True):
        marks[end : start + MIN_RECORD_SIZE] = 0  # a batch header is full of zeros, and so is the first record's head
        end = next_end
    marks[min(end, size - 2) :] = 0
    marks[payloads.starts] = 1
    starts = _places(marks)
    if total < len(starts) <= 2 * total:
        starts = _prune(octets, starts, marks, payloads)
    return starts


def _places(marks: Octets) -> Positions:
    """np.flatnonzero for few marks among many zeros, three times as fast: eight places are looked at together."""
    words = marks.view("<u8")
    hits = np.flatnonzero(words != 0)
    left = words[hits]
    found = []
    while len(hits):
        fewer = left & (left - _ONE)
        found.append((hits << 3) + ((left ^ fewer) * _BYTE_INDEX >> _TOP_BYTE).view(np.int64))
        crowded = np.flatnonzero(fewer)
        hits = hits[crowded]
        left = fewer[crowded]
    return found[0] if len(found) == 1 else np.sort(np.concatenate(found), kind="stable")


def _prune(octets: Octets, starts: Positions, marks: Octets, payloads: Payloads) -> Positions:
    """Leave out what cannot be a link of the chain: too short for a record, leading nowhere, or led to by none."""
    low = octets.take(starts)
    high = octets.take(starts + 1, mode="clip")
    double = low >= 0x80
    lengths = (low & 0x7F) + (high.astype(np.int64) << 7) * double >> 1
    ends = np.minimum(starts + 1 + double + lengths, len(octets))
    marks[payloads.ends] = 1
    links = (lengths >= MIN_RECORD_SIZE - 1) & (marks[ends] > 0)
    marks[ends[links]] = 2
    marks[payloads.starts] = 2
    kept: Positions = starts[links & (marks[starts] == 2)]
    return kept


def _walk(octets: Octets, payloads: Payloads, total: int) -> Positions:
    """Follow the chain of lengths. What does not fit is left to `_prove`: a walk only has to stay in bounds."""
    source = octets.tobytes()  # one number out of bytes costs a third of one out of an array
    starts = np.empty(total, np.int64)
    row = 0
    for position, count in zip(payloads.starts.tolist(), payloads.counts.tolist(), strict=True):
        last = row + count
        while row < last:  # in blocks, since a list of numbers takes five times the memory of an array
            block, position = _walk_block(source, position, min(_WALK_BLOCK, last - row))
            starts[row : row + len(block)] = block
            row += len(block)
    return starts


def _walk_block(source: bytes, position: int, count: int) -> tuple[list[int], int]:
    """The starts of `count` records from `position` on, and the place after them."""
    starts: list[int] = []
    note = starts.append
    try:
        for _ in range(count):
            note(position)
            low = source[position]
            if low < 0x80:
                position += 1 + (low >> 1)
                continue
            high = source[position + 1]
            if high < 0x80:
                position += (high << 6) + (low >> 1) - 62  # the length without its sign bit, and the two bytes it takes
            else:
                length, position = read_varint(source, position)
                position += max(length, 0)
    except IndexError:
        raise CorruptBatchError("the lengths of the records go beyond the end of their batch") from None
    return starts, position
