"""Reading from a replica nearby, if the leader recommends one (KIP-392)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace import aio
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from tests.support.scripted_cluster import TOPIC, FetchSeen, ScriptedCluster

PLACE = TopicPartition(TOPIC, 0)
LOG = [(0, b"a"), (0, b"b"), (0, b"c")]
SHORT = LOG[:2]  # a follower is behind


def run(story: Callable[[ScriptedCluster], Awaitable[None]], *logs: Any, preferred: int = 1) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120), ScriptedCluster(*logs) as cluster:
            cluster.preferred = preferred
            await story(cluster)

    asyncio.run(bounded())


async def reader(cluster: ScriptedCluster, **configs: Any) -> aio.Consumer:
    settings: dict[str, Any] = {"client_rack": "here", "auto_offset_reset": "earliest", "retry_backoff_ms": 1} | configs
    settings |= {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 10}
    consumer = aio.Consumer(cluster.bootstrap, **settings)
    await consumer.assign([PLACE])
    return consumer


async def read(consumer: aio.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll(1.0)]
    return found


def nodes(cluster: ScriptedCluster) -> list[int]:
    return [fetch.node for fetch in cluster.fetches]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_what_the_leader_recommends_is_read_from_then_on() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with await reader(cluster) as consumer:
            assert await read(consumer, 3) == [b"a", b"b", b"c"]
            cluster.logs[1] = [*LOG, (0, b"d")]
            assert await read(consumer, 1) == [b"d"]
        assert nodes(cluster)[0] == 0
        assert set(nodes(cluster)[1:]) == {1}

    run(story, LOG, LOG)


def test_without_a_rack_the_leader_is_read() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with await reader(cluster, client_rack="") as consumer:
            assert await read(consumer, 3) == [b"a", b"b", b"c"]
        assert set(nodes(cluster)) == {0}

    run(story, LOG, LOG)


def test_the_leader_is_asked_again_when_the_recommendation_is_old() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with await reader(cluster, metadata_max_age_ms=100) as consumer:
            await read(consumer, 3)
            cluster.preferred = 2
            cluster.logs[2] = [*LOG, (0, b"d")]
            assert await read(consumer, 1) == [b"d"]
        assert 0 in nodes(cluster)[1:]

    run(story, LOG, LOG, LOG)


def test_a_follower_that_lags_behind_does_not_reset_the_position() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with await reader(cluster) as consumer:
            await consumer.seek(PLACE, 3)
            await until(lambda: nodes(cluster).count(0) >= 3)  # sent back to the leader, again and again
            cluster.preferred = -1
            cluster.logs[0] = [*LOG, (0, b"d")]
            assert await read(consumer, 1) == [b"d"]
        assert {fetch.offset for fetch in cluster.fetches} <= {0, 3, 4}

    run(story, LOG, SHORT)


def test_two_answers_of_a_follower_that_lags_behind_do_not_reset_the_position() -> None:
    """A seek while the follower is asked brings a second connection to it: both may ask for the same offset."""

    async def story(cluster: ScriptedCluster) -> None:
        first, both, leader = asyncio.Event(), asyncio.Event(), asyncio.Event()

        def asked(node: int, offset: int) -> int:
            return [fetch[:2] for fetch in cluster.fetches].count((node, offset))

        async def gate(fetch: FetchSeen) -> ErrorCode | None:
            if fetch.node == 1:
                await (first if fetch.offset == 0 else both).wait()
            elif both.is_set():
                await leader.wait()
            return None

        cluster.fetch_gate = gate
        async with await reader(cluster) as consumer:
            await until(lambda: asked(1, 0) == 1)
            await consumer.seek(PLACE, 3)
            await until(lambda: asked(1, 3) == 1)
            first.set()
            await until(lambda: asked(1, 3) == 2)
            before = asked(0, 3)
            both.set()
            await until(lambda: asked(0, 3) > before)
            cluster.preferred = -1
            cluster.logs[0] = [*LOG, (0, b"d")]
            leader.set()
            assert await read(consumer, 1) == [b"d"]

    run(story, LOG, SHORT)


def test_a_late_refusal_of_an_offset_that_was_read_meanwhile_does_not_reset_the_position() -> None:
    """A seek brings a second connection: one brings the records, then retention takes them, then the other one asks."""

    async def story(cluster: ScriptedCluster) -> None:
        first, side, main = asyncio.Event(), asyncio.Event(), asyncio.Event()
        gates = [first, side, main]

        async def gate(_: FetchSeen) -> ErrorCode | None:
            if not gates:
                return None
            mine = gates.pop(0)
            await mine.wait()
            return ErrorCode.OFFSET_OUT_OF_RANGE if mine is main else None

        cluster.fetch_gate = gate
        async with await reader(cluster) as consumer:
            await until(lambda: not gates[2:])
            await consumer.seek(PLACE, 1)
            await until(lambda: not gates[1:])
            first.set()
            await until(lambda: not gates)
            assert [fetch.offset for fetch in cluster.fetches] == [0, 1, 1]
            side.set()
            assert await read(consumer, 2) == [b"b", b"c"]
            cluster.logs[0] = [*LOG, (0, b"d")]
            main.set()
            assert await read(consumer, 1) == [b"d"]

    run(story, LOG, preferred=-1)


def test_a_follower_that_refuses_sends_back_to_the_leader() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        cluster.follower_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        async with await reader(cluster) as consumer:
            await until(lambda: nodes(cluster).count(1) >= 1)
            cluster.preferred = -1
            assert await read(consumer, 3) == [b"a", b"b", b"c"]

    run(story, LOG, LOG)


def test_a_follower_that_is_gone_sends_back_to_the_leader() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with await reader(cluster) as consumer:
            await read(consumer, 3)
            cluster.preferred = -1
            cluster.logs[0] = [*LOG, (0, b"d")]
            await cluster.peers[1].__aexit__(None, None, None)
            assert await read(consumer, 1) == [b"d"]

    run(story, LOG, LOG)


def test_a_follower_that_cannot_be_reached_sends_back_to_the_leader() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        await cluster.peers[1].__aexit__(None, None, None)
        async with await reader(cluster) as consumer:
            await until(lambda: nodes(cluster).count(0) >= 2)
            cluster.preferred = -1
            assert await read(consumer, 3) == [b"a", b"b", b"c"]

    run(story, LOG, LOG)
