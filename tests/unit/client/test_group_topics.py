"""The topics of a group as its members see them."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from headrace import Broker
from headrace.client.cluster import Cluster
from headrace.client.config import load_settings
from headrace.client.consumer_configs import CONSUMER_CONFIGS
from headrace.client.group_topics import GroupTopics
from headrace.client.subscriptions import Subscriptions


def run(story: Callable[[Broker, Cluster], Awaitable[None]], **configs: Any) -> None:
    async def bounded(broker: Broker) -> None:
        cluster = Cluster(load_settings(CONSUMER_CONFIGS, broker.address, {}, configs))
        async with asyncio.timeout(60):
            await story(broker, cluster)
        await cluster.close()

    with Broker() as broker:
        broker.create_topic("orders", 2)
        asyncio.run(bounded(broker))


def test_asking_for_the_partitions_is_no_change_of_them() -> None:
    """The leader would join again, and everybody with it, only since it has learnt what it asked for."""

    async def story(_: Broker, cluster: Cluster) -> None:
        topics = GroupTopics(cluster, Subscriptions())
        has_changed: list[bool] = []
        cluster.add_listener(lambda _: has_changed.append(topics.has_changed()))
        assert await topics.layout(frozenset({"orders"})) == {"orders": [frozenset(), frozenset()]}
        assert has_changed
        assert not any(has_changed)
        assert not topics.has_changed()

    run(story)


def test_more_partitions_and_new_topics_are_a_change() -> None:
    async def story(broker: Broker, cluster: Cluster) -> None:
        topics = GroupTopics(cluster, Subscriptions())
        assert list(await topics.layout(frozenset({"orders", "later"}))) == ["orders"]
        await cluster.refresh()
        assert not topics.has_changed()
        await asyncio.to_thread(broker.create_topic, "later", 1)
        await cluster.refresh()
        assert topics.has_changed()
        assert list(await topics.layout(frozenset({"orders", "later"}))) == ["later", "orders"]
        assert not topics.has_changed()

    run(story)


def test_a_pattern_matches_whole_names_of_topics_that_are_not_internal() -> None:
    async def story(broker: Broker, cluster: Cluster) -> None:
        for name in ("order", "orders-2", "__consumer_offsets"):
            await asyncio.to_thread(broker.create_topic, name, 1)
        subscriptions = Subscriptions()
        subscriptions.subscribe_pattern(re.compile("orders.*|__.*"))
        topics = GroupTopics(cluster, subscriptions)
        topics.track()
        assert await topics.find() == {"orders", "orders-2"}
        await asyncio.to_thread(broker.create_topic, "orders-3", 1)
        assert await topics.find() == {"orders", "orders-2"}  # as far as the metadata knows
        await cluster.refresh()
        assert topics.wanted() == {"orders", "orders-2", "orders-3"}

    run(story)
