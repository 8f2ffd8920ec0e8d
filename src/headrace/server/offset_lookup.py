"""From a point in time, or a word for one, to an offset: what ListOffsets asks of a partition."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from headrace.log.lookup import TimestampOffset
from headrace.server.partition import Partition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3  # the record with the largest timestamp
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# The words, and the version of ListOffsets that brought each.
KNOWN_SINCE: Final[Mapping[int, int]] = MappingProxyType(
    {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
)

_NO_TIMESTAMP: Final = -1
_NO_OFFSET: Final = -1
_NO_EPOCH: Final = -1
NOT_FOUND: Final = TimestampOffset(_NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH)


def look_up(partition: Partition, timestamp: int, *, end_offset: int) -> TimestampOffset:
    """The first record at or after `timestamp`, or where the word points, below `end_offset`. Raises LOG_ERRORS."""
    log = partition.log
    if timestamp == LATEST:
        return TimestampOffset(_NO_TIMESTAMP, end_offset, _known(log.epochs.latest_epoch))
    if timestamp in (EARLIEST, EARLIEST_LOCAL):  # nothing lies anywhere but here
        start = log.log_start_offset
        return TimestampOffset(_NO_TIMESTAMP, start, _known(log.epochs.epoch_at(start)))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_timestamp(timestamp)
    return NOT_FOUND if found is None or found.offset >= end_offset else found


def _known(epoch: int | None) -> int:
    return _NO_EPOCH if epoch is None else epoch
