"""What an inspector shows: one small tuple for each thing in a file, and the error for the place where a file breaks.

Rows hold plain values (numbers, text, raw bytes), so that a command can print them as a table or as JSON. `kind_of`
names a row; field names are those of the file format, with units.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.log.errors import CorruptFileError
from headrace.protocol.records import Headers


class DamagedFileError(CorruptFileError):
    """A file that cannot be read beyond `position`; everything before it was shown."""

    def __init__(self, path: str, reason: str, *, position: int) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path = path
        self.reason = reason
        self.position = position


class BatchRow(NamedTuple):
    """One record batch of a segment or a metadata snapshot."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    record_count: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    codec: str
    timestamp_type: str
    base_timestamp: int
    max_timestamp: int
    transactional: bool
    control: bool
    delete_horizon_ms: int | None
    crc: int
    crc_ok: bool | None  # None: the batch is too large to be looked into


class Decoded(NamedTuple):
    """What a record of an internal topic says. `version` is the value's; None for a tombstone."""

    type: str
    version: int | None
    key: Mapping[str, Any] | None
    value: Mapping[str, Any] | None
    error: str | None = None


class RecordRow(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    decoded: Decoded | None


class OffsetEntryRow(NamedTuple):
    """An entry of an offset index: the batch that ends with `offset` begins at `position` of the segment."""

    offset: int
    position: int


class TimeEntryRow(NamedTuple):
    """An entry of a time index: `timestamp` is the largest up to and including the batch that ends with `offset`."""

    timestamp: int
    offset: int


class PreallocatedRow(NamedTuple):
    """The zero bytes that Kafka keeps at the end of the index of an active segment."""

    position: int
    size_bytes: int


class AbortedRow(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerRow(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


class EpochRow(NamedTuple):
    epoch: int
    start_offset: int


class OffsetRow(NamedTuple):
    """A line of one of the four offset checkpoints."""

    topic: str
    partition: int
    offset: int


class PropertyRow(NamedTuple):
    name: str
    value: Any


class PartitionRow(NamedTuple):
    """One partition of a log directory; None where a file that would say it is missing or damaged."""

    directory: str
    topic_id: str | None
    segments: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int | None
    high_watermark: int | None
    recovery_point: int | None
    leader_epoch: int | None


Row: TypeAlias = (
    BatchRow
    | RecordRow
    | OffsetEntryRow
    | TimeEntryRow
    | PreallocatedRow
    | AbortedRow
    | ProducerRow
    | EpochRow
    | OffsetRow
    | PropertyRow
    | PartitionRow
)

_KINDS: Final[Mapping[type, str]] = {
    BatchRow: "batch",
    RecordRow: "record",
    OffsetEntryRow: "offset_entry",
    TimeEntryRow: "time_entry",
    PreallocatedRow: "preallocated",
    AbortedRow: "aborted_transaction",
    ProducerRow: "producer",
    EpochRow: "leader_epoch",
    OffsetRow: "offset",
    PropertyRow: "property",
    PartitionRow: "partition",
}


def kind_of(row: Row) -> str:
    """What a row is, in one word for programs."""
    return _KINDS[type(row)]
