"""When small answers leave: behind all that was served in the same turn of the loop."""

import asyncio

import pytest

from headrace.protocol.frame import IN_PLACE_BYTES
from headrace.server.connection import MAX_UNSENT_BYTES, Connection, Reply
from headrace.server.sending import MAX_WAITING, Outbox
from tests.support.connection_pair import Pair, echo, framed, run


class Noted:
    def __init__(self, sent: list["Noted"]) -> None:
        self._sent = sent

    def send_waiting(self) -> None:
        self._sent.append(self)


def test_answers_wait_for_all_that_is_served_in_the_same_turn() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        outbox, sent = Outbox(loop), list[Noted]()
        senders = [Noted(sent) for _ in range(3)]
        for sender in senders:
            outbox.add(sender)
        assert sent == []
        await asyncio.sleep(0)
        assert sent == senders

    run(story)


def test_nobody_waits_for_more_than_a_few_others() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        outbox, sent = Outbox(loop), list[Noted]()
        senders = [Noted(sent) for _ in range(2 * MAX_WAITING + 1)]
        for sender in senders:
            outbox.add(sender)
        assert sent == senders[: 2 * MAX_WAITING]
        await asyncio.sleep(0)
        assert sent == senders

    run(story)


@pytest.mark.parametrize("size", [1000, IN_PLACE_BYTES + 1])
def test_nobody_waits_for_a_large_request_of_somebody_else(size: int) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        sent: list[Noted] = []
        sent_before: list[Noted] = []

        def serve(*_: object) -> Reply:
            sent_before.extend(sent)
            return [b"done"]

        pair = Pair(loop, serve, max_frame_bytes=1 << 20)
        request = framed(bytes(size))
        somebody = Noted(sent)
        pair.outbox.add(somebody)
        for piece in (request[:900], request[900:]):  # in the same turn of the loop
            assert pair.client.send(piece) == len(piece)
            pair.connection._readable()
        assert sent_before == ([somebody] if size > IN_PLACE_BYTES else [])
        pair.end()

    run(story)


def test_a_connection_that_is_closed_before_its_answers_leave_says_nothing() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        def answer_and_close(connection: Connection, *frame: object) -> Reply:
            loop.call_soon(connection.close, "the test says so")  # asked for before the outbox is
            return [b"an answer"]

        pair = Pair(loop, answer_and_close)
        await pair.send(framed(b"a question"))
        assert await pair.receive(1) == b""
        pair.end()

    run(story)


def test_answers_that_fill_the_room_for_unsent_ones_let_the_next_requests_in_when_they_have_left() -> None:
    large = bytes(MAX_UNSENT_BYTES + 1)

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, lambda *_: [large])
        for _ in range(3):
            await pair.send(framed(b"more"))
            assert len(await pair.receive(len(large))) == len(large)
        pair.end()

    run(story)


def test_a_client_that_has_gone_is_noticed_by_the_answer_that_waited() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, echo)
        await pair.send(framed(b"a question") * 10)
        pair.client.close()
        await pair.until(lambda: pair.connection.is_closed)

    run(story)
