"""What a log checks before it takes batches: pure functions over the received bytes.

Who appends decides what is believed. A client's batch is checked as Kafka does, from the header; the records are opened
only where the topic asks for it (keys of a compacted topic, a limit on old timestamps) or the header is too good to be
true. A coordinator is part of this broker, and may write control batches. What comes by replication was accepted by the
leader already: it must be undamaged and continue the log, nothing more.
"""

from collections.abc import Iterator
from enum import Enum
from itertools import islice
from operator import itemgetter
from struct import Struct
from typing import Final, TypeAlias

from fastcrc.crc32 import iscsi as crc32c

from headrace.log.config import UNLIMITED, LogConfig, TimestampType
from headrace.log.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    RecordFault,
    RecordListTooLargeError,
    UnexpectedOffsetError,
)
from headrace.log.fs import Buffer
from headrace.log.scan import RawHeader
from headrace.protocol.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAX_INT64,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    stamp,
    unpack_header,
    verify,
    write_crc,
)
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import Record, read_payload, read_records

NO_APPEND_TIME: Final = -1
# Opening one takes some microseconds, for which everybody waits. No client sends more: librdkafka's
# `batch.num.messages` goes up to this, and others count in kilobytes.
MAX_OPENED_RECORDS: Final = 1_000_000
MAX_RECORDS_BLAMED: Final = 10_000  # of a batch that is refused by its header: how many are opened to say which ones
MAX_FAULTS_TOLD: Final = 1000  # of one batch; a client takes the others for victims
_LAST_CODEC: Final = 4
_ATTRIBUTES: Final = Struct(">h")
_ATTRIBUTES_AT: Final = 21
_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


class Origin(Enum):
    CLIENT = "client"
    REPLICATION = "replication"
    COORDINATOR = "coordinator"


class AppendResult(tuple[int, int, int, int, bool]):
    """Where the batches stand now; for a `duplicate`, where they have stood since the first time.

    A NamedTuple but for its constructor, which takes one tuple: its call would be a tenth of the quick append.
    """

    __slots__ = ()

    base_offset: int = property(itemgetter(0))  # type: ignore[assignment]
    last_offset: int = property(itemgetter(1))  # type: ignore[assignment]
    max_timestamp: int = property(itemgetter(2))  # type: ignore[assignment]
    log_append_time_ms: int = property(itemgetter(3))  # type: ignore[assignment]  # -1 under CreateTime
    duplicate: bool = property(itemgetter(4))  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"AppendResult(base_offset={self[0]}, last_offset={self[1]}, max_timestamp={self[2]}, "
            f"log_append_time_ms={self[3]}, duplicate={self[4]})"
        )


# A batch in the buffer of the request, undamaged: where it begins, where it ends, its header.
Incoming: TypeAlias = tuple[int, int, RawHeader]


def split(view: memoryview, *, is_cut_anywhere: bool) -> list[Incoming]:
    """The batches in `view`. Raises CorruptBatchError; a part of a batch at the end is none if it may be there."""
    batches = []
    position, size = 0, len(view)
    while position < size:
        if size - position < HEADER_SIZE:
            if is_cut_anywhere:
                break
            verify(view, position)  # which raises, with the reason
        header = unpack_header(view, position)
        end = position + LOG_OVERHEAD + header[1]
        if is_cut_anywhere and end > size:
            break
        is_sound = (
            header[3] == MAGIC
            and position + HEADER_SIZE <= end <= size
            and 0 <= header[6] <= MAX_INT64 - header[0]
            and 0 <= header[12] <= header[6] + 1
        )
        if not is_sound or crc32c(view[position + CRC_START : end]) != header[4]:
            verify(view, position)
        batches.append((position, end, header))
        position = end
    return batches


def check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        raise MessageTooLargeError(
            f"a batch of {size} bytes, max.message.bytes is {config.max_message_bytes}. "
            "Send smaller batches, or raise the topic's limit."
        )
    _check_fits(size, config)


