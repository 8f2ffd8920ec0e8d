"""The quick way of a batch into the log: one batch with data, and little to do but write it.

Nearly all appends are of this kind, and each microsecond of them is felt: a header is unpacked once, a few comparisons
tell that nothing unusual is asked for, and then come the CRC, the stamp and the write. All else goes the long way
(`appending`), which after a batch that it has found ordinary allows the next ones to be quick.
"""

from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from fastcrc.crc32 import iscsi as crc32c

from headrace.log.append import NO_APPEND_TIME, AppendResult, Origin, check_size, check_timestamp
from headrace.log.appending import append_any, append_failed, append_rest, duplicate_result
from headrace.protocol.batch import (
    CRC_START,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    unpack_header,
)
from headrace.protocol.errors import CorruptBatchError

if TYPE_CHECKING:
    from headrace.log.log import Log

_QUICK: Final = Struct(">8xi4xbIHi8xqq6xi").unpack_from  # what the quick way needs of a header
STAMP: Final = Struct(">qii").pack_into  # base offset, batch length, leader epoch
CRC_COVERS: Final = slice(CRC_START, None)
LAST_CODEC: Final = 4
_NOT_TRANSACTIONAL: Final = 0xFFFF ^ TRANSACTIONAL_FLAG
_CLIENT: Final = Origin.CLIENT


def append_quickly(
    log: "Log",
    batches: bytearray | memoryview,
    *,
    leader_epoch: int,
    now_ms: int,
    origin: Origin = _CLIENT,
    transaction_version: int = 0,
) -> AppendResult:
    """Take one or more batches, and stamp them in place. Replicated ones keep their offsets and epochs.

    Raises CorruptBatchError, RefusedBatchError (nothing was written) or StorageError.
    """
    try:
        length, magic, crc, attributes, delta, max_timestamp, producer_id, count = _QUICK(batches)
    except struct_error:
        raise CorruptBatchError(f"{len(batches)} bytes are not a batch") from None
    size = length + LOG_OVERHEAD
    # The quick way: one batch with data, and little to do but write it. All else goes the long way.
    if (
        len(batches) != size
        or leader_epoch != log.quick_epoch
        or magic != MAGIC
        or attributes & _NOT_TRANSACTIONAL > LAST_CODEC
        or not 0 < delta + 1 == count <= size
        or origin is not log.quick_origin
    ):
        return append_any(log, memoryview(batches), leader_epoch, now_ms, origin, transaction_version)
    if crc32c(batches[CRC_COVERS]) != crc:
        raise CorruptBatchError(f"CRC {crc:#010x} in the header of a batch does not match its content")
    header = None
    if producer_id != NO_PRODUCER_ID:
        header = unpack_header(batches)
        if producer_id < 0 or header[10] < 0 or header[11] < 0:
            return append_any(log, memoryview(batches), leader_epoch, now_ms, origin, transaction_version)
        duplicate = log.producers.check(header)
        if duplicate is not None:
            return duplicate_result(duplicate, log.config)
    base_offset = log.log_end_offset
    last_offset = base_offset + delta
    segment = log.active
    position = segment.size
    end = position + size
    config = log.config
    if end > segment.quiet_until or max_timestamp > log.quiet_timestamp or size > config.max_message_bytes:
        check_size(size, config)
        check_timestamp(max_timestamp, now_ms, config, batches)
        segment = log.segment_for(size, base_offset, last_offset, max_timestamp, now_ms)
        position = segment.size
        end = position + size
    STAMP(batches, 0, base_offset, length, leader_epoch)
    write, handle = segment.writer
    try:
        written = write(handle, batches)
    except OSError as error:
        raise append_failed(log, segment, error) from error
    if written != size:
        append_rest(log, segment, batches[written:])
    segment.size = end
    if position > segment.account_behind:
        segment.account(position, last_offset, max_timestamp)
    elif max_timestamp > segment.max_timestamp:
        segment.max_timestamp = max_timestamp
        segment.max_timestamp_offset = last_offset
    log.log_end_offset = base_offset + count
    if header is not None:
        log.producers.apply(header, base_offset, max_timestamp)
    return AppendResult((base_offset, last_offset, max_timestamp, NO_APPEND_TIME, False))
