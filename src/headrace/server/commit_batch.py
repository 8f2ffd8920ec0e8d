"""The batch that commits of the same partitions lead to: made once, and then only its numbers change.

The records of such commits are equal but for their place in the batch, the offset with its leader epoch, and the time.
So one template serves for any number of commits: what is written is its beginning, as long as is needed.

Where the numbers stand is found by encoding the records a second time with every bit of them turned round: what differs
then is a number.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from struct import Struct
from typing import Final

from headrace.coordinator.repeated_commit import RepeatedCommit
from headrace.protocol.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
    pack_header_values,
    write_crc,
)
from headrace.protocol.internal_records import encode_coordinator_record
from headrace.protocol.record_encoding import Row, encode_rows

_POSITION: Final = Struct(">qi")  # an offset, and its leader epoch
_TIME: Final = Struct(">q")
_NO_ATTRIBUTES: Final = 0


class CommitBatch:
    """For up to `capacity` commits at a time."""

    __slots__ = ("_places", "_tail_bytes", "_template", "capacity")

    def __init__(self, commit: RepeatedCommit, capacity: int) -> None:
        self.capacity = capacity
        row_count = len(commit) * capacity
        data = encode_rows(_rows(commit, row_count, 0)).data
        turned = encode_rows(_rows(commit, row_count, ~0)).data
        starts = [HEADER_SIZE + start for start in differences(data, turned)]
        # Of each record: where its offset stands, and where its time.
        self._places = list(zip(starts[0::2], starts[1::2], strict=True))
        self._template = bytearray(HEADER_SIZE) + data
        # From the last time on. It is the same for any number of commits, since all end with the same record.
        self._tail_bytes = len(self._template) - self._places[-1][1]

    def with_numbers(self, offsets: Sequence[int], leader_epochs: Sequence[int], now_ms: int) -> bytearray:
        """The batch of the records that have these offsets, which are those of one or several whole commits."""
        count = len(offsets)
        end = self._places[count - 1][1] + self._tail_bytes
        batch = self._template[:end]
        head = (0, end - LOG_OVERHEAD, NO_LEADER_EPOCH, MAGIC, 0, _NO_ATTRIBUTES, count - 1, now_ms, now_ms)
        batch[:HEADER_SIZE] = pack_header_values(*head, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count)
        for (position_at, time_at), offset, leader_epoch in zip(self._places, offsets, leader_epochs, strict=False):
            _POSITION.pack_into(batch, position_at, offset, leader_epoch)
            _TIME.pack_into(batch, time_at, now_ms)
        write_crc(batch, 0, end)
        return batch


def _rows(commit: RepeatedCommit, count: int, number: int) -> list[Row]:
    """Of so many records whose offset, leader epoch and time are `number`."""
    numbers = [number] * count
    return [
        (*encode_coordinator_record(record.type, record.key, record.value, record.version), 0, None)
        for record in commit.records(numbers, numbers, number)
    ]


def differences(one: Buffer, other: Buffer) -> Iterator[int]:
    """Where runs of bytes begin in which two buffers of one length differ."""
    for is_same, run in groupby(range(len(one)), lambda at: one[at] == other[at]):
        if not is_same:
            yield next(run)
