"""The settings that a log obeys: Kafka's topic configs, by Kafka's names in snake case, with Kafka's defaults."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

UNLIMITED: Final = (1 << 63) - 1  # Kafka's Long.MAX_VALUE: the limit that is none
_DAY_MS: Final = 86_400_000


class TimestampType(Enum):
    CREATE_TIME = "CreateTime"  # the producer's clock
    LOG_APPEND_TIME = "LogAppendTime"  # the broker's


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096

    max_message_bytes: int = 1_048_588
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = UNLIMITED
    message_timestamp_after_max_ms: int = 3_600_000

    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = _DAY_MS  # a broker config: `producer.id.expiration.ms`

    cleanup_policy: frozenset[str] = frozenset({"delete"})  # of "delete" and "compact"; empty keeps everything
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNLIMITED
    min_cleanable_dirty_ratio: float = 0.5

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Do retention by time and by size apply?"""
        return "delete" in self.cleanup_policy
