"""How a client finds coordinators."""

import asyncio

import pytest

from headrace.client.coordinators import CoordinatorKind
from headrace.client.errors import KafkaError
from headrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.scripted_brokers import cluster_at, describe, run
from tests.support.scripted_peer import ALL_VERSIONS, Asked, ScriptedPeer, reply


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
