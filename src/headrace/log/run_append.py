"""The quick way of several batches into the log, by one write: what a producer has sent together.

Theory. Writing a small batch costs about as much as checking it, and writing five of them at once twice as much as one.
So batches that came together are checked one by one, as `quick_append` does it, stamped one behind the other, and
written as one piece: copying small batches costs less than the system calls that it saves. What stands in the files,
and what the log knows, is the same as if they had come alone.

A run ends before the first batch that is not plain: one that is damaged, or may be refused, or needs a new segment; one
of another producer, or that is not the next in the sequence of a producer that the log knows. It, and those behind it,
are for `Log.append`, which knows what to say of them. So a run refuses nothing.

A write that fails is cut off again as a whole: nothing of the run was taken, no offset is used up, and each of its
batches may still be tried alone. There may be room for some of them.

Bounds: MAX_RUN_BYTES; how many batches are offered is the caller's.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from fastcrc.crc32 import iscsi as crc32c

from headrace.log.append import Origin
from headrace.log.appending import write_at_end
from headrace.log.producers import MAX_SEQUENCE, ProducerState
from headrace.log.quick_append import CRC_COVERS, LAST_CODEC, STAMP
from headrace.log.segment import Segment
from headrace.log.snapshots import NO_OFFSET
from headrace.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_PRODUCER_ID

if TYPE_CHECKING:
    from headrace.log.log import Log

MAX_RUN_BYTES: Final = 128 * 1024  # what is copied should stay in the processor's cache
_PLAIN: Final = Struct(">8xi4xbIHi8xqqhii").unpack_from  # all but base offset, leader epoch and first timestamp
_PRODUCER_ID: Final = Struct(">43xq").unpack_from
_CLIENT: Final = Origin.CLIENT

# Where a batch of a run stands: first and last sequence, first and last offset, timestamp, as producers remember it.
Placed = tuple[int, int, int, int, int]


def append_run(log: "Log", batches: Sequence[memoryview], leader_epoch: int) -> list[Placed]:
    """Take the first of these batches, as far as they are plain, and stamp them in place; the places of those taken.

    There may be none. Raises StorageError; nothing was taken then.
    """
    # After a batch that went the long way there may be a run; and not of what coordinators write.
    if leader_epoch != log.quick_epoch or log.quick_origin is not _CLIENT or len(batches[0]) < HEADER_SIZE:
        return []
    state = None
    (producer_id,) = _PRODUCER_ID(batches[0])
    if producer_id != NO_PRODUCER_ID:
        state = producer_that_may_go_on(log, producer_id)
        if state is None:
            return []
    placed = _place(log, batches, leader_epoch, producer_id, state)
    if placed:
        taken = batches[: len(placed)]
        segment = log.active
        position = write_at_end(log, segment, b"".join(taken))
        newest = max([timestamp for _, _, _, _, timestamp in placed])
        if segment.size - len(taken[-1]) > segment.account_behind or newest > segment.max_timestamp:
            # For most runs, nothing is to be done.
            _, _, _, last_offsets, timestamps = zip(*placed, strict=True)
            account_run(segment, position, map(len, taken), last_offsets, timestamps)
        log.log_end_offset = placed[-1][3] + 1
        if state is not None:
            state.extend(placed)
    return placed


def producer_that_may_go_on(log: "Log", producer_id: int) -> ProducerState | None:
    """None if the log does not know it, or a transaction of it is open."""
    states = log.producer_states
    state = None if states is None else states.get(producer_id)
    if state is None or state.epoch < 0 or state.transaction_first_offset != NO_OFFSET:
        return None
    return state


def _place(
    log: "Log", batches: Sequence[memoryview], leader_epoch: int, producer_id: int, state: ProducerState | None
) -> list[Placed]:
    """Check and stamp the batches up to the first that is not plain."""
    segment = log.active
    position = segment.size
    quiet_until = min(segment.quiet_until, position + MAX_RUN_BYTES)
    quiet_timestamp, max_bytes = log.quiet_timestamp, log.config.max_message_bytes
    offset = log.log_end_offset
    next_sequence = 0 if state is None else state.next_sequence
    placed: list[Placed] = []
    for batch in batches:
        size = len(batch)
        if size < HEADER_SIZE:
            break
        length, magic, crc, attributes, delta, timestamp, batch_producer_id, epoch, sequence, count = _PLAIN(batch)
        position += size
        if (
            length + LOG_OVERHEAD != size
            or magic != MAGIC
            or attributes > LAST_CODEC
            or not 0 < delta + 1 == count <= size
            or position > quiet_until
            or timestamp > quiet_timestamp
            or size > max_bytes
            or batch_producer_id != producer_id
            or crc32c(batch[CRC_COVERS]) != crc
        ):
            break
        if state is not None and (sequence != next_sequence or epoch != state.epoch):
            break
        next_sequence = (sequence + count) & MAX_SEQUENCE
        STAMP(batch, 0, offset, length, leader_epoch)
        placed.append((sequence, (sequence + delta) & MAX_SEQUENCE, offset, offset + delta, timestamp))
        offset += count
    return placed


def account_run(
    segment: Segment, position: int, sizes: Iterable[int], last_offsets: Iterable[int], timestamps: Iterable[int]
) -> None:
    """Take batches that were written from `position` on into the indexes."""
    for size, last_offset, timestamp in zip(sizes, last_offsets, timestamps, strict=True):
        if position > segment.account_behind:
            segment.account(position, last_offset, timestamp)
        elif timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        position += size
