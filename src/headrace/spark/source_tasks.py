"""What a worker does: one part of a partition, as Arrow record batches.

Spark keeps its Python workers between tasks and micro-batches, and so are the connections kept: a task that reads from
a cluster that the worker has read from before begins with a fetch.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.arrow_fetch import SLICE_BYTES, FetchSettings, Part, fetch_tables
from headrace.client.errors import OffsetOutOfRangeError, UnknownTopicError
from headrace.client.topic_partition import TopicPartition
from headrace.spark.options import Options
from headrace.spark.source_loss import cut, gone, passed, report
from headrace.spark.source_offsets import Limits
from headrace.spark.source_options import admin_configs, consumer_settings
from headrace.spark.source_schema import arrow_schema, to_spark

_CLIENTS_KEPT: Final = 8  # clusters and settings that one worker reads from in turns

_clients: "OrderedDict[tuple[object, ...], AsyncAdmin]" = OrderedDict()


class SourceTask(InputPartition):
    """The part that one task reads."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


def read_task(task: InputPartition, options: Options) -> Iterator[Any]:
    """The rows of a task. Raises KafkaError, DataLossError."""
    if not isinstance(task, SourceTask):
        return  # Spark's own, of a query that has nothing to read
    admin = _client(options)
    schema = arrow_schema(with_headers=options.values["includeHeaders"])
    settings = fetch_settings(options)
    part = task.part
    while part.start < part.end:
        try:
            for table in fetch_tables(admin._cluster, [part], settings):
                for batch in table.to_batches():
                    yield to_spark(batch, schema)
                part = part._replace(start=table.column("offset")[-1].as_py() + 1)
            return
        except (OffsetOutOfRangeError, UnknownTopicError) as error:
            part = _after_loss(admin, part, options, error)


def fetch_settings(options: Options) -> FetchSettings:
    """What the consumer's settings mean for a reader in slices; the sizes only where they were chosen."""
    chosen = consumer_settings(options)
    settings = FetchSettings(
        read_committed=chosen.text("isolation.level") == "read_committed",
        check_crcs=chosen.flag("check.crcs"),
        max_wait_ms=chosen.number("fetch.max.wait.ms"),
        patience_seconds=options.values["kafkaConsumer.pollTimeoutMs"] / 1000,
    )
    if chosen.is_given("max.partition.fetch.bytes"):
        return settings._replace(slice_bytes=min(chosen.number("max.partition.fetch.bytes"), SLICE_BYTES))
    return settings


def _after_loss(admin: AsyncAdmin, part: Part, options: Options, error: Exception) -> Part:
    """What is left of the part. Raises DataLossError if that ends the query."""
    fail = options.values["failOnDataLoss"]
    partition = TopicPartition(part.topic, part.partition)
    if isinstance(error, UnknownTopicError):
        report(f"{gone({partition: part.start})} {error.message}", fail=fail)
        return part._replace(start=part.end)
    limits = background.call(_limits(admin, partition))
    if part.start >= limits.earliest:  # so it is the end that went back
        report(cut(partition, part.start, limits), fail=fail)
        return part._replace(start=part.end)
    report(passed(partition, part.start, limits), fail=fail)
    return part._replace(start=limits.earliest)


async def _limits(admin: AsyncAdmin, partition: TopicPartition) -> Limits:
    first = await admin.list_offsets({partition: "earliest"})
    last = await admin.list_offsets({partition: "latest"})
    return Limits(first[partition].offset, last[partition].offset)


async def _open(configs: dict[str, str]) -> AsyncAdmin:
    admin = AsyncAdmin(config=configs)
    admin._cluster  # noqa: B018 - is made by this, on the loop that it belongs to
    return admin


def _client(options: Options) -> AsyncAdmin:
    """The client of this process for these settings; the one that was not used for longest gives way."""
    configs = admin_configs(options)
    key = (os.getpid(), *sorted(configs.items()))  # a forked process has its own loop, and no connections
    if key not in _clients:
        _clients[key] = background.call(_open(configs))
    _clients.move_to_end(key)
    while len(_clients) > _CLIENTS_KEPT:
        (pid, *_), oldest = _clients.popitem(last=False)
        if pid == os.getpid():
            background.call(oldest.close())
    return _clients[key]
