"""A Produce request that was answered well, as far as the next one like it is the same: its beginning, and its answer.

Of the answer all is known but the correlation id, the base offset, the time of the append and the log start offset.
"""

from struct import Struct
from typing import Final

from headrace.protocol.messages.produce import PartitionProduceResponse

SIZE: Final = Struct(">i")  # of a frame
_CORRELATION_ID_BYTES: Final = 4
_ROW: Final = Struct(">ihqqq")  # partition, no error, base offset, append time, log start offset
_NUMBERS_AT: Final = 6  # in a row
_BEHIND_ROW_BYTES: Final = 9  # no errors of records, no message, tags, throttle time, tags
_BEHIND_OFFSET: Final = Struct(f">qq{_BEHIND_ROW_BYTES}s")  # append time, log start offset, and what follows
BEHIND_OFFSET_BYTES: Final = _BEHIND_OFFSET.size


def has_known_form(answer: bytes, row: PartitionProduceResponse) -> bool:
    """Are the numbers of its one row where they are expected?"""
    row_at = len(answer) - _BEHIND_ROW_BYTES - _ROW.size
    return answer[row_at : row_at + _ROW.size] == _ROW.pack(row.index, 0, *row[2:5])


class KnownProduce:
    """One beginning: where the batch goes, and what is said then."""

    __slots__ = (
        "_answer_end",
        "_pack",
        "acks",
        "answer_head",
        "answer_size",
        "api",
        "beginning",
        "index",
        "topic",
    )

    def __init__(self, api: int, beginning: bytes, topic: str | bytes, index: int, acks: int, answer: bytes) -> None:
        """`answer`: as it was sent, in a known form."""
        self.api = api  # its key and version
        self.beginning = beginning  # what is between the correlation id and the length of the records
        self.topic = topic
        self.index = index
        self.acks = acks
        self.answer_size = len(answer) - SIZE.size
        self.answer_head = answer[SIZE.size + _CORRELATION_ID_BYTES : _NUMBERS_AT - _BEHIND_ROW_BYTES - _ROW.size]
        self._answer_end = answer[-_BEHIND_ROW_BYTES:]
        self._pack = Struct(f">ii{len(self.answer_head)}sq{_BEHIND_OFFSET.size}s").pack

    def answer(self, correlation_id: int, base_offset: int, behind_offset: bytes) -> bytes:
        return self._pack(self.answer_size, correlation_id, self.answer_head, base_offset, behind_offset)

    def behind_offset(self, append_time_ms: int, log_start_offset: int) -> bytes:
        return _BEHIND_OFFSET.pack(append_time_ms, log_start_offset, self._answer_end)
