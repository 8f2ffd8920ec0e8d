"""The cluster: metadata that renews itself, brokers that go away."""

import asyncio

import pytest

from headrace.client.admin_configs import ADMIN_CONFIGS
from headrace.client.cluster import Cluster
from headrace.client.config import load_settings
from headrace.client.errors import (
    ClosedError,
    ConnectionLostError,
    KafkaError,
    UnknownTopicError,
)
from headrace.client.metadata import Metadata
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponsePartition,
)
from tests.support.both_brokers import unique
from tests.support.scripted_brokers import cluster_at, describe, run
from tests.support.scripted_peer import Asked, ScriptedPeer, reply

# Against real brokers


def test_a_topic_is_found_once_it_exists(bootstrap: str) -> None:
    async def story() -> None:
        name = unique("orders")
        cluster = cluster_at(bootstrap)
        with pytest.raises(UnknownTopicError, match=f"There is no topic '{name}'"):
            await cluster.topic(name)
        created: CreateTopicsResponse = await cluster.send(
            cluster.metadata.controller_id, CreateTopicsRequest([CreatableTopic(name, 3, 1)], timeout_ms=10_000)
        )
        assert created.topics[0].error_code == 0
        topic = await cluster.topic(name, timeout=120)
        assert list(topic.partitions) == [0, 1, 2]
        assert cluster.metadata.names_by_id[created.topics[0].topic_id] == name
        leader = cluster.metadata.leader(name, 2)
        assert leader is not None
        assert str(leader.address) == bootstrap
        await cluster.close()

    run(story)


def test_a_topic_is_created_by_asking_only_if_that_is_allowed(bootstrap: str) -> None:
    async def story() -> None:
        name = unique("auto")
        careful = cluster_at(bootstrap)
        with pytest.raises(UnknownTopicError):
            await careful.topic(name)
        await careful.close()
        careless = Cluster(load_settings(ADMIN_CONFIGS, bootstrap), allow_auto_create=True)
        assert len((await careless.topic(name, timeout=120)).partitions) == 1
        await careless.close()

    run(story)


def test_all_topics_can_be_tracked(bootstrap: str) -> None:
    async def story() -> None:
        names = [unique("all"), unique("all")]
        cluster = cluster_at(bootstrap)
        metadata = await cluster.refresh()
        await cluster.send(
            metadata.controller_id, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 10_000)
        )
        cluster.track_all()
        while not cluster.metadata.topics.keys() >= set(names):
            await cluster.refresh()
        await cluster.close()

    run(story)


# Renewal


def test_demands_at_the_same_time_make_one_request() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address)
            await asyncio.gather(*(cluster.refresh() for _ in range(50)))
            assert [each.api_key for each in peer.asked] == [18, 3]
            await cluster.close()

    run(story)


def test_a_demand_during_an_update_is_served_by_the_next_one() -> None:
    async def story() -> None:
        arrived, release = asyncio.Event(), asyncio.Event()

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await release.wait()
            writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address)
            first = asyncio.ensure_future(cluster.refresh())
            await arrived.wait()
            topic = asyncio.ensure_future(cluster.topic("orders"))
            await asyncio.sleep(0)
            release.set()
            assert (await first).topics == {}
            assert (await topic).name == "orders"
            assert [[each.name for each in asked.request.topics] for asked in peer.asked if asked.api_key == 3] == [
                [],
                ["orders"],
            ]
            await cluster.close()

    run(story)


def test_who_asks_during_an_update_gets_an_answer_that_was_asked_for_afterwards() -> None:
    async def story() -> None:
        arrived, release = asyncio.Event(), asyncio.Event()
        answers = ["old", "new"]

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await release.wait()
            writer.write(reply(asked, describe(asked, peer)._replace(cluster_id=answers.pop(0))))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address)
            first = asyncio.ensure_future(cluster.refresh())
            await arrived.wait()
            second = asyncio.ensure_future(cluster.refresh())
            await asyncio.sleep(0)
            release.set()
            assert [(await first).cluster_id, (await second).cluster_id] == ["old", "new"]
            await cluster.close()

    run(story)


def test_metadata_is_renewed_by_age() -> None:
    async def story() -> None:
        enough = asyncio.Event()

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))
            if len(peer.asked) >= 5:
                enough.set()

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address, metadata_max_age_ms=10)
            await cluster.refresh()
            await enough.wait()
            await cluster.close()

    run(story)


