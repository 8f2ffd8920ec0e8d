"""What can go wrong with a log, by who has to act.

A client caused it (`RefusedBatchError` and below, `OffsetOutOfRangeError`): the caller answers with Kafka's error code.
The disk caused it (`StorageError`): the caller answers KAFKA_STORAGE_ERROR, and an operator must look.
A file is damaged (`CorruptFileError` and below): whoever opened it rebuilds it from the log and goes on.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

# They pass by themselves, or by what an operator does meanwhile: room on the disk, or descriptors for files.
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
_PASSING: Final = _NO_DESCRIPTOR | {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def is_passing(error: BaseException | None) -> bool:
    """Is it, or was it caused by, a lack of room? Then the same may succeed later; no file is damaged."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _PASSING:
            return True
        error = error.__cause__
    return False


def is_without_descriptor(error: OSError) -> bool:
    """Could a file not even be opened? No sync says so: what was to be synced is in no doubt."""
    return error.errno in _NO_DESCRIPTOR


class LogError(Exception):
    """Anything below."""


class StorageError(LogError):
    """The file system failed. The message says what the log still does and what an operator should do."""


@contextmanager
def reading(what: str, directory: str) -> Iterator[None]:
    """A read that fails is an error of whoever asked for it, and of nobody else. Raises StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"reading {what} of {directory} failed: {error}") from error


class LockedError(LogError):
    """Another process works in this directory."""


class OffsetOutOfRangeError(LogError):
    """An offset that the log does not hold: before its start, or after its end."""

    def __init__(self, offset: int, *, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside {log_start_offset}..{log_end_offset}")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class RecordFault(NamedTuple):
    """What is wrong with one record of a batch."""

    place: int  # within the batch
    reason: str


class RefusedBatchError(LogError):
    """A batch that the log does not take. Nothing was written."""

    def __init__(self, reason: str, faults: Sequence[RecordFault] = ()) -> None:
        super().__init__(reason)
        self.faults = faults  # of its records, if it was for their sake; perhaps not all of them


class InvalidRecordError(RefusedBatchError):
    """A batch that is whole, but may not stand in this log: wrong counts, a client's control batch, a missing key."""


class InvalidTimestampError(RefusedBatchError):
    """A timestamp too far from the broker's clock for this topic."""


class MessageTooLargeError(RefusedBatchError):
    """A batch above `max.message.bytes`."""


class RecordListTooLargeError(RefusedBatchError):
    """Batches that together do not fit into one segment."""


class UnexpectedOffsetError(RefusedBatchError):
    """Replicated batches that do not continue this log."""


class OutOfOrderSequenceError(RefusedBatchError):
    """A batch of an idempotent producer, while one before it is missing."""


class InvalidProducerEpochError(RefusedBatchError):
    """A batch or marker of a producer that has a newer epoch: a zombie."""


class InvalidTransactionStateError(RefusedBatchError):
    """A batch outside a transaction of a producer that has one open."""


class CoordinatorFencedError(RefusedBatchError):
    """A marker of a transaction coordinator that has been replaced."""


class CorruptFileError(LogError):
    """A file beside the log whose content cannot be right."""


class CorruptIndexError(CorruptFileError):
    """An offset, time or transaction index."""


class CorruptSnapshotError(CorruptFileError):
    """A producer snapshot."""


class CorruptCheckpointError(CorruptFileError):
    """One of the small text files: leader epochs, offset checkpoints, properties."""
