"""Produce requests of one size that begin alike and came in one read: they are read, and answered, all at once.

Theory. They lie in the buffer like the rows of a table, one `Struct` reads all of them, and another one writes all
answers. That costs half of what a loop over them does (`produce_runs`), and is tried where a run of as many requests of
this size was all of a read before, and twice: the first time may be chance, and to prepare for it costs more than it
saves. Whatever is not quite the same is for that loop.

Bounds: a connection has MAX_TABLES tables, for MAX_TOGETHER requests at most: 20 KB each. All connections together
remember LAYOUTS forms of them, which is for speed.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from headrace.log.append import NO_APPEND_TIME
from headrace.log.even_append import EvenBatches
from headrace.protocol.frame import SIZE_BYTES, Range
from headrace.server.known_produce import BEHIND_OFFSET_BYTES, SIZE, KnownProduce
from headrace.server.produce_runs import BEGINNING_AT, NO_TAGS, layout_of

MAX_TABLES: Final = 8  # for two to five requests on their way, of two sizes
LAYOUTS: Final = 256
_BEGINNING_AT: Final = SIZE_BYTES + BEGINNING_AT  # in the buffer
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
    """So many requests like a known one, of one size: how they are read and answered, and where their batches are."""

    __slots__ = (
        "_answers",
        "_behind",
        "_first",
        "_heads",
        "_log_start_offset",
        "_pack",
        "_read",
        "all_bytes",
        "batches",
        "known",
    )

    def __init__(self, known: KnownProduce, size: int, count: int) -> None:
        """`size`: of the content of one. As many of it were taken as a run before."""
        layout = layout_of(BEGINNING_AT + len(known.beginning), size)
        assert layout is not None, f"a request of {size} bytes was served, and cannot begin with {known.beginning!r}"
        self.batches = EvenBatches(
            at=SIZE_BYTES + layout.records_at, distance=SIZE_BYTES + size, size=layout.records_bytes, count=count
        )
        self._read, self._first, self._behind = _table_of(
            layout.records_at, layout.records_bytes, api=known.api, count=count
        )
        self._heads = (known.beginning + layout.length,) * count
        self.known = known
        self.all_bytes = count * (SIZE_BYTES + size)
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
        known = self.known
        size = SIZE.pack(known.answer_size)
        behind = known.behind_offset(NO_APPEND_TIME, log_start_offset)
        row = [0, known.answer_head, 0, behind + size]
        self._answers = [known.answer_size, *row * self.batches.count]
        self._answers[-1] = behind
        self._log_start_offset = log_start_offset


_Kind = tuple[int, bytes, int, int]  # API and version, beginning, size, how many


class ExpectedRequests:
    """What a connection may read next, going by what it has read before."""

    __slots__ = ("_last", "_seen", "_tables")

    def __init__(self) -> None:
        self._tables: dict[_Kind, EvenRequests] = {}
        self._last: EvenRequests | None = None  # that was found
        self._seen: list[_Kind] = []  # once

    def find(self, buffer: bytearray, end: int) -> EvenRequests | None:
        """What all of buffer[:end] may be, by its size and by how it begins."""
        last = self._last
        if last is not None and last.all_bytes == end and buffer.startswith(last.known.beginning, _BEGINNING_AT):
            return last
        for table in self._tables.values():
            if table.all_bytes == end and buffer.startswith(table.known.beginning, _BEGINNING_AT):
                self._last = table
                return table
        return None

    def learn(self, known: KnownProduce, frames: Sequence[Range]) -> None:
        """All of these came in one read, and were a run."""
        size, count = frames[0][1] - frames[0][0], len(frames)
        kind = (known.api, known.beginning, size, count)
        if kind in self._tables or any(end - start != size for start, end in frames):
            return
        if kind not in self._seen:
            self._seen.append(kind)
            del self._seen[:-MAX_TABLES]
            return
        self._seen.remove(kind)
        if len(self._tables) >= MAX_TABLES:
            self._tables.pop(next(iter(self._tables)))
        self._tables[kind] = EvenRequests(known, size, count)
