"""How a client finds its first broker, and begins again when all that it knows are gone."""

import asyncio

import pytest

from headrace.client.errors import BrokerRefusedError, ConnectionLostError, NoBrokersError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import MetadataResponse
from tests.support.scripted_brokers import cluster_at, dead_address, describe, run
from tests.support.scripted_peer import Asked, ScriptedPeer, reply


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
