"""Where a query begins, and where a batch query ends: from what the options say to an offset of each partition.

The first of these that is given counts, as in Spark's own source: one time for all partitions, times by partition,
offsets. What is given by partition must be given for every partition.
"""

from collections.abc import Mapping
from typing import Any

from headrace.client.admin import AsyncAdmin
from headrace.client.errors import ConfigError
from headrace.client.topic_partition import TopicPartition
from headrace.spark.options import Options
from headrace.spark.source_loss import cut, passed, report
from headrace.spark.source_offsets import Limits, Offsets
from headrace.spark.source_options import EARLIEST, LATEST, Places, is_read_committed

AllLimits = Mapping[TopicPartition, Limits]


async def starting(admin: AsyncAdmin, options: Options, limits: AllLimits, *, default: str) -> Offsets:
    """Raises KafkaError, ConfigError, DataLossError."""
    values = options.values
    times = _times(values, "starting", limits)
    if times is None:
        offsets = at_places("startingOffsets", values["startingOffsets"] or default, limits)
    else:
        found = await _at_times(admin, options, times)
        late = [partition for partition, offset in found.items() if offset < 0]
        if late and values["startingOffsetsByTimestampStrategy"] == "error":
            problem = f"no record of {late[0]} is as young as {times[late[0]]} ms"
            raise ConfigError(
                [f"{problem}; with startingOffsetsByTimestampStrategy=latest the query begins at its end"]
            )
        offsets = {partition: _or_end(offset, limits[partition]) for partition, offset in found.items()}
    return within(offsets, limits, fail=values["failOnDataLoss"])


async def ending(admin: AsyncAdmin, options: Options, limits: AllLimits) -> Offsets:
    """Raises KafkaError, ConfigError, DataLossError."""
    values = options.values
    times = _times(values, "ending", limits)
    if times is None:
        offsets = at_places("endingOffsets", values["endingOffsets"] or LATEST, limits)
    else:
        found = await _at_times(admin, options, times)
        offsets = {partition: _or_end(offset, limits[partition]) for partition, offset in found.items()}
    return within(offsets, limits, fail=values["failOnDataLoss"])


def at_places(name: str, places: Places, limits: AllLimits) -> Offsets:
    """Words and offsets as offsets. Raises ConfigError if a partition is left out, or is not there."""
    if isinstance(places, str):
        places = dict.fromkeys(limits, places)
    _check_covers(name, places, limits)
    words = {EARLIEST: 0, LATEST: 1}  # of Limits
    return {
        partition: limits[partition][words[place]] if isinstance(place, str) else place
        for partition, place in places.items()
    }


def within(offsets: Mapping[TopicPartition, int], limits: AllLimits, *, fail: bool) -> Offsets:
    """The offsets, cut to what there is; what had to be cut is reported. Raises DataLossError if `fail`."""
    for partition, offset in offsets.items():
        if offset < limits[partition].earliest:
            report(passed(partition, offset, limits[partition]), fail=fail)
        elif offset > limits[partition].latest:
            report(cut(partition, offset, limits[partition]), fail=fail)
    return {
        partition: min(max(offset, limits[partition].earliest), limits[partition].latest)
        for partition, offset in offsets.items()
    }


def _times(values: Mapping[str, Any], side: str, limits: AllLimits) -> dict[TopicPartition, int] | None:
    for_all = values[f"{side}Timestamp"]
    if for_all is not None:
        return dict.fromkeys(limits, for_all)
    name = f"{side}OffsetsByTimestamp"
    by_partition: Mapping[TopicPartition, int] | None = values[name]
    if by_partition is None:
        return None
    _check_covers(name, by_partition, limits)
    return dict(by_partition)


async def _at_times(admin: AsyncAdmin, options: Options, times: Mapping[TopicPartition, int]) -> Offsets:
    """The first offset that is not older; -1 where there is none."""
    found = await admin.list_offsets(dict(times), read_committed=is_read_committed(options))
    return {partition: each.offset for partition, each in found.items()}


def _or_end(offset: int, limits: Limits) -> int:
    return limits.latest if offset < 0 else min(max(offset, limits.earliest), limits.latest)


def _check_covers(name: str, given: Mapping[TopicPartition, Any], limits: AllLimits) -> None:
    left_out = sorted(limits.keys() - given.keys())
    if left_out:
        raise ConfigError([f"option {name} must be given for every partition; {left_out[0]} is left out"])
    unknown = sorted(given.keys() - limits.keys())
    if unknown:
        raise ConfigError([f"option {name} names {unknown[0]}, which the query does not read, or which is not there"])
