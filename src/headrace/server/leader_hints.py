"""Where a client should go instead: who leads a partition, and where that node listens (KIP-951)."""

from typing import NamedTuple

from headrace.cluster.image import NO_LEADER, Image


class LeaderHint(NamedTuple):
    leader_id: int
    leader_epoch: int


class NodeHint(NamedTuple):
    """In the order of NodeEndpoint in the responses."""

    node_id: int
    host: str
    port: int
    rack: str | None


def leader_of(image: Image, topic: str | bytes, index: int) -> LeaderHint | None:
    """The leader as the image has it; None if there is none, or no such partition."""
    topic_id = image.topic_ids.get(topic) if isinstance(topic, str) else topic
    found = None if topic_id is None else image.topics.get(topic_id)
    partition = None if found is None else found.partitions.get(index)
    if partition is None or partition.leader == NO_LEADER:
        return None
    return LeaderHint(partition.leader, partition.leader_epoch)


def nodes(image: Image, node_ids: set[int], listener: str) -> list[NodeHint]:
    """How a client of this listener reaches these nodes, as far as they have it."""
    return [
        NodeHint(node_id, endpoint.host, endpoint.port, broker.rack)
        for node_id in sorted(node_ids)
        if (broker := image.brokers.get(node_id)) is not None
        for endpoint in broker.listeners
        if endpoint.name == listener
    ]
