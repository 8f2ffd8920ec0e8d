"""What consumers of both isolation levels get from one of our logs, read batch by batch as a client does."""

from collections.abc import Iterator

from headrace.log.log import Log
from headrace.protocol.batch import BatchHeader
from headrace.protocol.records import ControlType, Record, iter_batches, read_control_type, read_records

FETCH_BYTES = 64 * 1024


def read_batches(log: Log, *, end_offset: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch from the log start offset on, in fetches of 64 KB."""
    offset = log.log_start_offset
    while True:
        data = log.read(offset, max_bytes=FETCH_BYTES, end_offset=end_offset).read()
        if not data:
            return
        end = 0
        for position, header in iter_batches(data):
            end = position + header.size_bytes
            yield header, data[position:end]
            offset = header.next_offset
        assert end == len(data), "a slice must hold whole batches"


def uncommitted_records(log: Log) -> list[Record]:
    """All data records, as a consumer with isolation.level=read_uncommitted gets them."""
    return [
        record
        for header, data in read_batches(log)
        if not header.is_control
        for record in read_records(data)
        if record.offset >= log.log_start_offset
    ]


def committed_records(log: Log) -> list[Record]:
    """The records below the last stable offset without those of aborted transactions, as clients filter them.

    A client gets the aborted transactions of its range with the data, drops a producer's transactional batches from
    the first offset of such a transaction on, and takes them again after the producer's abort marker.
    """
    end_offset = log.last_stable_offset
    waiting = sorted(log.aborted_transactions(log.log_start_offset, end_offset), key=lambda each: each.first_offset)
    aborting: set[int] = set()
    records = []
    for header, data in read_batches(log, end_offset=end_offset):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if header.is_control:
            for record in read_records(data):
                if read_control_type(record.key) == ControlType.ABORT:
                    aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            records += [record for record in read_records(data) if record.offset >= log.log_start_offset]
    return records
