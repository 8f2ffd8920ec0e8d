"""How far the queries of an app are, by what a real broker says."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import headrace
from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.topic_partition import TopicPartition
from headrace.streams import App, Json
from headrace.streams.known_apps import lags, queries_of

app = App("chain", "localhost:9092")
app.stream("raw", value=Json("id long"), name="first").to("clean")
app.stream("clean", value=Json("id long"), name="second").to("shown")


class Watcher(AsyncAdmin):
    """Something happens while it asks for positions: after it has asked for the ends, and before the answer."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def list_group_offsets(self, *arguments: Any, **keywords: Any) -> Any:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().list_group_offsets(*arguments, **keywords)


@pytest.fixture(scope="module")
def broker() -> Any:
    with headrace.Broker() as made:
        for topic in ("raw", "clean", "shown"):
            made.create_topic(topic, partitions=2)
        with headrace.Producer(made.address) as producer:
            for number in range(3):
                producer.send("raw", value=b"{}", partition=number % 2)
        yield made


def test_are_those_of_each_query(broker: headrace.Broker) -> None:
    assert found(Watcher(broker.address)) == {"first": 3, "second": 0}


def test_what_moves_on_in_the_meantime_is_not_missed(broker: headrace.Broker) -> None:
    admin = Watcher(broker.address)

    async def move_on() -> None:
        """The first query has done all that there was."""
        async with headrace.aio.Producer(broker.address) as producer:
            for _ in range(3):
                await producer.send("clean", value=b"{}")
        position = {TopicPartition("raw", 0): 2, TopicPartition("raw", 1): 1}
        await admin.alter_group_offsets("chain.first", position)

    admin.meanwhile = move_on
    assert found(admin) == {"first": 0, "second": 3}


def found(admin: AsyncAdmin) -> dict[str, int]:
    async def question() -> dict[str, int]:
        async with admin:
            return await lags(admin, app.plan.app, queries_of(app.plan))

    return background.call(question())
