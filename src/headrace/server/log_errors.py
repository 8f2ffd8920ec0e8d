"""What clients are told when the log does not do what they asked: one table from the log's errors to Kafka's codes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from headrace.log.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTransactionStateError,
    LogError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordListTooLargeError,
    StorageError,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import CorruptBatchError


class NotEnoughReplicasError(LogError):
    """A write with acks=all, while fewer replicas are in sync than the topic demands. Nothing was written."""


# What to catch around a log. All else is a bug.
LOG_ERRORS: Final = (LogError, CorruptBatchError)

_CODES: Final[Mapping[type[Exception], ErrorCode]] = MappingProxyType(
    {
        CoordinatorFencedError: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        CorruptBatchError: ErrorCode.CORRUPT_MESSAGE,
        InvalidProducerEpochError: ErrorCode.INVALID_PRODUCER_EPOCH,
        InvalidRecordError: ErrorCode.INVALID_RECORD,
        InvalidTimestampError: ErrorCode.INVALID_TIMESTAMP,
        InvalidTransactionStateError: ErrorCode.INVALID_TXN_STATE,
        MessageTooLargeError: ErrorCode.MESSAGE_TOO_LARGE,
        NotEnoughReplicasError: ErrorCode.NOT_ENOUGH_REPLICAS,
        OffsetOutOfRangeError: ErrorCode.OFFSET_OUT_OF_RANGE,
        OutOfOrderSequenceError: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        RecordListTooLargeError: ErrorCode.RECORD_LIST_TOO_LARGE,
        StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def code_of(error: Exception) -> ErrorCode:
    """The code for one of LOG_ERRORS; UNKNOWN_SERVER_ERROR for one that no client should be able to cause."""
    return _CODES.get(type(error), ErrorCode.UNKNOWN_SERVER_ERROR)
