"""From the configs of a topic to what its logs obey."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.cluster.config_resolution import broker_values, topic_defaults, topic_values
from headrace.cluster.config_types import Value
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource, Image
from headrace.log.config import LogConfig, TimestampType
from headrace.server.recompression import Compression


class TopicSettings(NamedTuple):
    """What this broker needs to know of a topic's configs."""

    log: LogConfig
    min_insync_replicas: int
    compression: Compression | None  # None: as the producers compressed them


class TopicDefaults:
    """The settings of topics, on top of this broker's own configs at one moment."""

    __slots__ = ("_defaults", "_last", "_plain", "_producer_id_expiration_ms")

    def __init__(self, image: Image, node_id: int, static: Mapping[str, str]) -> None:
        node = image.config(ConfigResource(ConfigKind.BROKER, str(node_id)))
        broker = broker_values(node, image.config(CLUSTER_DEFAULT), static)
        self._defaults = topic_defaults(broker)
        self._producer_id_expiration_ms: Any = broker["producer.id.expiration.ms"]
        self._plain = self._settings(self._defaults)  # shared by all topics without configs of their own
        self._last: tuple[Mapping[str, str], TopicSettings] = ({}, self._plain)

    def settings_of(self, overrides: Mapping[str, str]) -> TopicSettings:
        """Of a topic with these configs, which are an image's and never change."""
        if not overrides:
            return self._plain
        if self._last[0] is not overrides:  # a thousand partitions of one topic come one after the other, and share it
            self._last = (overrides, self._settings(topic_values(overrides, self._defaults)))
        return self._last[1]

    def _settings(self, configs: Mapping[str, Value]) -> TopicSettings:
        values: Any = configs  # each was checked by its declaration: type and bounds
        # `internal.segment.bytes` is Kafka's own for tests: it goes below the bounds of segment.bytes.
        segment_bytes = values["internal.segment.bytes"] or values["segment.bytes"]
        log = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=values["segment.ms"],
            segment_jitter_ms=values["segment.jitter.ms"],
            segment_index_bytes=values["segment.index.bytes"],
            index_interval_bytes=values["index.interval.bytes"],
            max_message_bytes=values["max.message.bytes"],
            message_timestamp_type=TimestampType(values["message.timestamp.type"]),
            message_timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
            message_timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
            flush_messages=values["flush.messages"],
            flush_ms=values["flush.ms"],
            file_delete_delay_ms=values["file.delete.delay.ms"],
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            cleanup_policy=frozenset(values["cleanup.policy"]),
            retention_bytes=values["retention.bytes"],
            retention_ms=values["retention.ms"],
            delete_retention_ms=values["delete.retention.ms"],
            min_compaction_lag_ms=values["min.compaction.lag.ms"],
            max_compaction_lag_ms=values["max.compaction.lag.ms"],
            min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        )
        return TopicSettings(log, values["min.insync.replicas"], Compression.from_topic(configs))
