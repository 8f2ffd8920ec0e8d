"""Parts of partitions as Arrow tables: fetched in large slices, decoded as columns, the next slices on their way.

Fetching happens on the client's loop, decoding in the thread of whoever reads, so the two run side by side. Memory is
bounded by the slices that are on their way and by what one step decodes, whatever the size of the topic and however
well it is compressed.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple

from headrace.client import background
from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.consumer_errors import CorruptRecordError
from headrace.client.errors import (
    KafkaError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnknownTopicError,
    UnsupportedVersionError,
    error_for,
)
from headrace.client.metadata import Topic
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.batch import Buffer
from headrace.protocol.columns import Columns, decode_batches
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.protocol.records import iter_batches
from headrace.protocol.types import ZERO_UUID

SLICE_BYTES: Final = 8 * 1024 * 1024
SLICES_AHEAD: Final = 4  # on their way while one is decoded
LEAST_SLICE_BYTES: Final = 64 * 1024
_GUESSED_RECORD_BYTES: Final = 1024  # before anything was seen
_MARGIN: Final = 1.25  # records are not all of the same size
STEP_BYTES: Final = 16 * 1024 * 1024  # decoded before it is handed on: a slice may be compressed to a twentieth
MAX_WAIT_MS: Final = 500
PATIENCE_SECONDS: Final = 60.0  # as default.api.timeout.ms
_UNKNOWN_TOPIC_SECONDS: Final = 5.0  # a topic that was there is not known for a moment only to a broker that is late
_NAMES_ONLY: Final = 12
_EARLIEST_LOCAL: Final = -4  # a time of ListOffsets
_EARLIEST_LOCAL_SINCE: Final = 8
_LEAST_THROTTLE_MS: Final = 10  # a broker that withholds and names no time is not asked without a pause
_NO_SUCH_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Part(NamedTuple):
    """Offsets `start` to `end`, not including it, of one partition.

    With a `topic_id` it is a part of this very topic, not of one that was made anew under the same name.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = ZERO_UUID


class FetchSettings(NamedTuple):
    """`patience_seconds` is how long a part may go without any progress."""

    read_committed: bool = False
    slice_bytes: int = SLICE_BYTES
    max_wait_ms: int = MAX_WAIT_MS
    check_crcs: bool = True
    patience_seconds: float = PATIENCE_SECONDS


class _Slice(NamedTuple):
    """What one fetch brought."""

    records: memoryview | bytes
    aborted: Sequence[tuple[int, int]]
    next_offset: int


def fetch_tables(cluster: Cluster, parts: Iterable[Part], settings: FetchSettings) -> Iterator[Any]:
    """All parts as pyarrow Tables; several parts at a time, each in its order. Raises KafkaError.

    OffsetOutOfRangeError and UnknownTopicError say that records of a part are gone, CorruptRecordError which ones are
    damaged.
    """
    waiting = deque(part for part in parts if part.start < part.end)
    ahead: deque[tuple[Part, Future[_Slice]]] = deque()

    def fetch(part: Part, record_bytes: float = _GUESSED_RECORD_BYTES) -> None:
        # A small part in the middle of a log is not worth a whole slice.
        sized = settings._replace(slice_bytes=slice_bytes(part, record_bytes, settings.slice_bytes))
        ahead.append((part, background.submit(_fetch(cluster, part, sized))))

    try:
        while waiting or ahead:
            while waiting and len(ahead) < SLICES_AHEAD:
                fetch(waiting.popleft())
            part, future = ahead.popleft()
            found = future.result()
            if found.next_offset < part.end:
                seen = len(found.records) / (found.next_offset - part.start)
                fetch(part._replace(start=found.next_offset), seen)
            yield from _decoded(found, part._replace(end=found.next_offset), settings)
    finally:  # whoever reads has had enough
        for _, future in ahead:
            future.cancel()


