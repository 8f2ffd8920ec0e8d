"""A client's view of brokers that a test has written: the cluster, and what they say about themselves."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.client.admin_configs import ADMIN_CONFIGS
from headrace.client.cluster import Cluster
from headrace.client.config import Address, load_settings
from headrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_peer import Asked, ScriptedPeer


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(bounded())


def cluster_at(*addresses: Address | str, **configs: Any) -> Cluster:
    return Cluster(load_settings(ADMIN_CONFIGS, [str(address) for address in addresses], {}, configs))


@contextmanager
def dead_address() -> Iterator[Address]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can
        yield Address(*taken.getsockname())


def describe(asked: Asked, *brokers: ScriptedPeer, epoch: int = 0, code: int = 0) -> MetadataResponse:
    """All topics that were asked for, with one partition each, led by broker 0."""
    partition = MetadataResponsePartition(0, 0, 0, epoch, [0], [0], [])
    names = [topic.name for topic in asked.request.topics or ()]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(number, *each.address) for number, each in enumerate(brokers)],
        cluster_id="scripted",
        controller_id=0,
        topics=[MetadataResponseTopic(code, name, partitions=[] if code else [partition]) for name in names],
    )
