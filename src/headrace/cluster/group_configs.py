"""The configs of a group, and the broker configs that give each its default and its bounds."""

import re
from collections.abc import Mapping
from typing import Final

from headrace.cluster.config_types import (
    BOOLEAN,
    INT,
    STRING,
    ConfigKey,
    ConfigTable,
    InvalidConfigError,
    Scope,
    Synonym,
    Value,
)

_RESETS: Final = ("latest", "earliest")
# ISO 8601 as Java reads it: P2DT3H4M5.6S with at least one part, and one after T.
_DURATION: Final = r"by_duration:P(?!$)([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{0,9})?S)?)?"
# Each must lie between the broker's group.<...min...> and group.<...max...>.
_BOUNDED: Final = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
)


def _check_offset_reset(name: str, text: str) -> None:
    if text not in _RESETS and not re.fullmatch(_DURATION, text, re.IGNORECASE):
        raise InvalidConfigError(name, f'must be latest, earliest or by_duration:PT1H (ISO 8601), not "{text}"')


def check_outlasts(values: Mapping[str, Value], longer: str, shorter: str) -> None:
    """Raises InvalidConfigError unless `longer` is above `shorter`."""
    most, least = number(values, longer), number(values, shorter)
    if most <= least:
        raise InvalidConfigError(longer, f"must be above {shorter}, but {most} <= {least}")


def number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), f"{name}={value!r}"
    return value


def check_group_bounds(values: Mapping[str, Value], broker: Mapping[str, Value]) -> None:
    """Does the broker allow these values of a group? Those that the group does not set are the broker's own.

    Raises InvalidConfigError.
    """
    for name in _BOUNDED:
        protocol, _, rest = name.partition(".")
        least_name, most_name = f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"
        least, value, most = number(broker, least_name), number(values, name), number(broker, most_name)
        if value < least:
            raise InvalidConfigError(name, f"must be at least {least_name}, but {value} < {least}")
        if value > most:
            raise InvalidConfigError(name, f"must be at most {most_name}, but {value} > {most}")
    standbys, most = (
        number(values, "streams.num.standby.replicas"),
        number(broker, "group.streams.max.standby.replicas"),
    )
    if standbys > most:
        raise InvalidConfigError(
            "streams.num.standby.replicas",
            f"must be at most group.streams.max.standby.replicas, but {standbys} > {most}",
        )
    for protocol in ("consumer", "share", "streams"):
        check_outlasts(values, f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms")


GROUP_CONFIGS: Final = ConfigTable(
    "group",
    [
        ConfigKey(
            "consumer.assignment.interval.ms",
            INT,
            1000,
            "The shortest time between two assignments of a consumer group.",
            minimum=0,
            synonyms=(Synonym("group.consumer.assignment.interval.ms"),),
        ),
        ConfigKey(
            "consumer.heartbeat.interval.ms",
            INT,
            5000,
            "How often the members of a consumer group send a heartbeat.",
            minimum=1,
            synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
        ),
        ConfigKey(
            "consumer.session.timeout.ms",
            INT,
            45_000,
            "After how long without a heartbeat a member of a consumer group is taken for dead.",
            minimum=1,
            synonyms=(Synonym("group.consumer.session.timeout.ms"),),
        ),
        ConfigKey(
            "share.assignment.interval.ms",
            INT,
            1000,
            "The shortest time between two assignments of a share group.",
            minimum=0,
            synonyms=(Synonym("group.share.assignment.interval.ms"),),
        ),
        ConfigKey(
            "share.auto.offset.reset",
            STRING,
            "latest",
            "Where a share group starts in a new partition: latest, earliest, or that long ago with by_duration:P1D.",
            check=_check_offset_reset,
        ),
        ConfigKey(
            "share.delivery.count.limit",
            INT,
            5,
            "How many times a record is handed out to a share group before it is given up.",
            minimum=2,
            synonyms=(Synonym("group.share.delivery.count.limit"),),
        ),
        ConfigKey(
            "share.heartbeat.interval.ms",
            INT,
            5000,
            "How often the members of a share group send a heartbeat.",
            minimum=1,
            synonyms=(Synonym("group.share.heartbeat.interval.ms"),),
        ),
        ConfigKey(
            "share.isolation.level",
            STRING,
            "read_uncommitted",
            "Whether a share group sees records of open and aborted transactions.",
            values=("read_committed", "read_uncommitted"),
        ),
        ConfigKey(
            "share.partition.max.record.locks",
            INT,
            2000,
            "How many records of one partition may be handed out and not yet acknowledged.",
            minimum=100,
            synonyms=(Synonym("group.share.partition.max.record.locks"),),
        ),
        ConfigKey(
            "share.record.lock.duration.ms",
            INT,
            30_000,
            "How long a member of a share group holds a record before it is handed out again.",
            minimum=1000,
            synonyms=(Synonym("group.share.record.lock.duration.ms"),),
        ),
        ConfigKey(
            "share.renew.acknowledge.enable",
            BOOLEAN,
            True,
            "Whether a member of a share group may ask to hold a record for longer.",
        ),
        ConfigKey(
            "share.session.timeout.ms",
            INT,
            45_000,
            "After how long without a heartbeat a member of a share group is taken for dead.",
            minimum=1,
            synonyms=(Synonym("group.share.session.timeout.ms"),),
        ),
        ConfigKey(
            "streams.assignment.interval.ms",
            INT,
            1000,
            "The shortest time between two assignments of a streams group.",
            minimum=0,
            synonyms=(Synonym("group.streams.assignment.interval.ms"),),
        ),
        ConfigKey(
            "streams.heartbeat.interval.ms",
            INT,
            5000,
            "How often the members of a streams group send a heartbeat.",
            minimum=1,
            synonyms=(Synonym("group.streams.heartbeat.interval.ms"),),
        ),
        ConfigKey(
            "streams.initial.rebalance.delay.ms",
            INT,
            3000,
            "How long a new streams group waits for more members before its first assignment.",
            minimum=0,
            synonyms=(Synonym("group.streams.initial.rebalance.delay.ms"),),
        ),
        ConfigKey(
            "streams.num.standby.replicas",
            INT,
            0,
            "How many spare copies of each state a streams group keeps.",
            minimum=0,
            synonyms=(Synonym("group.streams.num.standby.replicas"),),
        ),
        ConfigKey(
            "streams.session.timeout.ms",
            INT,
            45_000,
            "After how long without a heartbeat a member of a streams group is taken for dead.",
            minimum=1,
            synonyms=(Synonym("group.streams.session.timeout.ms"),),
        ),
    ],
    scope=Scope.RESOURCE,
)