def _check_fits(size: int, config: LogConfig) -> None:
    if size > config.segment_bytes:
        raise RecordListTooLargeError(f"{size} bytes in one request, segment.bytes is {config.segment_bytes}")


def check_timestamp(timestamp: int, now_ms: int, config: LogConfig, batch: Buffer) -> None:
    """Raises InvalidTimestampError if a producer's clock is too far ahead, as the batch's largest timestamp tells."""
    if timestamp - now_ms > config.message_timestamp_after_max_ms:
        faults, _ = _find_faults(islice(read_records(batch), MAX_RECORDS_BLAMED), config, now_ms)
        raise InvalidTimestampError(_too_new(timestamp, now_ms, config), faults)


def check_incoming(
    view: memoryview, batches: list[Incoming], config: LogConfig, *, origin: Origin, now_ms: int
) -> None:
    """May these batches stand in the log? Raises RefusedBatchError, and CorruptBatchError if there are none."""
    if not batches:
        raise CorruptBatchError("an append without a batch")
    for start, end, header in batches:
        check_size(end - start, config)
        if origin is Origin.CLIENT:
            _check_client_header(header)
            _check_records(view[start:end], header, config, now_ms)
        if not is_append_time(config):
            check_timestamp(header[8], now_ms, config, view[start:end])
    if origin is Origin.CLIENT and len(batches) > 1 and any(header[9] != NO_PRODUCER_ID for _, _, header in batches):
        # Their sequences are checked against what is stored, not against one another.
        raise InvalidRecordError(f"{len(batches)} batches with producer ids in one request; there may be one")
    _check_fits(batches[-1][1] - batches[0][0], config)


def _check_client_header(header: RawHeader) -> None:
    """Raises InvalidRecordError or InvalidTimestampError for what no client may send."""
    _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, sequence, count = header
    if attributes & CONTROL_FLAG:
        raise InvalidRecordError("a control batch of a client; only the broker writes them")
    if count <= 0 or count != delta + 1:
        raise InvalidRecordError(f"{count} records with last offset delta {delta}; a new batch has no gaps")
    if attributes & CODEC_MASK > _LAST_CODEC:
        raise InvalidRecordError(f"codec {attributes & CODEC_MASK}, only 0 to {_LAST_CODEC} are known")
    if attributes & LOG_APPEND_TIME_FLAG:
        raise InvalidTimestampError("a producer cannot claim LogAppendTime; that is the broker's to set")
    if producer_id != NO_PRODUCER_ID and (producer_id < 0 or epoch < 0 or sequence < 0):
        raise InvalidRecordError(f"producer {producer_id} with epoch {epoch} and sequence {sequence}")


def _check_records(batch: memoryview, header: RawHeader, config: LogConfig, now_ms: int) -> None:
    """Open the records where the header alone does not tell enough. Raises RefusedBatchError, CorruptBatchError."""
    if not _asks_for_records(config):
        # A record has 7 bytes or more. Where there are more records than bytes, only decompressing shows if it is true.
        if header[12] > len(batch):
            read_payload(batch, 0, BatchHeader(*header))
        return
    if header[12] > MAX_OPENED_RECORDS:
        raise InvalidRecordError(
            f"{header[12]} records in one batch; a topic whose records the broker looks at takes {MAX_OPENED_RECORDS}"
        )
    faults, is_about_time = _find_faults(read_records(batch), config, now_ms)
    if faults:
        # As in Kafka, one wrong timestamp counts for more than any number of missing keys.
        refusal = InvalidTimestampError if is_about_time else InvalidRecordError
        others = f" ({len(faults) - 1} other records are refused, too)" if len(faults) > 1 else ""
        raise refusal(faults[0].reason + others, faults)


