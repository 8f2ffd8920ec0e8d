"""The cluster: bootstrap, metadata that renews itself, brokers that go away, coordinators."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.client.admin_configs import ADMIN_CONFIGS
from headrace.client.cluster import Cluster
from headrace.client.config import Address, load_settings
from headrace.client.coordinators import CoordinatorKind
from headrace.client.errors import (
    BrokerRefusedError,
    ClosedError,
    ConnectionLostError,
    KafkaError,
    NoBrokersError,
    UnknownTopicError,
)
from headrace.client.metadata import Metadata
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.both_brokers import unique
from tests.support.scripted_peer import ALL_VERSIONS, Asked, ScriptedPeer, reply


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
        assert cluster.metadata.topic_by_id(created.topics[0].topic_id) is topic
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


# Bootstrap


def test_bootstrap_goes_on_to_the_next_address() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, peer)))

        with dead_address() as dead:
            async with ScriptedPeer(answer) as peer:
                cluster = cluster_at(dead, peer.address)
                assert (await cluster.refresh()).cluster_id == "scripted"
                await cluster.close()

    run(story)


def test_when_nobody_answers_the_error_names_everybody() -> None:
    async def story() -> None:
        with dead_address() as one, dead_address() as other:
            cluster = cluster_at(one, other)
            with pytest.raises(NoBrokersError) as caught:
                await cluster.refresh()
            assert str(one) in str(caught.value)
            assert str(other) in str(caught.value)
            await cluster.close()
            alone = cluster_at(one)
            with pytest.raises(BrokerRefusedError, match="is a broker running there"):
                await alone.topic("orders")
            await alone.close()

    run(story)


def test_when_all_known_brokers_are_gone_it_begins_again_at_the_bootstrap_addresses() -> None:
    """KIP-899. The bootstrap address stands for a name that leads to other brokers by now."""

    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, brokers[0])))

        async with ScriptedPeer(answer) as entrance, ScriptedPeer(answer) as second:
            async with ScriptedPeer(answer) as first:
                brokers = [first]
                cluster = cluster_at(entrance.address)
                await cluster.refresh()
                await cluster.refresh()
                assert len(first.asked) == 2  # its versions, and metadata: it is preferred once it is known
            brokers = [second]
            while cluster.metadata.brokers[0].address != second.address:
                await cluster.refresh()
            await cluster.close()

    run(story)


def test_without_rebootstrap_it_stays_with_the_brokers_it_knows() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, first)))

        async with ScriptedPeer(answer) as entrance:
            async with ScriptedPeer(answer) as first:
                cluster = cluster_at(entrance.address, metadata_recovery_strategy="none")
                await cluster.refresh()
            for _ in range(3):
                with pytest.raises(ConnectionLostError):
                    await cluster.refresh()
            assert [each.api_key for each in entrance.asked].count(3) == 1
            await cluster.close()

    run(story)


def test_a_broker_that_asks_for_it_is_forgotten() -> None:
    """KIP-1102: REBOOTSTRAP_REQUIRED."""

    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, describe(asked, known)))

        async def refuse(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)))

        async with ScriptedPeer(answer) as entrance, ScriptedPeer(refuse) as known:
            cluster = cluster_at(entrance.address)
            await cluster.refresh()
            await cluster.refresh()
            assert [each.api_key for each in known.asked].count(3) == 1
            assert [each.api_key for each in entrance.asked].count(3) == 2
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
            peer.writers[0].close()
            while cluster.ready(0) is not None:
                await asyncio.sleep(0)
            started = asyncio.get_running_loop().time()
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


# Coordinators


def coordinator_story(*, ranges: dict[int, tuple[int, int]], expected_version: int) -> None:
    async def story() -> None:
        codes = [15, 0]

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            if asked.api_key == 10:
                code = codes.pop(0)
                response = FindCoordinatorResponse(error_code=code, node_id=4, host="127.0.0.1", port=peer.address.port)
                if asked.version >= 4:
                    (key,) = asked.request.coordinator_keys
                    row = Coordinator(key, 4, "127.0.0.1", peer.address.port, code)
                    response = FindCoordinatorResponse(coordinators=[row])
                writer.write(reply(asked, response))
            elif asked.api_key == 12:
                writer.write(reply(asked, HeartbeatResponse()))
            else:
                writer.write(reply(asked, describe(asked, peer)))

        async with ScriptedPeer(answer, ranges=ranges) as peer:
            cluster = cluster_at(peer.address, retry_backoff_ms=1)
            with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
                await cluster.coordinator(CoordinatorKind.GROUP, "g")
            codes.insert(0, 15)
            node = await cluster.coordinator(CoordinatorKind.GROUP, "g", timeout=120)
            assert (node.id, node.address) == (4, peer.address)
            response = await cluster.send_to_coordinator(CoordinatorKind.GROUP, "g", HeartbeatRequest("g", 1, "m"))
            assert isinstance(response, HeartbeatResponse)
            assert {each.version for each in peer.asked if each.api_key == 10} == {expected_version}
            assert len([each for each in peer.asked if each.api_key == 10]) == 3
            codes.append(0)
            cluster.forget_coordinator(CoordinatorKind.GROUP, "g")
            await cluster.coordinator(CoordinatorKind.GROUP, "g")
            assert codes == []
            await cluster.close()

    run(story)


def test_a_coordinator_is_looked_up_once_and_again_when_it_is_wrong() -> None:
    coordinator_story(ranges=ALL_VERSIONS, expected_version=6)


def test_a_coordinator_is_found_by_brokers_that_take_one_key_at_a_time() -> None:
    coordinator_story(ranges={**ALL_VERSIONS, 10: (0, 3)}, expected_version=3)


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
