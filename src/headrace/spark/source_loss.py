"""Records that are gone before they were read: what is told about it, and whether it ends the query.

With failOnDataLoss, which is the default, it is an error; otherwise the query goes on with what there is, and says so.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from headrace.client.topic_partition import TopicPartition
from headrace.protocol.types import ZERO_UUID
from headrace.spark.source_offsets import Limits, Position, to_json

log = logging.getLogger("headrace.spark")

_TO_GO_ON: Final = (
    "To go on without them, start the query with option failOnDataLoss=false, or make the App of a pipeline with "
    "lost='skip'; to read the topic from another place, start the query with a new checkpoint and startingOffsets, or "
    "reset the pipeline."
)


class DataLossError(Exception):
    """Records that a query should have read are gone."""


def report(message: str, *, fail: bool) -> None:
    """Raises DataLossError if `fail`, else warns."""
    if fail:
        raise DataLossError(f"{message} {_TO_GO_ON}")
    log.warning("%s The query goes on, since failOnDataLoss is false.", message)


def losses(
    position: Position, limits: Mapping[TopicPartition, Limits], topics_made_anew: Collection[str] = ()
) -> Iterator[str]:
    """What a query at this position has lost, if the partitions are now as `limits` says; a sentence for each."""
    lost = {partition: offset for partition, offset in position.offsets.items() if partition not in limits}
    if lost:
        yield gone(lost)
    yield from (made_anew(topic, position) for topic in sorted(topics_made_anew))
    kept = {partition: held for partition, held in limits.items() if partition.topic not in topics_made_anew}
    yield from late_begins(position, kept, limits)
    for partition, offset in position.offsets.items():
        held = kept.get(partition)
        if held is None:
            continue
        if offset < held.earliest:
            yield passed(partition, offset, held)
        elif offset > held.latest:
            yield cut(partition, offset, held)


def late_begins(
    position: Position, partitions: Iterable[TopicPartition], limits: Mapping[TopicPartition, Limits]
) -> Iterator[str]:
    """Of partitions that are new since then, those which have lost their first records already."""
    for partition in partitions:
        if partition not in position.offsets and limits[partition].earliest > 0:
            yield late_begin(partition, limits[partition])


def topics_made_anew(position: Position, ids_now: Mapping[str, bytes]) -> set[str]:
    """Topics of which something was read, and whose id is not what it was then."""
    read = {partition.topic for partition, offset in position.offsets.items() if offset > 0}
    return {
        topic
        for topic in read & ids_now.keys()
        if ZERO_UUID not in (position.id_of(topic), ids_now[topic]) and position.id_of(topic) != ids_now[topic]
    }


def passed(partition: TopicPartition, position: int, limits: Limits) -> str:
    """Retention, or a deletion of records, was faster than the query."""
    return (
        f"Records of {partition} are gone: the query is at offset {position}, and the log begins at {limits.earliest} "
        f"now (and ends at {limits.latest}), so {limits.earliest - position} offsets cannot be read any more. "
        "Retention or a deletion of records was faster than the query; a larger retention.ms keeps them longer."
    )


def cut(partition: TopicPartition, position: int, limits: Limits) -> str:
    """The log is shorter than what was read of it already."""
    return (
        f"Records of {partition} are gone: the query is at offset {position}, and the log ends at {limits.latest} now "
        f"(and begins at {limits.earliest}). The topic was deleted and made anew, or the log was cut after a failure."
    )


def made_anew(topic: str, position: Position) -> str:
    of_topic = {partition: offset for partition, offset in position.offsets.items() if partition.topic == topic}
    return (
        f"Topic {topic} was deleted, and another was made under its name: the offsets of the query, "
        f"{to_json(of_topic)}, are those of the old topic, and what it had not read there is gone."
    )


def gone(positions: Mapping[TopicPartition, int]) -> str:
    told = ", ".join(f"{partition} (read up to offset {offset})" for partition, offset in sorted(positions.items()))
    return f"Partitions are gone, with all records that were not read yet: {told}. Was the topic deleted?"


def late_begin(partition: TopicPartition, limits: Limits) -> str:
    return (
        f"The new partition {partition} begins at offset {limits.earliest}, not at 0: records were deleted before the "
        "query saw it."
    )