def _find_faults(records: Iterator[Record], config: LogConfig, now_ms: int) -> tuple[list[RecordFault], bool]:
    """What is wrong with each of the records, and whether any of their timestamps is."""
    if is_append_time(config):
        oldest_ms, newest_ms = NO_TIMESTAMP, MAX_INT64
    else:
        oldest_ms = now_ms - config.message_timestamp_before_max_ms
        newest_ms = now_ms + config.message_timestamp_after_max_ms
    needs_key = config.is_compacted
    faults: list[RecordFault] = []
    is_about_time = False
    for index, record in enumerate(records):
        if needs_key and record.key is None:
            faults.append(RecordFault(index, "a record without a key in a compacted topic"))
        elif not oldest_ms <= record.timestamp <= newest_ms and record.timestamp != NO_TIMESTAMP:
            is_about_time = True
            reason = _too_old if record.timestamp < oldest_ms else _too_new
            faults.append(RecordFault(index, reason(record.timestamp, now_ms, config)))
        if len(faults) >= MAX_FAULTS_TOLD:
            break
    return faults, is_about_time


def _too_old(timestamp: int, now_ms: int, config: LogConfig) -> str:
    return (
        f"timestamp {timestamp} is {now_ms - timestamp} ms behind the broker's clock, "
        f"message.timestamp.before.max.ms is {config.message_timestamp_before_max_ms}"
    )


def _too_new(timestamp: int, now_ms: int, config: LogConfig) -> str:
    return (
        f"timestamp {timestamp} is {timestamp - now_ms} ms ahead of the broker's clock, "
        f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}"
    )


def _asks_for_records(config: LogConfig) -> bool:
    """Does a topic with this config want to know what headers do not tell: keys, or the oldest timestamp?"""
    limits_age = config.message_timestamp_before_max_ms != UNLIMITED and not is_append_time(config)
    return limits_age or config.is_compacted


def quick_origin(config: LogConfig) -> Origin | None:
    """Whose batches a topic with this config can take by their headers alone.

    In a compacted topic records must have keys, which only those of a coordinator have for sure.
    """
    if config.message_timestamp_before_max_ms != UNLIMITED or is_append_time(config):
        return None
    return Origin.COORDINATOR if config.is_compacted else Origin.CLIENT


def is_append_time(config: LogConfig) -> bool:
    return config.message_timestamp_type is TimestampType.LOG_APPEND_TIME


def place(view: memoryview, batch: Incoming, base_offset: int, leader_epoch: int, append_time_ms: int) -> Incoming:
    """Stamp the batch with its place in the log and, if given, the broker's clock. The batch as it is then."""
    start, end, header = batch
    if append_time_ms != NO_APPEND_TIME:
        _ATTRIBUTES.pack_into(view, start + _ATTRIBUTES_AT, header[5] | LOG_APPEND_TIME_FLAG)
        _TIMESTAMP.pack_into(view, start + _MAX_TIMESTAMP_AT, append_time_ms)
        write_crc(view, start, end)
    stamp(view, start, base_offset=base_offset, leader_epoch=leader_epoch)
    return start, end, unpack_header(view, start)


def check_continues(batches: list[Incoming], log_end_offset: int) -> None:
    """Raises UnexpectedOffsetError unless replicated batches continue the log. Gaps are where compaction was."""
    expected = log_end_offset
    for _, _, header in batches:
        base_offset = header[0]
        if base_offset < expected:
            raise UnexpectedOffsetError(
                f"replicated batch at offset {base_offset}, expected {expected} or later: truncate to the leader first"
            )
        expected = base_offset + header[6] + 1


def runs_that_fit(batches: list[Incoming], segment_bytes: int) -> Iterator[list[Incoming]]:
    """Batches in runs that each fit into a segment. One that is larger by itself goes alone: the leader has it, too."""
    run: list[Incoming] = []
    for batch in batches:
        if run and batch[1] - run[0][0] > segment_bytes:
            yield run
            run = []
        run.append(batch)
    if run:
        yield run
