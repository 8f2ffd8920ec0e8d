"""Produce requests of one size that begin alike and came in one read: they are read, and answered, all at once.

Theory. They lie in the buffer like the rows of a table, one `Struct` reads all of them, and another one writes all
answers. That costs half of what a loop over them does (`produce_runs`), and it is known to be worth trying where as
many of this size were a run before. Whatever is not quite the same is for that loop.

Bounds: LAYOUTS tables are remembered by all connections together.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from headrace.log.append import NO_APPEND_TIME
from headrace.log.even_append import EvenBatches
from headrace.protocol.frame import SIZE_BYTES
from headrace.server.known_produce import BEHIND_OFFSET_BYTES, SIZE, KnownProduce
from headrace.server.produce_runs import BEGINNING_AT, NO_TAGS, layout_of

LAYOUTS: Final = 256
_COLUMNS: Final = 3
_ANSWER_COLUMNS: Final = 4
_SIZE_AND_API: Final = Struct(">II")
_UNKNOWN: Final = -1


class _Table(NamedTuple):
    """How so many requests of one size are read: size and API of the first; then of each the correlation id, all up to
    the records, and all behind the records up to the correlation id of the next one."""

    read: Callable[[bytearray], tuple[Any, ...]]
    first: bytes
    behind: tuple[bytes, ...]


@lru_cache(LAYOUTS)
def _table_of(records_at: int, records_bytes: int, *, api: int, count: int) -> _Table:
    head_bytes, size = records_at - BEGINNING_AT, records_at + records_bytes + len(NO_TAGS)
    first = _SIZE_AND_API.pack(size, api)
    behind = (NO_TAGS + first,) * (count - 1) + (NO_TAGS,)
    rows = [f"i{head_bytes}s{records_bytes}x{len(each)}s" for each in behind]
    return _Table(Struct(f">{_SIZE_AND_API.size}s{''.join(rows)}").unpack_from, first, behind)


@lru_cache(LAYOUTS)
def _packer_of(head_bytes: int, count: int) -> Callable[..., bytes]:
    """What packs so many answers: the first one's size; then of each the correlation id, its head, the offset, and what
    is behind it up to the next correlation id."""
    behind_bytes = [BEHIND_OFFSET_BYTES + SIZE.size] * (count - 1) + [BEHIND_OFFSET_BYTES]
    return Struct(f">i{''.join(f'i{head_bytes}sq{each}s' for each in behind_bytes)}").pack


class EvenRequests:
    """`batches` is where their batches are, as the log wants to know it."""

    __slots__ = ("_answers", "_behind", "_first", "_heads", "_known", "_log_start_offset", "_pack", "_read", "batches")

    def __init__(self, known: KnownProduce, size: int, count: int) -> None:
        """So many requests like this one, with a content of `size` bytes each, as were a run before."""
        layout = layout_of(BEGINNING_AT + len(known.beginning), size)
        assert layout is not None, f"a request of {size} bytes was served, and cannot begin with {known.beginning!r}"
        self.batches = EvenBatches(
            at=SIZE_BYTES + layout.records_at, distance=SIZE_BYTES + size, size=layout.records_bytes, count=count
        )
        self._read, self._first, self._behind = _table_of(
            layout.records_at, layout.records_bytes, api=known.api, count=count
        )
        self._heads = (known.beginning + layout.length,) * count
        self._known = known
        self._pack = _packer_of(len(known.answer_head), count)
        self._answers: list[Any] = []  # the last ones: the next ones differ in correlation ids and offsets
        self._log_start_offset = _UNKNOWN  # that they tell

    def numbers(self, buffer: bytearray) -> tuple[int, ...]:
        """The correlation ids of the requests at the front of the buffer; none if others are among them."""
        fields = self._read(buffer)
        if fields[0] != self._first or fields[2::_COLUMNS] != self._heads or fields[3::_COLUMNS] != self._behind:
            return ()
        return fields[1::_COLUMNS]

    def answers(self, numbers: tuple[int, ...], offsets: Sequence[int], log_start_offset: int) -> bytes:
        """That they were taken, and got these offsets."""
        if log_start_offset != self._log_start_offset:
            self._prepare_answers(log_start_offset)
        answers = self._answers
        answers[1::_ANSWER_COLUMNS] = numbers
        answers[3::_ANSWER_COLUMNS] = offsets
        return self._pack(*answers)

    def _prepare_answers(self, log_start_offset: int) -> None:
        known = self._known
        size = SIZE.pack(known.answer_size)
        behind = known.behind_offset(NO_APPEND_TIME, log_start_offset)
        row = [0, known.answer_head, 0, behind + size]
        self._answers = [known.answer_size, *row * self.batches.count]
        self._answers[-1] = behind
        self._log_start_offset = log_start_offset
