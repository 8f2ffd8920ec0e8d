"""Metadata images with topics and brokers, as much as group coordinators look at."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from headrace.cluster.image import EMPTY_IMAGE, Broker, ConfigKind, ConfigResource, Image, Partition, Topic


def topic_id(name: str) -> bytes:
    """Always the same for the same name."""
    return blake2b(name.encode(), digest_size=16).digest()


def image_of(
    topics: Mapping[str, int | Sequence[Sequence[int]]],
    racks: Mapping[int, str | None] | None = None,
    *,
    ids: Mapping[str, bytes] | None = None,
    group_configs: Mapping[str, Mapping[str, str]] | None = None,
) -> Image:
    """`topics` have a number of partitions, or the replicas of each; `racks` are those of the brokers."""
    made = {}
    for name, partitions in topics.items():
        replicas = [[1]] * partitions if isinstance(partitions, int) else partitions
        identity = topic_id(name) if ids is None or name not in ids else ids[name]
        made[identity] = Topic(name, identity, {index: _partition(each) for index, each in enumerate(replicas)})
    return EMPTY_IMAGE._replace(
        features={"metadata.version": 30, "group.version": 1},
        topics=made,
        topic_ids={topic.name: identity for identity, topic in made.items()},
        brokers={number: _broker(number, rack) for number, rack in (racks or {1: None}).items()},
        configs={ConfigResource(ConfigKind.GROUP, name): configs for name, configs in (group_configs or {}).items()},
    )


def _partition(replicas: Sequence[int]) -> Partition:
    return Partition(tuple(replicas), tuple(replicas), replicas[0], 0, 0, (bytes(16),) * len(replicas))


def _broker(number: int, rack: str | None) -> Broker:
    return Broker(number, 1, bytes(16), (), (), rack, False, False, (), None, False)
