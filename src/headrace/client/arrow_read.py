"""Topics as Arrow: fetched in large slices, decoded as columns, with the next slices on their way meanwhile.

Fetching happens on the client's loop, decoding in the thread of whoever reads, so the two run side by side. Memory is
bounded by the slices that are on their way, whatever the size of the topic.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.arrow_ranges import Bound, Range, resolve
from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.errors import KafkaError, OffsetOutOfRangeError, RequestTimedOutError, error_for
from headrace.protocol.columns import SCHEMA, decode_batches
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headrace.protocol.records import iter_batches
from headrace.protocol.types import ZERO_UUID

SLICE_BYTES: Final = 8 * 1024 * 1024
SLICES_AHEAD: Final = 4  # on their way while one is decoded
_MAX_WAIT_MS: Final = 500
_NAMES_ONLY: Final = 12
_PATIENCE_SECONDS: Final = 60.0  # as default.api.timeout.ms


class _Slice(NamedTuple):
    """What one fetch brought."""

    records: memoryview | bytes
    aborted: Sequence[tuple[int, int]]
    next_offset: int


def read(
    topic: str,
    bootstrap: str | Sequence[str],
    *,
    start: Bound = "earliest",
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    isolation: str = "read_uncommitted",
    **configs: Any,
) -> Any:
    """A topic, or a part of it, as a pyarrow Table.

    `start` and `end` are `"earliest"`, `"latest"`, an offset (negative: so many before the end), a datetime, a `Group`,
    or a dict of these by partition; `end` is not included, and `latest` is where the topic ends now. `columns` are
    some of key, value, headers, topic, partition, offset, timestamp, timestamp_type. Raises KafkaError.
    """
    batches = scan(
        topic, bootstrap, start=start, end=end, partitions=partitions, columns=columns, isolation=isolation, **configs
    )
    return pa.Table.from_batches(list(batches), _schema(columns))


def scan(
    topic: str,
    bootstrap: str | Sequence[str],
    *,
    start: Bound = "earliest",
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    isolation: str = "read_uncommitted",
    **configs: Any,
) -> Iterator[Any]:
    """The same as `read`, as record batches one after the other: for topics that are larger than memory."""
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ValueError(f"isolation is read_uncommitted or read_committed, not {isolation!r}")
    _schema(columns)
    committed = isolation == "read_committed"
    admin = AsyncAdmin(bootstrap, **configs)
    try:
        ranges = background.call(
            resolve(admin, topic, start=start, end=end, partitions=partitions, read_committed=committed)
        )
        cluster = admin._cluster
        for table in _tables(cluster, topic, ranges, committed=committed):
            selected = table if columns is None else table.select(list(columns))
            yield from selected.to_batches()
    finally:
        background.call(admin.close())


def _schema(columns: Sequence[str] | None) -> Any:
    if columns is None:
        return SCHEMA
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}; the columns are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def _tables(cluster: Cluster, topic: str, ranges: Sequence[Range], *, committed: bool) -> Iterator[Any]:
    """All ranges, decoded; several partitions at a time, each in its order."""
    waiting = deque(each for each in ranges if each.start < each.end)
    ahead: deque[tuple[Range, Future[_Slice]]] = deque()

    def fetch(part: Range) -> None:
        ahead.append((part, background.submit(_fetch(cluster, topic, part, committed=committed))))

    while waiting or ahead:
        while waiting and len(ahead) < SLICES_AHEAD:
            fetch(waiting.popleft())
        part, future = ahead.popleft()
        found = future.result()
        if found.next_offset < part.end:
            fetch(part._replace(start=found.next_offset))
        if found.records:
            decoded = decode_batches(
                found.records,
                topic=topic,
                partition=part.partition,
                first_offset=part.start,
                end_offset=min(part.end, found.next_offset),
                aborted=found.aborted,
            )
            yield decoded.table


async def _fetch(cluster: Cluster, topic: str, part: Range, *, committed: bool) -> _Slice:
    """One slice from the start of the range on; asked again as long as that helps. Raises KafkaError."""
    backoff = retry_backoff(cluster.settings)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    attempts = 0
    while True:
        attempts += 1
        try:
            row = await _ask(cluster, topic, part, committed=committed)
        except KafkaError as error:
            failure = error
        else:
            if not row.error_code:
                found = _slice(row, part, committed=committed)
                if found.next_offset > part.start:
                    return found
                continue  # nothing yet: an open transaction, or a high watermark that follows
            failure = _error(row, topic, part)
        if not failure.retriable:
            raise failure
        pause = backoff.seconds(attempts)
        if loop.time() + pause > deadline:
            raise RequestTimedOutError(f"{topic}-{part.partition}: {failure.message}", tried=f"{attempts} fetches")
        cluster.stale(topic)
        await asyncio.sleep(pause)


async def _ask(cluster: Cluster, topic: str, part: Range, *, committed: bool) -> PartitionData:
    known = await cluster.topic(topic, timeout=_PATIENCE_SECONDS)
    leader = cluster.metadata.leader(topic, part.partition)
    if leader is None:
        raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{part.partition} has no leader now.")
    row = FetchPartition(
        partition=part.partition,
        current_leader_epoch=known.partitions[part.partition].leader_epoch,
        fetch_offset=part.start,
        partition_max_bytes=SLICE_BYTES,
    )
    request = FetchRequest(
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=SLICE_BYTES,
        isolation_level=int(committed),
        topics=[FetchTopic(topic, known.id, [row])],
    )
    max_version = _NAMES_ONLY if known.id == ZERO_UUID else None
    response: FetchResponse = await cluster.send(leader.id, request, min_version=4, max_version=max_version)
    if response.error_code:
        raise error_for(response.error_code)
    return response.responses[0].partitions[0]


def _slice(row: PartitionData, part: Range, *, committed: bool) -> _Slice:
    records = row.records if row.records is not None else b""
    next_offset = part.start
    for _, header in iter_batches(records):
        next_offset = max(next_offset, header.next_offset)
    end = row.last_stable_offset if committed else row.high_watermark
    if not len(records) and end >= part.end:
        next_offset = part.end  # compaction has left nothing between here and the end
    aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()] if committed else []
    return _Slice(records, aborted, min(next_offset, part.end))


def _error(row: PartitionData, topic: str, part: Range) -> KafkaError:
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRangeError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{topic}-{part.partition} has lost offset {part.start} to retention while it was read; it begins at "
            f"{row.log_start_offset} now. Read again with a later start.",
        )
    return error_for(row.error_code)
