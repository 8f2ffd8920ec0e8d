"""Questions to the leaders of partitions: which offset has a time (ListOffsets), where an epoch ends.

A question goes to each leader at once. What a leader refuses, since it is none, is asked again of the one that newer
metadata names, until the time is over.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.errors import KafkaError, RequestTimedOutError, UnknownTopicError, code_of, error_for
from headrace.client.metadata import Partition
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

UNKNOWN_SECONDS: Final = 5.0  # a topic may be so new that not every broker knows it; after that there is none
NOT_FOUND: Final = -1  # an offset: the log has nothing of that time or later

# Asked of the wrong broker, or of one that is not ready yet.
MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class FoundOffset(NamedTuple):
    """The first offset at or after a time, its own timestamp, and the epoch of the leader that wrote it."""

    offset: int
    timestamp: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """Where an epoch ended, -1 if it is not known: the largest epoch not above the one asked for, and its end."""

    leader_epoch: int
    end_offset: int


# (partition, what is known of it) -> the row to ask with.
MakeRow = Callable[[TopicPartition, Partition], Any]
# (rows by topic) -> the request.
MakeRequest = Callable[[Mapping[str, list[Any]]], Any]
# (response) -> each partition with its error code and its answer.
Read = Callable[[Any], Iterable[tuple[TopicPartition, int, Any]]]


class Leaders:
    """On the client's loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._backoff = retry_backoff(cluster.settings)
        self._isolation = int(cluster.settings.text("isolation.level") == "read_committed")
        self._request_timeout_ms = cluster.settings.number("request.timeout.ms")

    async def offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, FoundOffset]:
        """By time in milliseconds, or EARLIEST and LATEST, whose timestamp is -1. Raises KafkaError."""

        def request(topics: Mapping[str, list[Any]]) -> ListOffsetsRequest:
            rows = [ListOffsetsTopic(*item) for item in topics.items()]
            return ListOffsetsRequest(-1, self._isolation, rows, self._request_timeout_ms)

        return await self._ask(
            timestamps,
            lambda partition, known: ListOffsetsPartition(
                partition.partition, known.leader_epoch, timestamps[partition]
            ),
            request,
            _read_offsets,
            timeout,
        )

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int], timeout: float) -> dict[TopicPartition, EpochEnd]:
        """Where these epochs ended in the logs of today's leaders. Raises KafkaError."""
        return await self._ask(
            epochs,
            lambda partition, known: OffsetForLeaderPartition(
                partition.partition, known.leader_epoch, epochs[partition]
            ),
            lambda topics: OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(*item) for item in topics.items()]),
            _read_ends,
            timeout,
        )

    async def _ask(
        self,
        partitions: Iterable[TopicPartition],
        make_row: MakeRow,
        make_request: MakeRequest,
        read: Read,
        timeout: float,
    ) -> dict[TopicPartition, Any]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        left = list(dict.fromkeys(partitions))
        answers: dict[TopicPartition, Any] = {}
        attempts = 0
        last: KafkaError | None = None
        while left:
            attempts += 1
            try:
                async with asyncio.timeout(max(0.0, started + timeout - loop.time())):
                    await self._attempt(left, make_row, make_request, read, answers)
                return answers
            except TimeoutError:
                failure = last or RequestTimedOutError(f"Not all leaders answered within {timeout:g} s.")
                failure.tried = failure.tried or f"{attempts} attempts in {timeout:g} s"
                raise failure from None  # the error of the attempt before tells why the time was not enough
            except KafkaError as error:
                last = error
                pause = self._backoff.seconds(attempts)
                elapsed = loop.time() - started
                limit = min(timeout, UNKNOWN_SECONDS) if isinstance(error, UnknownTopicError) else timeout
                if not (error.retriable or error.code in MOVED) or elapsed + pause >= limit:
                    error.tried = error.tried or f"{attempts} attempts in {elapsed:.1f} s"
                    raise
            left = [partition for partition in left if partition not in answers]
            await asyncio.sleep(pause)
        return answers

    async def _attempt(
        self,
        partitions: list[TopicPartition],
        make_row: MakeRow,
        make_request: MakeRequest,
        read: Read,
        answers: dict[TopicPartition, Any],
    ) -> None:
        """Add what is answered to `answers`. Raises the first error, after all have answered."""
        failures: list[KafkaError] = []
        by_leader = await self._by_leader(partitions, make_row, failures)
        responses = await asyncio.gather(
            *(self._cluster.send(leader, make_request(topics)) for leader, topics in by_leader.items()),
            return_exceptions=True,
        )
        for response in responses:
            if isinstance(response, KafkaError):
                failures.append(response)
            elif isinstance(response, BaseException):
                raise response
            else:
                for partition, code, answer in read(response):
                    if code:
                        self._cluster.stale(partition.topic)
                        failures.append(error_for(code, f"{partition}: {code_of(code).meaning}"))
                    else:
                        answers[partition] = answer
        if failures:
            hopeless = (each for each in failures if not (each.retriable or each.code in MOVED))
            raise next(hopeless, failures[0])

    async def _by_leader(
        self, partitions: list[TopicPartition], make_row: MakeRow, failures: list[KafkaError]
    ) -> dict[int, dict[str, list[Any]]]:
        """Leader -> topic -> rows; what has no leader is among the failures."""
        cluster = self._cluster
        for topic in {partition.topic for partition in partitions}:
            await cluster.topic(topic)
        if any(cluster.metadata.leader(*partition) is None for partition in partitions):
            await cluster.refresh()
        by_leader: dict[int, dict[str, list[Any]]] = {}
        for partition in partitions:
            known = cluster.metadata.partition(*partition)
            if known is None:
                failures.append(
                    UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition}.")
                )
            elif known.leader not in cluster.metadata.brokers:
                failures.append(error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment."))
            else:
                topics = by_leader.setdefault(known.leader, {})
                topics.setdefault(partition.topic, []).append(make_row(partition, known))
        return by_leader


def _read_offsets(response: ListOffsetsResponse) -> Iterable[tuple[TopicPartition, int, FoundOffset]]:
    for topic in response.topics:
        for row in topic.partitions:
            found = FoundOffset(row.offset, row.timestamp, row.leader_epoch)
            yield TopicPartition(topic.name, row.partition_index), row.error_code, found


def _read_ends(response: OffsetForLeaderEpochResponse) -> Iterable[tuple[TopicPartition, int, EpochEnd]]:
    for topic in response.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.topic, row.partition), row.error_code, EpochEnd(row.leader_epoch, row.end_offset)
