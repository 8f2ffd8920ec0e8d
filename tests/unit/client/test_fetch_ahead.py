"""Fetching goes on ahead of the user, who has the first word when a little has come."""

import asyncio

from headrace import aio
from headrace.client.topic_partition import TopicPartition
from tests.support.scripted_cluster import TOPIC, ScriptedCluster

PLACE = TopicPartition(TOPIC, 0)


async def until_asked_for(cluster: ScriptedCluster, offset: int) -> None:
    async with asyncio.timeout(60):
        while all(fetch.offset != offset for fetch in cluster.fetches):
            await asyncio.sleep(0.001)


def wait(consumer: aio.Consumer) -> None:
    """Like somebody who polls, but never takes anything."""
    assert consumer._inbox.when_ready(lambda: wait(consumer), seen=consumer._inbox.changes)


def test_fetching_goes_on_when_what_came_is_taken() -> None:
    async def story() -> None:
        async with ScriptedCluster([]) as cluster, aio.Consumer(cluster.bootstrap) as consumer:
            await consumer.assign([PLACE])
            await consumer.seek(PLACE, 0)
            for offset in range(3):
                polled = asyncio.create_task(consumer.poll(60.0))
                while not consumer._inbox.is_waited_for:
                    await asyncio.sleep(0)
                cluster.logs[0] = [*cluster.logs[0], (0, b"a")]
                assert [record.offset for record in await polled] == [offset]
                await until_asked_for(cluster, offset + 1)

    asyncio.run(story())


def test_fetching_goes_on_though_nobody_takes_what_came() -> None:
    """As when the wait of a poll ends in the same moment."""

    async def story() -> None:
        async with ScriptedCluster([]) as cluster, aio.Consumer(cluster.bootstrap) as consumer:
            await consumer.assign([PLACE])
            await consumer.seek(PLACE, 0)
            wait(consumer)
            cluster.logs[0] = [(0, b"a")]
            await until_asked_for(cluster, 1)

    asyncio.run(story())