def test_listeners_are_told_of_new_metadata_and_untracked_topics_are_forgotten() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address)
            seen: list[list[str]] = []
            cluster.add_listener(lambda metadata: seen.append(list(metadata.topics)))
            await cluster.topic("a")
            await cluster.topic("b")
            cluster.untrack(["a"])
            assert list(cluster.metadata.topics) == ["b"]
            await cluster.refresh()
            assert seen == [["a"], ["a", "b"], ["b"]]
            await cluster.close()

    run(story)


def test_a_topic_that_is_being_created_is_waited_for() -> None:
    async def story() -> None:
        codes = [5, 5, 3, 0]

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer, code=codes.pop(0))))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address, retry_backoff_ms=1, retry_backoff_max_ms=2)
            assert (await cluster.topic("orders", timeout=120)).name == "orders"
            assert codes == []
            await cluster.close()

    run(story)


@pytest.mark.parametrize("is_of_partition", [False, True], ids=["topic", "partition"])
def test_what_came_with_an_error_that_passes_is_asked_for_again(is_of_partition: bool) -> None:
    async def story() -> None:
        codes = [ErrorCode.LEADER_NOT_AVAILABLE] * 3

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            code = codes.pop() if codes else ErrorCode.NONE
            found = describe(asked, peer, code=0 if is_of_partition else code)
            if is_of_partition and code:
                without_leader = MetadataResponsePartition(code, 0, -1, 0, [0], [0], [])
                found = found._replace(topics=[found.topics[0]._replace(partitions=[without_leader])])
            writer.write(reply(asked, found))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address, retry_backoff_ms=1)
            is_there = asyncio.Event()

            def look(metadata: Metadata) -> None:
                if metadata.leader("orders", 0) is not None:
                    is_there.set()

            cluster.add_listener(look)
            cluster.track(["orders"])
            await is_there.wait()
            assert [each.api_key for each in peer.asked].count(3) == 4
            await cluster.close()

    run(story)


def test_an_error_that_waiting_does_not_cure_is_raised_at_once() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer, code=17)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address)
            with pytest.raises(KafkaError, match=r"Topic 'a/b': .*INVALID_TOPIC_EXCEPTION"):
                await cluster.topic("a/b", timeout=3600)
            await cluster.close()

    run(story)


# Brokers


def test_purposes_have_connections_of_their_own_and_callers_share_one() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address)
            await cluster.refresh()
            connections = await asyncio.gather(*(cluster.connection(0, "fetch") for _ in range(20)))
            assert len(set(map(id, connections))) == 1
            assert peer.connections == 2
            assert cluster.ready(0, "fetch") is connections[0]
            assert cluster.ready(0, "other") is None
            await cluster.close()

    run(story)


def test_a_lost_connection_is_made_again_after_a_pause() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address, reconnect_backoff_ms=50)
            await cluster.refresh()
            started = asyncio.get_running_loop().time()  # before it is lost: the pause begins then
            peer.writers[0].close()
            while cluster.ready(0) is not None:
                await asyncio.sleep(0)
            await cluster.send(0, MetadataRequest([]))
            assert asyncio.get_running_loop().time() - started >= 0.8 * 0.05  # a fifth less at the most
            assert peer.connections == 2
            await cluster.close()

    run(story)


def test_an_unknown_broker_is_an_error_and_a_reason_to_ask_for_metadata() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address)
            with pytest.raises(ConnectionLostError, match="Broker 7 is not among the brokers"):
                await cluster.send(7, MetadataRequest([]))
            while not cluster.metadata.brokers:
                await asyncio.sleep(0)
            await cluster.close()

    run(story)


def test_connections_that_are_not_used_are_closed() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer) as peer:
            cluster = cluster_at(peer.address, connections_max_idle_ms=0)
            await cluster.refresh()
            connection = cluster.ready(0)
            assert connection is not None
            await asyncio.sleep(0.002)
            cluster._pool.close_idle()
            assert connection.is_closed
            await cluster.refresh()  # and made again when needed, without a pause
            assert peer.connections == 2
            await cluster.close()

    run(story)


# The end


def test_closing_fails_whatever_waits() -> None:
    async def story() -> None:
        arrived = asyncio.Event()

        async def say_nothing(asked: Asked, writer: asyncio.StreamWriter) -> None:
            arrived.set()

        async with ScriptedPeer(say_nothing) as peer:
            cluster = cluster_at(peer.address)
            waiting = asyncio.ensure_future(cluster.refresh())
            await arrived.wait()
            await cluster.close()
            with pytest.raises(ClosedError):
                await waiting
            with pytest.raises(ClosedError):
                await cluster.refresh()
            with pytest.raises(ClosedError):
                await cluster.ask(MetadataRequest([]))
            await cluster.close()

    run(story)
