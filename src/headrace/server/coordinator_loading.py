"""What a coordinator wrote, replayed into a new shard, some records at a time."""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from headrace.coordinator.result import NO_PRODUCER_ID, Producer
from headrace.log.log import Log
from headrace.protocol.apis import RecordType
from headrace.protocol.batch import BatchHeader
from headrace.protocol.errors import DecodeError
from headrace.protocol.internal_records import decode_coordinator_record
from headrace.protocol.records import ControlType, iter_batches, read_control_type, read_records

if TYPE_CHECKING:
    from headrace.server.coordinator_place import Shard

_LOG: Final = logging.getLogger(__name__)
_READ_BYTES: Final = 256 * 1024


def replay_log(log: Log, types: Mapping[int, RecordType], shard: "Shard") -> Iterator[int]:
    """Replay all of the log, batch by batch; each time the number of records. Raises LOG_ERRORS, OSError.

    Meanwhile the log may grow: whoever ends a transaction writes a marker, and does not wait for the shard.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=_READ_BYTES).read()
        if not data:
            return
        for position, header in iter_batches(data):
            yield _replay_batch(data, position, header, types, shard)
            offset = header.next_offset


def _replay_batch(
    data: bytes, position: int, header: BatchHeader, types: Mapping[int, RecordType], shard: "Shard"
) -> int:
    if header.is_control:
        for record in read_records(data, position):
            control_type = read_control_type(record.key)
            if control_type in (ControlType.COMMIT, ControlType.ABORT):
                producer = Producer(header.producer_id, header.producer_epoch)
                shard.replay_end(producer, committed=control_type == ControlType.COMMIT)
        return 1
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    for record in read_records(data, position):
        try:
            shard.replay(decode_coordinator_record(types, record.key, record.value), producer_id=producer_id)
        except DecodeError as error:
            # A newer version may have written what this one does not know; the rest still holds.
            _LOG.warning("a record at offset %d is not understood, and ignored: %s", record.offset, error)
    return header.record_count
