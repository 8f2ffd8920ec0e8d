"""Fetches that cannot be sent: the user hears of it, and what can be sent later is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from headrace import aio
from headrace.client.errors import UnsupportedVersionError
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.errors import EncodeError
from tests.support.scripted_cluster import TOPIC, ScriptedCluster
from tests.support.scripted_peer import ALL_VERSIONS

PLACE: Final = TopicPartition(TOPIC, 0)
FETCH: Final = 1
SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken


def run(story: Callable[[ScriptedCluster], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS), ScriptedCluster([(0, b"a")]) as cluster:
            await story(cluster)

    asyncio.run(bounded())


def reader(cluster: ScriptedCluster) -> aio.Consumer:
    configs: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 1, "retry_backoff_max_ms": 10}
    return aio.Consumer(cluster.bootstrap, **configs)


def test_a_broker_that_is_too_old_is_named_at_each_poll() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        cluster.peers[0]._ranges = {**ALL_VERSIONS, FETCH: (0, 3)}
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            for _ in range(2):
                with pytest.raises(UnsupportedVersionError, match="serves Fetch in versions 0-3"):
                    await consumer.poll(SECONDS)

    run(story)


def test_an_offset_that_does_not_fit_is_told_and_another_one_is_read() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            await consumer.seek(PLACE, 1 << 63)
            with pytest.raises(EncodeError, match="fetch_offset"):
                await consumer.poll(SECONDS)
            await consumer.seek(PLACE, 0)
            while True:
                try:
                    records = await consumer.poll(SECONDS)
                except EncodeError:
                    continue  # it came a second time before the seek
                assert [record.value for record in records] == [b"a"]
                break

    run(story)
