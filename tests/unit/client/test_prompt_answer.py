"""Answers that are told at once, beside futures, which tell in the next turn of the loop."""

import asyncio
from typing import Any

import pytest

from headrace.client.connecting import open_connection
from headrace.client.errors import ConnectionLostError
from headrace.client.prompt_answer import PromptAnswer
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.scripted_peer import Asked, ScriptedPeer, reply

METADATA = MetadataRequest([])


async def answer_in_pairs(held: list[Asked], asked: Asked, writer: asyncio.StreamWriter) -> None:
    """In one write, so that both are read in one turn."""
    held.append(asked)
    if len(held) == 2:
        writer.write(b"".join(reply(each, MetadataResponse(cluster_id=str(each.correlation_id))) for each in held))
        held.clear()


def test_who_wants_to_hear_at_once_hears_before_a_future_that_was_asked_for_earlier() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        held: list[Asked] = []
        async with ScriptedPeer(lambda asked, writer: answer_in_pairs(held, asked, writer)) as peer:
            connection = await open_connection(peer.address, client_id="test", setup_timeout=10.0, request_timeout=30.0)
            heard: list[str] = []
            future = connection.send(METADATA)
            future.add_done_callback(lambda _: heard.append("future"))
            prompt = PromptAnswer(loop, lambda answer: heard.append(answer.result().cluster_id))
            connection.send_for(prompt, METADATA)
            await asyncio.wait_for(future, 30)
            await asyncio.sleep(0)
            assert heard == [str(peer.asked[-1].correlation_id), "future"]
            assert (prompt.done(), prompt.exception()) == (True, None)
            connection.close()

    asyncio.run(story())


def test_a_callback_that_fails_is_told_to_the_loop_and_answers_behind_it_come() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        told: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: told.append(context))
        held: list[Asked] = []
        async with ScriptedPeer(lambda asked, writer: answer_in_pairs(held, asked, writer)) as peer:
            connection = await open_connection(peer.address, client_id="test", setup_timeout=10.0, request_timeout=30.0)
            connection.send_for(PromptAnswer(loop, lambda _: 1 // 0), METADATA)
            await asyncio.wait_for(connection.send(METADATA), 30)
            assert [type(context["exception"]) for context in told] == [ZeroDivisionError]
            connection.close()

    asyncio.run(story())


def test_an_error_is_told_later_since_whoever_sends_is_not_done() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        heard: list[PromptAnswer] = []
        async with ScriptedPeer(lambda asked, writer: answer_in_pairs([], asked, writer)) as peer:
            connection = await open_connection(peer.address, client_id="test", setup_timeout=10.0, request_timeout=30.0)
            waiting = PromptAnswer(loop, heard.append)
            connection.send_for(waiting, METADATA)
            connection.close()
            late = PromptAnswer(loop, heard.append)
            connection.send_for(late, METADATA)
            assert not heard
            await asyncio.sleep(0)
            assert heard == [waiting, late]
            for answer in heard:
                assert isinstance(answer.exception(), ConnectionLostError)
                with pytest.raises(ConnectionLostError):
                    answer.result()

    asyncio.run(story())
