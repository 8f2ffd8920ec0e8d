"""The quickest way of several batches into the log: those of one size and one shape, which lie at equal distances.

Theory. A producer of small records of one kind sends batches that differ in their content only: of one size, with as
many records each. In what was received they lie like the rows of a table, and one `Struct` reads a column of all of
them as quickly as a loop reads one of them. So they are checked column by column, and stamped and written as one piece.

They are taken all together or not at all: a batch among them that is not plain, and the least that sets one apart from
the others, is for `run_append`, which takes them one by one and says how far it has come. So nothing is refused here,
either, and what stands in the files, and what the log knows, is the same as if they had come alone.

Bounds: MAX_RUN_BYTES. TABLES layouts are remembered by all logs together, one for each distance, size and count.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from headrace.log.append import Origin
from headrace.log.appending import write_at_end
from headrace.log.producers import MAX_SEQUENCE, ProducerState
from headrace.log.quick_append import LAST_CODEC
from headrace.log.run_append import MAX_RUN_BYTES, account_run, producer_that_may_go_on
from headrace.protocol.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_PRODUCER_ID

if TYPE_CHECKING:
    from headrace.log.log import Log

TABLES: Final = 256
_ROW: Final = "q9sI{checked}s"  # base offset; length, leader epoch and magic; CRC; all that the CRC covers
_ROW_COLUMNS: Final = 4
_HEADER: Final = "21x6s8xq18s"  # shape; largest timestamp; producer
_HEADER_COLUMNS: Final = 3
_BEGINNING: Final = Struct(">iiB")  # length, leader epoch, magic
_SHAPE: Final = Struct(">Hi").unpack  # attributes, delta of the last offset
_PRODUCER: Final = Struct(">qhii")  # its id and epoch, first sequence, count
_CLIENT: Final = Origin.CLIENT


class _Table(NamedTuple):
    """How so many batches of one size are read, and written, at once."""

    rows: Callable[[bytearray, int], tuple[Any, ...]]
    headers: Callable[[bytearray, int], tuple[Any, ...]]
    stamped: Callable[..., bytes]


@lru_cache(TABLES)
def _table_of(distance: int, size: int, count: int) -> _Table:
    def table(fields: str, gap: int) -> Struct:
        return Struct(">" + f"{fields}{gap}x" * (count - 1) + fields)

    row = _ROW.format(checked=size - CRC_START)
    return _Table(
        table(row, distance - size).unpack_from, table(_HEADER, distance - HEADER_SIZE).unpack_from, table(row, 0).pack
    )


class EvenBatches:
    """Where `count` batches of `size` bytes are in a buffer, and what stood in the last ones that were plain.

    Batches like those need no further look at what they have in common.
    """

    __slots__ = (
        "_leader_epoch",
        "_stamps",
        "at",
        "beginnings",
        "count",
        "delta",
        "producers",
        "shapes",
        "size",
        "size_bytes",
        "table",
    )

    def __init__(self, *, at: int, distance: int, size: int, count: int) -> None:
        """The first one is at `at`, each other one `distance` bytes behind the one before."""
        self.at = at
        self.size = size
        self.count = count
        self.size_bytes = size * count  # of all of them
        assert self.size_bytes <= MAX_RUN_BYTES, f"{count} batches of {size} bytes, {MAX_RUN_BYTES} bytes go together"
        self.table = _table_of(distance, size, count)
        self.beginnings: list[bytes] = []
        self.shapes: tuple[bytes, ...] = ()
        self.producers: tuple[bytes, ...] = ()  # as they stand where there is none; empty if there was one
        self.delta = 0
        self._stamps: list[bytes] = []
        self._leader_epoch: int | None = None  # of the stamps

    def expect(self, beginning: bytes, shape: bytes, producer: bytes) -> None:
        """All like this one, if it is plain."""
        length, _, magic = _BEGINNING.unpack(beginning)
        attributes, delta = _SHAPE(shape)
        producer_id, _, _, records = _PRODUCER.unpack(producer)
        if (
            length + LOG_OVERHEAD == self.size
            and magic == MAGIC
            and attributes <= LAST_CODEC
            and 0 < delta + 1 == records <= self.size
        ):
            self.beginnings = [beginning] * self.count
            self.shapes = (shape,) * self.count
            self.producers = (producer,) * self.count if producer_id == NO_PRODUCER_ID else ()
            self.delta = delta

    def stamps(self, leader_epoch: int) -> list[bytes]:
        """Their beginnings in the log."""
        if leader_epoch != self._leader_epoch:
            self._leader_epoch = leader_epoch
            self._stamps = [_BEGINNING.pack(self.size - LOG_OVERHEAD, leader_epoch, MAGIC)] * self.count
        return self._stamps


def append_even(log: "Log", buffer: bytearray, batches: EvenBatches, leader_epoch: int) -> range | None:
    """Take all of these batches: their base offsets. None if they are not plain and alike; then nothing was taken.

    Raises StorageError; nothing was taken then, either.
    """
    segment = log.active
    if (
        leader_epoch != log.quick_epoch
        or log.quick_origin is not _CLIENT
        or segment.size + batches.size_bytes > segment.quiet_until
        or batches.size > log.config.max_message_bytes
    ):
        return None
    read_rows, read_headers, stamped = batches.table
    headers = read_headers(buffer, batches.at)
    rows = [*read_rows(buffer, batches.at)]
    timestamps = headers[1::_HEADER_COLUMNS]
    newest = max(timestamps)
    if newest > log.quiet_timestamp or [*map(crc32c, rows[3::_ROW_COLUMNS])] != rows[2::_ROW_COLUMNS]:
        return None
    if not _are_expected(batches, rows, headers):
        batches.expect(rows[1], headers[0], headers[2])
        if not _are_expected(batches, rows, headers):
            return None
    count, delta = batches.count, batches.delta
    producers = headers[2::_HEADER_COLUMNS]
    state = None
    if producers != batches.producers:
        state = _producer_that_goes_on(log, producers, delta + 1)
        if state is None:
            batches.expect(rows[1], headers[0], headers[2])  # there may be no producer any more
            if producers != batches.producers:
                return None
    offset = log.log_end_offset
    offsets = range(offset, offset + count * (delta + 1), delta + 1)
    rows[0::_ROW_COLUMNS] = offsets
    rows[1::_ROW_COLUMNS] = batches.stamps(leader_epoch)
    position = write_at_end(log, segment, stamped(*rows))
    if segment.size - batches.size > segment.account_behind:
        account_run(segment, position, (batches.size,) * count, [each + delta for each in offsets], timestamps)
    elif newest > segment.max_timestamp:
        segment.max_timestamp = newest
        segment.max_timestamp_offset = offsets[timestamps.index(newest)] + delta
    log.log_end_offset = offsets.stop
    if state is not None:
        _extend(state, offsets, delta, timestamps)
    return offsets


def _are_expected(batches: EvenBatches, rows: list[Any], headers: tuple[Any, ...]) -> bool:
    return headers[0::_HEADER_COLUMNS] == batches.shapes and rows[1::_ROW_COLUMNS] == batches.beginnings


def _producer_that_goes_on(log: "Log", producers: tuple[bytes, ...], records: int) -> ProducerState | None:
    """Whose next batches these are, with so many records each. None if they are not, and if there is no producer."""
    producer_id, epoch, _, _ = _PRODUCER.unpack(producers[0])
    state = producer_that_may_go_on(log, producer_id)
    if state is None or epoch != state.epoch:
        return None
    end = state.next_sequence + len(producers) * records
    if end > MAX_SEQUENCE:  # behind the last one comes 0: that is for those who count one by one
        return None
    sequences = range(state.next_sequence, end, records)
    expected = [_PRODUCER.pack(producer_id, epoch, sequence, records) for sequence in sequences]
    return state if (*expected,) == producers else None


def _extend(state: ProducerState, offsets: range, delta: int, timestamps: Sequence[int]) -> None:
    sequence = state.next_sequence - offsets.start
    state.extend(
        [
            (sequence + offset, sequence + offset + delta, offset, offset + delta, timestamp)
            for offset, timestamp in zip(offsets, timestamps, strict=True)
        ]
    )
