"""Admin calls about partitions: offsets, deleting records, producers, elections, moving replicas."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headrace.client.admin_calls import AdminCalls, no_codes, settle, top_code
from headrace.client.errors import KafkaError, error_for, raise_for
from headrace.client.topic_partition import TopicPartition, as_partition, as_partitions, by_topic
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import (
    alter_partition_reassignments,
    delete_records,
    describe_producers,
    elect_leaders,
    list_offsets,
    list_partition_reassignments,
)

# What to ask for instead of a time, with Kafka's numbers.
OFFSET_SPECS: Final = {
    "latest": -1,
    "earliest": -2,
    "max_timestamp": -3,
    "earliest_local": -4,
    "latest_tiered": -5,
}
_SPEC_SINCE: Final = {-3: 7, -4: 8, -5: 9}  # the first version of ListOffsets that knows them


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """`offset` is -1 if no record is that late; `timestamp_ms` -1 where it was not asked for by time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a partition knows of a producer; `transaction_start_offset` is -1 if it has no open transaction here."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


@dataclass(frozen=True, slots=True)
class Reassignment:
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionCalls(AdminCalls):
    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, str | int | datetime],
        *,
        read_committed: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets of partitions: `latest`, `earliest`, `max_timestamp`, or the first at or after a point in time.

        A time is a datetime or milliseconds since 1970. With `read_committed`, latest is where open transactions begin.
        """
        times = {as_partition(partition): _timestamp(spec) for partition, spec in wanted.items()}

        def request(topics: Mapping[str, list[int]]) -> list_offsets.ListOffsetsRequest:
            rows = [
                list_offsets.ListOffsetsTopic(
                    topic,
                    [
                        list_offsets.ListOffsetsPartition(number, -1, times[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in topics.items()
            ]
            # The time-out is only for tiered storage, and only in the latest versions.
            return list_offsets.ListOffsetsRequest(-1, int(read_committed), rows)

        def read(response: list_offsets.ListOffsetsResponse) -> Iterable[tuple[TopicPartition, object]]:
            for topic in response.topics:
                for row in topic.partitions:
                    error = _error(row.error_code, topic.name, row.partition_index)
                    yield (
                        TopicPartition(topic.name, row.partition_index),
                        error or ListedOffset(row.offset, row.timestamp, row.leader_epoch),
                    )

        since = max((_SPEC_SINCE.get(time, 2) for time in times.values()), default=2)
        return settle(await self._leaders(times, request, read, timeout, min_version=since), "partitions")

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete what is before an offset, exclusive; -1 is everything that consumers can see.

        The result is the lowest offset of each partition then.
        """
        offsets = {as_partition(partition): offset for partition, offset in before.items()}

        def request(topics: Mapping[str, list[int]]) -> delete_records.DeleteRecordsRequest:
            rows = [
                delete_records.DeleteRecordsTopic(
                    topic,
                    [
                        delete_records.DeleteRecordsPartition(number, offsets[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in topics.items()
            ]
            return delete_records.DeleteRecordsRequest(rows, self._request_timeout_ms)

        def read(response: delete_records.DeleteRecordsResponse) -> Iterable[tuple[TopicPartition, object]]:
            for topic in response.topics:
                for row in topic.partitions:
                    error = _error(row.error_code, topic.name, row.partition_index)
                    yield TopicPartition(topic.name, row.partition_index), error or row.low_watermark

        return settle(await self._leaders(offsets, request, read, timeout), "partitions")

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Who writes to these partitions with idempotence or transactions, as their leaders remember it."""

        def request(topics: Mapping[str, list[int]]) -> describe_producers.DescribeProducersRequest:
            return describe_producers.DescribeProducersRequest(
                [describe_producers.TopicRequest(topic, numbers) for topic, numbers in topics.items()]
            )

        def read(response: describe_producers.DescribeProducersResponse) -> Iterable[tuple[TopicPartition, object]]:
            for topic in response.topics:
                for row in topic.partitions:
                    error = _error(row.error_code, topic.name, row.partition_index, row.error_message)
                    states = [ProducerState(*producer[:6]) for producer in row.active_producers]
                    yield TopicPartition(topic.name, row.partition_index), error or states

        wanted = as_partitions(partitions)
        return settle(await self._leaders(wanted, request, read, timeout), "partitions")

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Let the preferred replicas lead, in these partitions or in all; False where they do so already.

        `unclean` elects a replica that is not in sync, for partitions without a leader: records may be lost.
        """
        rows = (
            None
            if partitions is None
            else [elect_leaders.TopicPartitions(*row) for row in by_topic(as_partitions(partitions)).items()]
        )
        request = elect_leaders.ElectLeadersRequest(int(unclean), rows, self._request_timeout_ms)
        response: elect_leaders.ElectLeadersResponse = await self._controller(request, top_code, timeout)
        raise_for(response.error_code)
        results: dict[TopicPartition, bool | KafkaError] = {}
        for topic in response.replica_election_results:
            for row in topic.partition_result:
                partition = TopicPartition(topic.topic, row.partition_id)
                if row.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                    results[partition] = False
                elif row.error_code:
                    results[partition] = _at(partition, row.error_code, row.error_message)
                else:
                    results[partition] = True
        return settle(results, "partitions")

    async def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout: float | None = None
    ) -> None:
        """Move partitions to these brokers, the preferred leader first; None cancels what is under way."""
        chosen = {as_partition(partition): brokers for partition, brokers in replicas.items()}
        rows = [
            alter_partition_reassignments.ReassignableTopic(
                topic,
                [
                    alter_partition_reassignments.ReassignablePartition(
                        number, None if (brokers := chosen[TopicPartition(topic, number)]) is None else list(brokers)
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(chosen).items()
        ]
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            self._request_timeout_ms, topics=rows
        )
        response: alter_partition_reassignments.AlterPartitionReassignmentsResponse = await self._controller(
            request, top_code, timeout
        )
        raise_for(response.error_code, response.error_message)
        settle(
            {
                (partition := TopicPartition(topic.name, row.partition_index)): _at(
                    partition, row.error_code, row.error_message
                )
                if row.error_code
                else None
                for topic in response.responses
                for row in topic.partitions
            },
            "partitions",
        )

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way, of these partitions or of all."""
        rows = (
            None
            if partitions is None
            else [
                list_partition_reassignments.ListPartitionReassignmentsTopics(*row)
                for row in by_topic(as_partitions(partitions)).items()
            ]
        )
        request = list_partition_reassignments.ListPartitionReassignmentsRequest(self._request_timeout_ms, rows)
        response: list_partition_reassignments.ListPartitionReassignmentsResponse = await self._controller(
            request, top_code, timeout
        )
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }

    async def alter_replica_log_dirs(
        self, paths: Mapping[tuple[int, TopicPartition], str], *, timeout: float | None = None
    ) -> None:
        """Move replicas between directories of a broker: (broker, partition) -> the directory where it shall live."""
        from headrace.protocol.messages import alter_replica_log_dirs as messages

        results: dict[tuple[int, TopicPartition], KafkaError | None] = {}
        for broker in sorted({broker for broker, _ in paths}):
            mine = {as_partition(partition): path for (owner, partition), path in paths.items() if owner == broker}
            directories = [
                messages.AlterReplicaLogDir(
                    path,
                    [
                        messages.AlterReplicaLogDirTopic(topic, numbers)
                        for topic, numbers in by_topic(each for each, to in mine.items() if to == path).items()
                    ],
                )
                for path in dict.fromkeys(mine.values())
            ]
            response: messages.AlterReplicaLogDirsResponse = await self._broker(
                broker, messages.AlterReplicaLogDirsRequest(directories), no_codes, timeout
            )
            for topic in response.results:
                for row in topic.partitions:
                    partition = TopicPartition(topic.topic_name, row.partition_index)
                    results[broker, partition] = _at(partition, row.error_code) if row.error_code else None
        settle(results, "replicas")


def _timestamp(spec: str | int | datetime) -> int:
    if isinstance(spec, datetime):
        return int(spec.timestamp() * 1000)
    if isinstance(spec, str):
        try:
            return OFFSET_SPECS[spec]
        except KeyError:
            raise ValueError(f"{spec!r} is not one of {', '.join(OFFSET_SPECS)}, nor a time") from None
    return spec


def _error(code: int, topic: str, number: int, message: str | None = None) -> KafkaError | None:
    return _at(TopicPartition(topic, number), code, message) if code else None


def _at(partition: TopicPartition, code: int, message: str | None = None) -> KafkaError:
    error = error_for(code, message)
    error.message = f"{partition}: {error.message}"
    return error
