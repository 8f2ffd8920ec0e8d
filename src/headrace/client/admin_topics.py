"""Admin calls about topics: create, delete, list, describe, more partitions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.client.admin_calls import AdminCalls, failure, no_codes, settle, topic_error
from headrace.client.errors import KafkaError, UnsupportedVersionError, code_of
from headrace.client.several import several
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from headrace.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from headrace.protocol.messages.metadata import MetadataResponseTopic
from headrace.protocol.types import uuid_to_text

BROKER_DEFAULT: Final = -1  # of partitions and replication
PAGE_PARTITIONS: Final = 2000  # per answer, when topics are described; Kafka's own limit
_NO_OPERATIONS: Final = -(1 << 31)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; partitions and replication that are left out are the broker's to choose.

    `assignments` says for each partition on which brokers its replicas live, instead of the two numbers.
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication: int = BROKER_DEFAULT
    configs: Mapping[str, object] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What became of it; partitions and replication are -1 where the broker does not tell them."""

    name: str
    id: str
    partitions: int
    replication: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    id: str
    is_internal: bool
    partitions: int
    replication: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """`leader` is -1 if there is none. Eligible leaders are None where the broker does not know them (KIP-966)."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    eligible_leaders: tuple[int, ...] | None
    last_known_eligible_leaders: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """`authorized_operations` is None unless it was asked for."""

    name: str
    id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[int] | None


class TopicCalls(AdminCalls):
    async def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        replication: int = BROKER_DEFAULT,
        configs: Mapping[str, object] | None = None,
        *,
        assignments: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> CreatedTopic:
        """Create a topic. Raises TopicExistsError, InvalidTopicError and others."""
        topic = NewTopic(name, partitions, replication, configs or {}, assignments)
        return (await self.create_topics([topic], validate_only=validate_only, timeout=timeout))[name]

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics, each on its own; with `validate_only` only say whether it would work."""
        request = CreateTopicsRequest(
            [_creatable(topic) for topic in several(topics, NewTopic, "topics")],
            self._request_timeout_ms,
            validate_only,
        )
        response: CreateTopicsResponse = await self._controller(
            request, lambda response: [row.error_code for row in response.topics], timeout
        )
        return settle({row.name: _created(row) for row in response.topics}, "topics")

    async def delete_topic(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a topic and its records. Raises UnknownTopicError."""
        await self.delete_topics([name], timeout=timeout)

    async def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete topics and their records, each on its own."""
        wanted = list(dict.fromkeys(several(names, str, "topics")))
        response: DeleteTopicsResponse
        try:
            request = DeleteTopicsRequest(
                [DeleteTopicState(name=name) for name in wanted], timeout_ms=self._request_timeout_ms
            )
            response = await self._controller(request, _deletion_codes, timeout, min_version=6)
        except UnsupportedVersionError:
            request = DeleteTopicsRequest(topic_names=wanted, timeout_ms=self._request_timeout_ms)
            response = await self._controller(request, _deletion_codes, timeout, max_version=5)
        settle(
            {
                row.name: topic_error(row.name or "", row.error_code, row.error_message) if row.error_code else None
                for row in response.responses
            },
            "topics",
        )

    async def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[TopicListing]:
        """All topics by name; internal ones only if asked for."""

        async def attempt() -> Sequence[MetadataResponseTopic]:
            return await self._ask_for_topics(None)

        rows = await self._repeat(attempt, timeout)
        listings = [
            TopicListing(
                name=row.name or "",
                id=uuid_to_text(row.topic_id),
                is_internal=row.is_internal,
                partitions=len(row.partitions),
                replication=max((len(partition.replica_nodes) for partition in row.partitions), default=0),
            )
            for row in rows
            if not row.error_code and (internal or not row.is_internal)
        ]
        return sorted(listings, key=lambda listing: listing.name)

    async def describe_topic(self, name: str, *, timeout: float | None = None) -> TopicDescription:
        """One topic and its partitions. Raises UnknownTopicError."""
        return (await self.describe_topics([name], timeout=timeout))[name]

    async def describe_topics(
        self, names: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Topics and their partitions, by name; all of them if none is named."""
        if names is None:
            listed = await self.list_topics(internal=True, timeout=timeout)
            names = [listing.name for listing in listed]
        wanted = list(dict.fromkeys(several(names, str, "topics")))
        if not wanted:
            return {}
        try:
            rows = await self._describe_pages(wanted, timeout)
        except UnsupportedVersionError:  # before Kafka 3.8
            return settle(await self._describe_by_metadata(wanted, timeout), "topics")
        return settle({name: rows[name] for name in wanted}, "topics")

    async def _describe_pages(
        self, names: Sequence[str], timeout: float | None
    ) -> dict[str, TopicDescription | KafkaError]:
        """By DescribeTopicPartitions, which gives many partitions in pages."""
        described: dict[str, TopicDescription | KafkaError] = {}
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                [TopicRequest(name) for name in sorted(names)], PAGE_PARTITIONS, cursor
            )
            response: DescribeTopicPartitionsResponse = await self._any(request, no_codes, timeout)
            for row in response.topics:
                name = row.name or ""
                before = described.get(name)
                described[name] = _described(row, before if isinstance(before, TopicDescription) else None)
            cursor = response.next_cursor
            if cursor is None:
                break
        lost = code_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {name: described.get(name) or topic_error(name, lost) for name in names}

    async def _describe_by_metadata(
        self, names: Sequence[str], timeout: float | None
    ) -> dict[str, TopicDescription | KafkaError]:
        async def attempt() -> Sequence[MetadataResponseTopic]:
            return await self._ask_for_topics(names)

        rows = {row.name: row for row in await self._repeat(attempt, timeout)}
        return {name: _described_by_metadata(rows[name]) for name in names}

    async def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Give topics more partitions: `totals` says how many each shall have then.

        `assignments` names the brokers of each new partition of a topic. Keys move to other partitions by this.
        """
        chosen = assignments or {}
        rows = [
            CreatePartitionsTopic(
                name,
                total,
                [CreatePartitionsAssignment(list(brokers)) for brokers in chosen[name]] if name in chosen else None,
            )
            for name, total in totals.items()
        ]
        response: CreatePartitionsResponse = await self._controller(
            CreatePartitionsRequest(rows, self._request_timeout_ms, validate_only),
            lambda response: [row.error_code for row in response.results],
            timeout,
        )
        settle(
            {
                row.name: topic_error(row.name, row.error_code, row.error_message) if row.error_code else None
                for row in response.results
            },
            "topics",
        )


def _creatable(topic: NewTopic) -> CreatableTopic:
    is_assigned = bool(topic.assignments)
    return CreatableTopic(
        topic.name,
        BROKER_DEFAULT if is_assigned else topic.partitions,
        BROKER_DEFAULT if is_assigned else topic.replication,
        [CreatableReplicaAssignment(number, list(brokers)) for number, brokers in enumerate(topic.assignments)],
        [CreatableTopicConfig(name, config_text(value)) for name, value in topic.configs.items()],
    )


def config_text(value: object) -> str | None:
    """A config's value as it would stand in a file."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _created(row: CreatableTopicResult) -> CreatedTopic | KafkaError:
    if row.error_code:
        return topic_error(row.name, row.error_code, row.error_message)
    return CreatedTopic(
        name=row.name,
        id=uuid_to_text(row.topic_id),
        partitions=row.num_partitions,
        replication=row.replication_factor,
        configs={config.name: config.value for config in row.configs or ()},
    )


def _deletion_codes(response: DeleteTopicsResponse) -> list[int]:
    return [row.error_code for row in response.responses]


def _described(
    row: DescribeTopicPartitionsResponseTopic, before: TopicDescription | None
) -> TopicDescription | KafkaError:
    """The topic, with the partitions of the pages before this one."""
    if row.error_code:
        return topic_error(row.name or "", row.error_code)
    known = () if before is None else before.partitions
    return TopicDescription(
        name=row.name or "",
        id=uuid_to_text(row.topic_id),
        is_internal=row.is_internal,
        partitions=(*known, *map(_partition, row.partitions)),
        authorized_operations=_operations(row.topic_authorized_operations),
    )


def _partition(row: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        number=row.partition_index,
        leader=row.leader_id,
        leader_epoch=row.leader_epoch,
        replicas=tuple(row.replica_nodes),
        isr=tuple(row.isr_nodes),
        offline=tuple(row.offline_replicas),
        eligible_leaders=None if row.eligible_leader_replicas is None else tuple(row.eligible_leader_replicas),
        last_known_eligible_leaders=None if row.last_known_elr is None else tuple(row.last_known_elr),
    )


def _described_by_metadata(row: MetadataResponseTopic) -> TopicDescription | KafkaError:
    partitions = (
        PartitionDescription(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            None,
            None,
        )
        for each in sorted(row.partitions, key=lambda each: each.partition_index)
    )
    return failure(row.error_code) or TopicDescription(
        name=row.name or "",
        id=uuid_to_text(row.topic_id),
        is_internal=row.is_internal,
        partitions=tuple(partitions),
        authorized_operations=_operations(row.topic_authorized_operations),
    )


def _operations(bits: int) -> frozenset[int] | None:
    """The operations of a bit field; Kafka's numbers of ACL operations."""
    return None if bits == _NO_OPERATIONS else frozenset(bit for bit in range(31) if bits & 1 << bit)
