"""`spark.readStream.format("headrace")`: what Spark asks about offsets, in a Python process of the driver.

Theory. Spark keeps positions, `{"orders": {"0": 23}}`, in the checkpoint and asks: where to begin (`initialOffset`,
only the first time), how far there is something to read (`latestOffset`), which tasks lie between two positions
(`partitions`). A micro-batch that was planned before a crash is planned again, from its two positions alone.

When Spark asks how far there is something to read, everything before `start` is done: that is when the position is
committed to the group, as well as when Spark says so itself, which is one micro-batch later.

A topic that was deleted and made anew is told apart by its id, which stands beside the offsets of a position. The group
could not tell: a broker forgets what was committed for a topic when it is deleted.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.arrow_fetch import Part
from headrace.client.errors import KafkaError
from headrace.client.topic_partition import TopicPartition
from headrace.spark import source_loss
from headrace.spark.options import Options
from headrace.spark.source_admission import Waiting, is_too_little, rate_limit, waits
from headrace.spark.source_bounds import starting
from headrace.spark.source_offsets import (
    OffsetRange,
    Offsets,
    OffsetsJson,
    Position,
    beginners,
    from_json,
    ranges,
    to_json,
)
from headrace.spark.source_options import LATEST, admin_configs, check_stream, is_read_committed, subscription
from headrace.spark.source_split import split
from headrace.spark.source_tasks import SourceTask, read_task
from headrace.spark.source_topics import Seen, look, require

log = logging.getLogger("headrace.spark")

GROUP: Final = "headrace-spark"
COMMIT_SECONDS: Final = 5.0  # a commit is for those who look at lag: a query does not wait longer for it
_DIGEST_CHARACTERS: Final = 12
_NEVER: Final = float("-inf")

Result = TypeVar("Result")


def group_of(options: Options) -> str:
    """The group to which positions are committed; the same after a restart."""
    named = options.client.get("group.id")
    if named:
        return named
    digest = hashlib.sha256(repr(subscription(options)).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    prefix = options.values["groupIdPrefix"]
    return f"{prefix}-{digest}" if prefix else f"{GROUP}.{digest}"


class StreamSource(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes one for the driver, which lives as long as the query, and sends others to the workers to read."""

    def __init__(self, options: Options) -> None:
        check_stream(options)
        self._options = options
        self._is_failing = options.values["failOnDataLoss"]
        self._admin: AsyncAdmin | None = None
        self._seen: Seen | None = None  # as it was when Spark last asked how far there is something to read
        self._target: Seen | None = None  # where a query with Trigger.AvailableNow ends
        self._initial: Position | None = None
        self._committed: Offsets | None = None
        self._is_commit_failing = False
        self._last_batch_at = _NEVER  # on the monotonic clock

    # How far there is something to read

    def initialOffset(self) -> OffsetsJson:  # noqa: N802
        """Spark asks once more when it has planned the first micro-batch, and must get the same answer.

        When that one is planned again after a restart, the answer may be a later one; then the range is empty, and the
        query begins at its end.
        """
        if self._initial is None:
            self._initial = background.call(self._begin())
        return to_json(*self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark hands it back with every question, unless the trigger asks for everything. Only one can be told, but
        `latestOffset` knows the other from the options.
        """
        least, most = self._options.values["minOffsetsPerTrigger"], self._options.values["maxOffsetsPerTrigger"]
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = background.call(self._look())

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        position = from_json(start)
        self._seen = seen = background.call(self._look_and_commit(position.offsets))
        made_anew = source_loss.topics_made_anew(position, seen.topic_ids)
        for loss in source_loss.losses(position, seen.limits, made_anew):
            source_loss.report(loss, fail=self._is_failing)
        waiting = waits(position, seen.limits, seen.topic_ids)
        is_all_asked_for = isinstance(limit, ReadAllAvailable)
        is_changed = bool(made_anew) or not position.offsets.keys() <= seen.limits.keys()
        if not is_all_asked_for and not is_changed and self._is_too_early(waiting):
            return start
        end = rate_limit(waiting, None if is_all_asked_for else self._options.values["maxOffsetsPerTrigger"])
        if end != position.offsets:
            self._last_batch_at = time.monotonic()
        return to_json(end, seen.topic_ids)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802
        """For Spark's metrics: what the topics hold, read or not."""
        if self._seen is None:
            return None
        return to_json({partition: limits.latest for partition, limits in self._seen.limits.items()})

    def _is_too_early(self, waiting: list[OffsetRange]) -> bool:
        least = self._options.values["minOffsetsPerTrigger"]
        if least is None or self._target is not None:  # a query that is to end does not wait for more
            return False
        rule = Waiting(least, self._options.values["maxTriggerDelay"])
        since = time.monotonic() - self._last_batch_at
        return is_too_little(waiting, rule, since_last_ms=since * 1000)

    # Tasks

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        first, last = from_json(start), from_json(end)
        seen = self._seen
        is_from_before = seen is None or not last.offsets.keys() <= seen.limits.keys()  # from before a restart
        if seen is None or is_from_before:
            seen = background.call(self._look())
        last = self._what_is_there(last, seen)
        if is_from_before:
            for loss in source_loss.late_begins(first, last.offsets, seen.limits):
                source_loss.report(loss, fail=self._is_failing)
        begins = {partition: seen.limits[partition].earliest for partition in beginners(first, last)}
        pieces = split(
            ranges(first, last, begins),
            min_partitions=self._options.values["minPartitions"],
            max_records=self._options.values["maxRecordsPerPartition"],
        )
        ids = seen.topic_ids
        return [SourceTask(Part(*each.partition, each.start, each.end, ids[each.partition.topic])) for each in pieces]

    def _what_is_there(self, end: Position, seen: Seen) -> Position:
        """The end of a micro-batch without what is gone since it was planned. Raises DataLossError if that is one."""
        made_anew = source_loss.topics_made_anew(end, seen.topic_ids)
        for topic in sorted(made_anew):
            source_loss.report(source_loss.made_anew(topic, end), fail=self._is_failing)
        kept = {each: offset for each, offset in end.offsets.items() if each.topic not in made_anew}
        lost = {each: offset for each, offset in kept.items() if each not in seen.limits}
        if lost:
            source_loss.report(source_loss.gone(lost), fail=self._is_failing)
        return Position({each: kept[each] for each in kept.keys() - lost.keys()}, end.topic_ids)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(partition, self._options)

    # The group

    def commit(self, end: OffsetsJson) -> None:
        background.call(self._commit(from_json(end).offsets))

    def stop(self) -> None:
        if self._admin is not None:
            background.call(self._admin.close())
            self._admin = None

    async def _commit(self, position: Offsets) -> None:
        """For everybody who looks at lag. A failure is told once, and never ends the query."""
        is_initial = self._initial is not None and position == self._initial.offsets
        if not self._options.values["commitOffsets"] or is_initial or position == self._committed:
            return
        group = group_of(self._options)
        try:
            await self._client().alter_group_offsets(group, position, timeout=COMMIT_SECONDS)
        except KafkaError as error:
            if not self._is_commit_failing:
                log.warning(
                    "The position could not be committed to group %s, so its lag is not right: %s", group, error
                )
            self._is_commit_failing = True
        else:
            self._is_commit_failing = False
            self._committed = position

    # Asking the cluster

    def _client(self) -> AsyncAdmin:
        if self._admin is None:
            self._admin = AsyncAdmin(config=admin_configs(self._options))
        return self._admin

    async def _begin(self) -> Position:
        seen = require(await self._target_or_look())  # a query that is to end does not begin after its end
        offsets = await starting(self._client(), self._options, seen.limits, default=LATEST)
        return Position(offsets, seen.topic_ids)

    async def _look(self) -> Seen:
        read_committed = is_read_committed(self._options)
        return await look(self._client(), subscription(self._options), read_committed=read_committed)

    async def _look_and_commit(self, position: Mapping[TopicPartition, int]) -> Seen:
        """At the same time, so that the commit does not make the micro-batch wait."""
        seen, _ = await asyncio.gather(self._target_or_look(), self._commit(dict(position)))
        return seen

    async def _target_or_look(self) -> Seen:
        return await self._look() if self._target is None else self._target
