"""Segments and metadata snapshots: row after row of batches, and the records inside them when asked.

A file is read batch by batch, so memory is bounded by the largest batch, and that by a limit. Nothing in a header is
believed before it was checked against the file.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from fastcrc.crc32 import iscsi as crc32c

from headrace.log.fs import File, FileSystem
from headrace.log.inspect.rows import BatchRow, DamagedFileError, Decoded, RecordRow
from headrace.protocol.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, check_header, read_header
from headrace.protocol.compression import Codec
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import Record, read_records

RecordDecoder: TypeAlias = Callable[[BatchHeader, Record], Decoded | None]

# Larger ones are shown without their records and without a look at their CRC. Kafka's own limit for a batch is 1 MiB by
# default; whoever raised it a hundredfold still sees all.
MAX_BATCH_BYTES: Final = 128 * 1024 * 1024


def read_segment(
    fs: FileSystem, path: str, *, decoder: RecordDecoder | None = None, with_records: bool = True
) -> Iterator[BatchRow | RecordRow]:
    """Each batch, followed by its records. Raises DamagedFileError where the file breaks."""
    file = fs.open(path, read_only=True)
    try:
        position = 0
        next_offset = 0
        while position < file.size:
            header = _read_header(file, path, position)
            if header.base_offset < next_offset:
                raise DamagedFileError(
                    path, f"a batch at offset {header.base_offset}, after offset {next_offset - 1}", position=position
                )
            yield from _read_batch(file, path, position, header, decoder, with_records)
            position += header.size_bytes
            next_offset = header.next_offset
    finally:
        file.close()


def last_offset_of(fs: FileSystem, path: str, *, start: int = 0) -> int | None:
    """The last offset in a segment, from its batch headers from byte `start` on; None if there is no batch."""
    file = fs.open(path, read_only=True)
    try:
        position = start
        last_offset = None
        while position < file.size:
            header = _read_header(file, path, position)
            last_offset = header.last_offset
            position += header.size_bytes
        return last_offset
    finally:
        file.close()


def _read_header(file: File, path: str, position: int) -> BatchHeader:
    """The header at `position`, after a check of what it says about its own size."""
    left = file.size - position
    if left < HEADER_SIZE:
        raise DamagedFileError(path, f"{left} bytes left, a batch header has {HEADER_SIZE}", position=position)
    header = read_header(file.read(position, HEADER_SIZE))
    if header.magic != MAGIC:
        raise DamagedFileError(
            path, f"no batch begins here (magic {header.magic}, only {MAGIC} is known)", position=position
        )
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise DamagedFileError(path, f"a batch length of {header.batch_length}", position=position)
    if header.size_bytes > left:
        raise DamagedFileError(path, f"a batch of {header.size_bytes} bytes, {left} are left", position=position)
    return header


def _read_batch(
    file: File, path: str, position: int, header: BatchHeader, decoder: RecordDecoder | None, with_records: bool
) -> Iterator[BatchRow | RecordRow]:
    if header.size_bytes > MAX_BATCH_BYTES:
        yield _batch_row(position, header, crc_ok=None)
        return
    data = file.read(position, header.size_bytes)
    actual = crc32c(memoryview(data)[CRC_START:])
    yield _batch_row(position, header, crc_ok=actual == header.crc)
    if actual != header.crc:
        reason = f"the batch has CRC {actual:#010x}, its header says {header.crc:#010x}"
        raise DamagedFileError(path, reason, position=position)
    try:
        if with_records:
            for record in read_records(data):
                decoded = decoder(header, record) if decoder is not None else None
                yield RecordRow(*record, decoded)
        else:
            check_header(data)
    except CorruptBatchError as error:
        raise DamagedFileError(path, f"inside the batch, {error}", position=position) from None


def _batch_row(position: int, header: BatchHeader, *, crc_ok: bool | None) -> BatchRow:
    codec = header.codec
    return BatchRow(
        position=position,
        size_bytes=header.size_bytes,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        record_count=header.record_count,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        codec=Codec(codec).name.lower() if codec <= max(Codec) else str(codec),
        timestamp_type="LogAppendTime" if header.is_log_append_time else "CreateTime",
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
        crc=header.crc,
        crc_ok=crc_ok,
    )
