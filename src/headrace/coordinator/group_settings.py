"""What groups obey: the broker's configs, and where a group may differ, the configs that were set on the group."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.cluster.config_types import ConfigTable, InvalidConfigError, Value
from headrace.cluster.group_configs import GROUP_CONFIGS
from headrace.cluster.image import ConfigKind, ConfigResource, Image
from headrace.cluster.topic_configs import TOPIC_CONFIGS

OFFSETS_TOPIC: Final = "__consumer_offsets"

_MS_PER_MINUTE: Final = 60_000
_BATCH_BYTES: Final = 128  # the header of a batch, and of its one record


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Each field is the broker config of its name; `group.` is left out, and times are milliseconds."""

    # All groups
    rebalance_protocols: tuple[str, ...]
    max_message_bytes: int  # what a batch may have, unless the topic says otherwise
    # Classic groups
    initial_rebalance_delay_ms: int
    min_session_timeout_ms: int
    max_session_timeout_ms: int
    max_size: int
    # Consumer groups (KIP-848)
    consumer_assignors: tuple[str, ...]
    consumer_migration_policy: str  # in lower case
    consumer_max_size: int
    consumer_regex_refresh_interval_ms: int
    consumer_heartbeat_interval_ms: int
    consumer_session_timeout_ms: int
    consumer_assignment_interval_ms: int
    # Offsets
    offsets_retention_ms: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int

    @staticmethod
    def from_configs(values: Mapping[str, Value]) -> "GroupSettings":
        """From the values of all broker configs, as `cluster.config_resolution.broker_values` gives them."""
        return GroupSettings(
            max_message_bytes=_number(values, "message.max.bytes"),
            rebalance_protocols=_texts(values, "group.coordinator.rebalance.protocols"),
            initial_rebalance_delay_ms=_number(values, "group.initial.rebalance.delay.ms"),
            min_session_timeout_ms=_number(values, "group.min.session.timeout.ms"),
            max_session_timeout_ms=_number(values, "group.max.session.timeout.ms"),
            max_size=_number(values, "group.max.size"),
            consumer_assignors=_texts(values, "group.consumer.assignors"),
            consumer_migration_policy=str(values["group.consumer.migration.policy"]).lower(),
            consumer_max_size=_number(values, "group.consumer.max.size"),
            consumer_regex_refresh_interval_ms=_number(values, "group.consumer.regex.refresh.interval.ms"),
            consumer_heartbeat_interval_ms=_number(values, "group.consumer.heartbeat.interval.ms"),
            consumer_session_timeout_ms=_number(values, "group.consumer.session.timeout.ms"),
            consumer_assignment_interval_ms=_number(values, "group.consumer.assignment.interval.ms"),
            offsets_retention_ms=_number(values, "offsets.retention.minutes") * _MS_PER_MINUTE,
            offsets_retention_check_interval_ms=_number(values, "offsets.retention.check.interval.ms"),
            offset_metadata_max_bytes=_number(values, "offset.metadata.max.bytes"),
        )

    def max_record_bytes(self, image: Image) -> int:
        """How large a record may be, with a little room for what is around it in a batch."""
        overrides = image.config(ConfigResource(ConfigKind.TOPIC, OFFSETS_TOPIC))
        return _override(TOPIC_CONFIGS, overrides, "max.message.bytes", self.max_message_bytes) - _BATCH_BYTES

    def of_group(self, image: Image, group_id: str) -> "GroupSettings":
        """What counts for one group: the same, except for what was set on it."""
        overrides = image.configs.get(ConfigResource(ConfigKind.GROUP, group_id))
        if not overrides:
            return self
        return replace(
            self,
            consumer_heartbeat_interval_ms=_override(
                GROUP_CONFIGS, overrides, "consumer.heartbeat.interval.ms", self.consumer_heartbeat_interval_ms
            ),
            consumer_session_timeout_ms=_override(
                GROUP_CONFIGS, overrides, "consumer.session.timeout.ms", self.consumer_session_timeout_ms
            ),
            consumer_assignment_interval_ms=_override(
                GROUP_CONFIGS, overrides, "consumer.assignment.interval.ms", self.consumer_assignment_interval_ms
            ),
        )


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), f"{name}={value!r}"
    return value


def _texts(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name]
    assert isinstance(value, tuple), f"{name}={value!r}"
    return value


def _override(table: ConfigTable, overrides: Mapping[str, str], name: str, default: int) -> int:
    """A value that this version cannot read was checked when it was set, by whoever knew it; the default counts."""
    text = overrides.get(name)
    if text is None:
        return default
    try:
        value = table[name].parse(text)
    except InvalidConfigError:
        return default
    return value if isinstance(value, int) else default
