"""`spark.read.format("headrace")`: a topic, or a part of it, as it is when the query is planned."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.arrow_fetch import Part
from headrace.client.topic_partition import TopicPartition
from headrace.spark.options import Options
from headrace.spark.source_bounds import ending, starting
from headrace.spark.source_loss import report
from headrace.spark.source_offsets import OffsetRange, Offsets
from headrace.spark.source_options import EARLIEST, admin_configs, check_batch, is_read_committed, subscription
from headrace.spark.source_split import split
from headrace.spark.source_tasks import SourceTask, read_task
from headrace.spark.source_topics import look, require


class BatchSource(DataSourceReader):
    """Planned in a process of the driver, then sent to the workers: it holds nothing but its options."""

    def __init__(self, options: Options) -> None:
        check_batch(options)
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return background.call(_plan(self._options))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(partition, self._options)


async def _plan(options: Options) -> list[InputPartition]:
    async with AsyncAdmin(config=admin_configs(options)) as admin:
        chosen = subscription(options)
        seen = require(await look(admin, chosen, read_committed=is_read_committed(options)))
        start = await starting(admin, options, seen.limits, default=EARLIEST)
        end = await ending(admin, options, seen.limits)
    pieces = split(
        _between(start, end, fail=options.values["failOnDataLoss"]),
        min_partitions=options.values["minPartitions"],
        max_records=options.values["maxRecordsPerPartition"],
    )
    return [
        SourceTask(Part(*each.partition, each.start, each.end, seen.topic_ids[each.partition.topic])) for each in pieces
    ]


def _between(start: Offsets, end: Offsets, *, fail: bool) -> list[OffsetRange]:
    """Here an end below its start is a mistake, and not a topic that was made anew. Raises DataLossError if `fail`."""
    for partition in start:
        if end[partition] < start[partition]:
            report(_backwards(partition, start[partition], end[partition]), fail=fail)
    return [OffsetRange(partition, start[partition], end[partition]) for partition in sorted(start)]


def _backwards(partition: TopicPartition, start: int, end: int) -> str:
    return f"The range of {partition} ends at offset {end}, before it begins, at {start}: nothing of it can be read."
