"""What can go wrong for the user of a consumer, besides what can go wrong for anybody."""

from headrace.client.consumer_record import ConsumerRecord
from headrace.client.errors import KafkaError, RebalanceError
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode


class WakeupError(Exception):
    """`wakeup()` was called while, or before, this thread waited for records."""


class NoOffsetError(KafkaError):
    """A partition has no committed offset, or one that the log does not hold, and auto.offset.reset is none."""

    def __init__(self, message: str, partition: TopicPartition, *, tried: str = "") -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message, tried=tried)
        self.partition = partition


class LogTruncationError(KafkaError):
    """Records that were consumed are not in the log any more: an unclean leader took over (KIP-320).

    `divergent_offset` is where the logs part, as far as that is known; seek there to go on.
    """

    def __init__(self, partition: TopicPartition, position: int, divergent_offset: int | None) -> None:
        where = "at an unknown offset" if divergent_offset is None else f"at offset {divergent_offset}"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"The log of {partition} was truncated: it parts {where} from what was consumed up to {position}. "
            "Seek to where to go on, or set auto_offset_reset.",
        )
        self.partition = partition
        self.divergent_offset = divergent_offset


class CorruptRecordError(KafkaError):
    """What a broker sent of a partition cannot be records; seek beyond it to go on."""

    def __init__(
        self, partition: TopicPartition, offset: int, reason: str, advice: str = "Seek beyond them to go on."
    ) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE, f"The records of {partition} at offset {offset} are damaged: {reason}. {advice}"
        )
        self.partition = partition
        self.offset = offset


class DeserializationError(KafkaError):
    """A deserializer failed: `record` has the bytes. Seek beyond its offset to go on without it."""

    def __init__(self, record: ConsumerRecord, what: str, cause: Exception) -> None:
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"The {what} of {record.topic}-{record.partition} at offset {record.offset} cannot be deserialized: "
            f"{cause!r}. Seek to offset {record.offset + 1} to go on without it.",
        )
        self.record = record


class CommitFailedError(RebalanceError):
    """Offsets were not committed, since this member has lost its partitions: another one may process them again."""


class PollIntervalError(RebalanceError):
    """This consumer asked for no records for longer than max.poll.interval.ms, and has left its group.

    It is told once; the next poll joins the group again.
    """
