"""The topics of a group as a member sees them: those it wants, and, at the leader, the partitions of all of them."""

from collections.abc import Iterable

from headrace.client.cluster import Cluster
from headrace.client.metadata import Metadata
from headrace.client.subscriptions import Mode, Subscriptions

Layout = dict[str, list[frozenset[str]]]


class GroupTopics:
    """On the client's loop."""

    def __init__(self, cluster: Cluster, subscriptions: Subscriptions) -> None:
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._hides_internal = cluster.settings.flag("exclude.internal.topics")
        self._all: frozenset[str] = frozenset()  # topics that any member wants; known to the leader only
        self._seen: Layout | None = None  # their partitions when they were assigned; None until they are known

    def track(self) -> None:
        """Let the metadata hold what the subscription needs."""
        mode = self._subscriptions.mode
        self._cluster.track_all(mode in (Mode.PATTERN, Mode.BROKER_PATTERN))
        if mode is Mode.TOPICS:
            self._cluster.track(self._subscriptions.topics)

    @property
    def broker_pattern(self) -> str | None:
        """What the broker matches, instead of us."""
        return self._subscriptions.broker_pattern

    def wanted(self) -> frozenset[str]:
        """What is subscribed to; of a pattern, the topics that match as far as the metadata knows."""
        if self._subscriptions.mode is Mode.PATTERN:
            self._subscriptions.match(self._matchable(self._cluster.metadata))
        return self._subscriptions.topics

    async def find(self) -> frozenset[str]:
        """The same, after the cluster was asked if need be. Raises KafkaError."""
        if self._subscriptions.mode is Mode.PATTERN and self._cluster.updated_at is None:
            await self._cluster.refresh()
        return self.wanted()

    def _matchable(self, metadata: Metadata) -> Iterable[str]:
        return (
            name
            for name, topic in metadata.topics.items()
            if not (topic.error or (topic.is_internal and self._hides_internal))
        )

    async def layout(self, topics: frozenset[str]) -> Layout:
        """The partitions of all topics of the group, with their racks; asked for as far as they are not known."""
        self._all = topics
        self._seen = None
        self._cluster.track(topics)
        if not all(self._cluster.metadata.topic(name) for name in topics):
            await self._cluster.refresh()  # a topic that does not exist is not there afterwards, either
        self._seen = found = self._look()
        return found

    def has_changed(self) -> bool:
        """Whether the partitions are others than those that were assigned."""
        return self._seen is not None and self._look() != self._seen

    def _look(self) -> Layout:
        metadata = self._cluster.metadata
        layout: Layout = {}
        for name in sorted(self._all):
            topic = metadata.topic(name)
            if topic is not None:
                layout[name] = [
                    frozenset(
                        node.rack
                        for replica in partition.replicas
                        if (node := metadata.brokers.get(replica)) is not None and node.rack
                    )
                    for partition in topic.partitions.values()
                ]
        return layout