def slice_bytes(part: Part, record_bytes: float, most: int) -> int:
    """How much to ask for: about what is left of the part, `most` at most."""
    return min(most, max(LEAST_SLICE_BYTES, int((part.end - part.start) * record_bytes * _MARGIN)))


def _decoded(found: _Slice, part: Part, settings: FetchSettings) -> Iterator[Any]:
    """The slice, in steps of a bounded size."""
    offset = part.start
    while len(found.records) and offset < part.end:
        decode = partial(
            decode_batches,
            topic=part.topic,
            partition=part.partition,
            first_offset=offset,
            end_offset=part.end,
            aborted=found.aborted,
            check_crcs=settings.check_crcs,
            pause_bytes=STEP_BYTES,
        )
        try:
            decoded = decode(found.records)
        except CorruptBatchError as error:
            raise _damaged(part, _damaged_offset(found.records, decode), error) from error
        assert decoded.next_offset > offset, (decoded.next_offset, offset)
        offset = decoded.next_offset
        if decoded.table.num_rows:
            yield decoded.table


def _damaged_offset(records: Buffer, decode: Callable[[Buffer], Columns]) -> int:
    """Where the first batch begins that cannot be decoded: all up to it can, and all with it cannot."""
    view = memoryview(records)
    batches = list(iter_batches(records))

    def is_damaged_up_to(number: int) -> bool:
        position, header = batches[number]
        try:
            decode(view[: position + header.size_bytes])
        except CorruptBatchError:
            return True
        return False

    first = bisect_left(range(len(batches) - 1), True, key=is_damaged_up_to)
    return batches[first][1].base_offset


def _damaged(part: Part, offset: int, error: CorruptBatchError) -> CorruptRecordError:
    partition = TopicPartition(part.topic, part.partition)
    advice = f"An end of {{{part.partition}: {offset}}} reads what is before them, a later start what is after them."
    return CorruptRecordError(partition, offset, str(error), advice)


async def _fetch(cluster: Cluster, part: Part, settings: FetchSettings) -> _Slice:
    """One slice from the start of the part on; asked again as long as that helps. Raises KafkaError."""
    backoff = retry_backoff(cluster.settings)
    loop = asyncio.get_running_loop()
    started = loop.time()
    attempts = 0
    while True:
        attempts += 1
        patience = settings.patience_seconds
        pause = 0.0
        try:
            row = await _ask(cluster, part, settings)
            if _is_empty_to_the_end(row, part, settings) and await _is_local(cluster, part):
                return _Slice(b"", (), part.end)  # compaction has left nothing between here and there
        except KafkaError as error:
            failure = error
        else:
            found = _slice(row, part, settings) if not row.error_code else None
            if found is not None and found.next_offset > part.start:
                return found
            failure = _error(row, part) if found is None else _nothing(row, part)
        if failure.code in _NO_SUCH_TOPIC:
            patience = min(patience, _UNKNOWN_TOPIC_SECONDS)
        elif not failure.retriable:
            raise failure
        if failure.code != ErrorCode.OFFSET_NOT_AVAILABLE:
            pause = backoff.seconds(attempts)
            cluster.stale(part.topic)
        elapsed = loop.time() - started
        if elapsed + pause > patience:
            if failure.code in _NO_SUCH_TOPIC:
                raise failure
            raise RequestTimedOutError(
                f"{part.topic}-{part.partition}: {failure.message}", tried=f"{attempts} fetches in {elapsed:.0f} s"
            )
        await asyncio.sleep(pause)


