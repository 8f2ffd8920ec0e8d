"""What is known of the cluster: an immutable snapshot of brokers, topics and leaders, and how an answer renews it.

Answers of different brokers may be of different age. So for each partition the newer leader epoch wins (KIP-320): an
answer with an older one changes nothing, unless the topic was deleted and made anew, which its id tells.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from headrace.client.config import Address
from headrace.client.errors import code_of
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from headrace.protocol.types import ZERO_UUID

NO_LEADER: Final = -1
NO_EPOCH: Final = -1


class Node(NamedTuple):
    """A broker. Bootstrap addresses, whose ids are not known yet, have negative ids."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


class Partition(NamedTuple):
    """`leader` is -1 if there is none at the moment, `leader_epoch` -1 if the broker does not tell."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode


class Topic(NamedTuple):
    """`id` is 16 zero bytes where the broker has no ids; with an `error` there are no partitions."""

    name: str
    id: bytes
    is_internal: bool
    partitions: Mapping[int, Partition]
    error: ErrorCode
    authorized_operations: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """`topics` holds those that were asked for, also those that came with an error; `brokers` are by id."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, Topic] = field(default_factory=lambda: MappingProxyType({}))
    names_by_id: Mapping[bytes, str] = field(default_factory=lambda: MappingProxyType({}))

    def topic(self, name: str) -> Topic | None:
        """The topic, if it is known and without an error."""
        topic = self.topics.get(name)
        return topic if topic is not None and topic.error is ErrorCode.NONE else None

    def partition(self, topic: str, number: int) -> Partition | None:
        known = self.topics.get(topic)
        return None if known is None else known.partitions.get(number)

    def leader(self, topic: str, number: int) -> Node | None:
        """The broker that leads the partition, if there is one and it is known."""
        known = self.topics.get(topic)
        partition = None if known is None else known.partitions.get(number)
        return None if partition is None else self.brokers.get(partition.leader)

    def renewed(self, response: MetadataResponse, *, asked: Collection[str] | None) -> "Metadata":
        """What is known after this answer to a question about `asked` topics; None means about all of them.

        Topics that were not asked for stay as they are, unless all were.
        """
        topics = {} if asked is None else dict(self.topics)
        for row in response.topics:
            if row.name is not None:
                topics[row.name] = _topic(row, self.topics.get(row.name))
        return Metadata(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers=MappingProxyType({row.node_id: Node(*row[:4]) for row in response.brokers}),
            topics=MappingProxyType(topics),
            names_by_id=_names_by_id(topics.values()),
        )

    def without(self, names: Iterable[str]) -> "Metadata":
        """The same without these topics."""
        topics = {name: topic for name, topic in self.topics.items() if name not in set(names)}
        return replace(self, topics=MappingProxyType(topics), names_by_id=_names_by_id(topics.values()))

    def with_leader(
        self, topic: str, number: int, *, leader: int, leader_epoch: int, nodes: Iterable[Node] = ()
    ) -> "Metadata":
        """What a Produce or Fetch answer tells about a moved leader (KIP-951); self if it is not news."""
        known = self.topics.get(topic)
        partition = None if known is None else known.partitions.get(number)
        if known is None or partition is None or leader_epoch <= partition.leader_epoch:
            return self
        brokers = {**self.brokers, **{node.id: node for node in nodes}}
        if leader not in brokers:
            return self
        moved = partition._replace(leader=leader, leader_epoch=leader_epoch, error=ErrorCode.NONE)
        changed = known._replace(partitions=MappingProxyType({**known.partitions, number: moved}))
        return replace(
            self,
            brokers=MappingProxyType(brokers),
            topics=MappingProxyType({**self.topics, topic: changed}),
        )


def _names_by_id(topics: Iterable[Topic]) -> Mapping[bytes, str]:
    return MappingProxyType({topic.id: topic.name for topic in topics if topic.id != ZERO_UUID})


def _topic(row: MetadataResponseTopic, known: Topic | None) -> Topic:
    is_same = known is not None and known.id == row.topic_id
    partitions = {}
    for partition in row.partitions:
        before = known.partitions.get(partition.partition_index) if known is not None and is_same else None
        partitions[partition.partition_index] = _partition(partition, before)
    return Topic(
        name=row.name or "",
        id=row.topic_id,
        is_internal=row.is_internal,
        partitions=MappingProxyType(dict(sorted(partitions.items()))),
        error=code_of(row.error_code),
        authorized_operations=row.topic_authorized_operations,
    )


def _partition(row: MetadataResponsePartition, before: Partition | None) -> Partition:
    if before is not None and NO_EPOCH < row.leader_epoch < before.leader_epoch:
        return before  # the answer is older than what is known
    return Partition(
        number=row.partition_index,
        leader=row.leader_id,
        leader_epoch=row.leader_epoch,
        replicas=tuple(row.replica_nodes),
        isr=tuple(row.isr_nodes),
        offline=tuple(row.offline_replicas),
        error=code_of(row.error_code),
    )