async def _ask(cluster: Cluster, part: Part, settings: FetchSettings) -> PartitionData:
    known = await _topic(cluster, part)
    leader = cluster.metadata.leader(part.topic, part.partition)
    if leader is None:
        raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{part.topic}-{part.partition} has no leader now.")
    row = FetchPartition(
        partition=part.partition,
        current_leader_epoch=known.partitions[part.partition].leader_epoch,
        fetch_offset=part.start,
        partition_max_bytes=settings.slice_bytes,
    )
    request = FetchRequest(
        max_wait_ms=settings.max_wait_ms,
        min_bytes=1,
        max_bytes=settings.slice_bytes,
        isolation_level=int(settings.read_committed),
        topics=[FetchTopic(part.topic, known.id, [row])],
    )
    max_version = _NAMES_ONLY if known.id == ZERO_UUID else None
    while True:
        response: FetchResponse = await cluster.send(leader.id, request, min_version=4, max_version=max_version)
        if response.error_code:
            raise error_for(response.error_code)
        if response.responses:
            return response.responses[0].partitions[0]
        # A quota withholds the answer, and says for how long. However long that is, it is not the log that is stuck.
        await asyncio.sleep(max(response.throttle_time_ms, _LEAST_THROTTLE_MS) / 1000)


async def _topic(cluster: Cluster, part: Part) -> Topic:
    """The topic that the part is of. Raises UnknownTopicError if it is gone, or another has its name."""
    known = await cluster.topic(part.topic)
    if part.topic_id in (ZERO_UUID, known.id):
        return known
    await cluster.refresh()  # what we know may be older than the part
    known = await cluster.topic(part.topic)
    if known.id not in (ZERO_UUID, part.topic_id):
        raise UnknownTopicError(
            ErrorCode.UNKNOWN_TOPIC_ID, f"Topic {part.topic!r} was deleted, and another was made under its name."
        )
    return known


def _is_empty_to_the_end(row: PartitionData, part: Part, settings: FetchSettings) -> bool:
    """Whether nothing came, although it could be read up to the end of the part."""
    end = row.last_stable_offset if settings.read_committed else row.high_watermark
    return not row.error_code and not row.records and end >= part.end


async def _is_local(cluster: Cluster, part: Part) -> bool:
    """Whether the leader has the start of the part, and all that follows, on its own disk.

    KIP-405: of what is in remote storage nothing comes, without an error, if that takes longer than a fetch may wait.
    """
    leader = cluster.metadata.leader(part.topic, part.partition)
    if leader is None:
        raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{part.topic}-{part.partition} has no leader now.")
    wanted = [ListOffsetsTopic(part.topic, [ListOffsetsPartition(part.partition, -1, _EARLIEST_LOCAL)])]
    try:
        response: ListOffsetsResponse = await cluster.send(
            leader.id, ListOffsetsRequest(-1, 0, wanted), min_version=_EARLIEST_LOCAL_SINCE
        )
    except UnsupportedVersionError:
        return True  # a broker without remote storage
    row = response.topics[0].partitions[0]
    if row.error_code:
        raise error_for(row.error_code)
    return row.offset <= part.start


def _slice(row: PartitionData, part: Part, settings: FetchSettings) -> _Slice:
    records = row.records if row.records is not None else b""
    next_offset = part.start
    try:
        for _, header in iter_batches(records):
            next_offset = max(next_offset, header.next_offset)
    except CorruptBatchError as error:
        raise _damaged(part, next_offset, error) from error
    rows = row.aborted_transactions or () if settings.read_committed else ()
    aborted = [(each.producer_id, each.first_offset) for each in rows]
    return _Slice(records, aborted, min(next_offset, part.end))


def _error(row: PartitionData, part: Part) -> KafkaError:
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        begins = f"; it begins at {row.log_start_offset} now" if row.log_start_offset > part.start else ""
        return OffsetOutOfRangeError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{part.topic}-{part.partition} does not hold offset {part.start} any more: retention has deleted it while "
            f"it was read, or the log was cut{begins}. Read again with a later start.",
        )
    return error_for(row.error_code)


def _nothing(row: PartitionData, part: Part) -> KafkaError:
    """Nothing yet: an open transaction, or a high watermark that follows."""
    end = min(row.high_watermark, row.last_stable_offset) if row.last_stable_offset >= 0 else row.high_watermark
    return error_for(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"nothing came from offset {part.start} on, where offsets up to {part.end} are expected; what can be read "
        f"ends at {end}.",
    )
