"""A timer that stays set, so that others may count upon it."""

import asyncio
import time
from collections.abc import Iterator

import pytest

import headrace
from headrace.client.look_timer import FOREVER, LookTimer

FAR = 1000.0  # seconds, which no test waits for


def test_it_rings_once_and_is_not_counted_upon_from_then_on() -> None:
    async def story() -> list[bool]:
        looked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        timer = LookTimer(lambda: looked.set_result(timer.rings_by(time.monotonic() + FAR)))
        now = time.monotonic()
        timer.set(now)
        before = timer.rings_by(now)
        return [before, await looked]

    assert asyncio.run(story()) == [True, False]


def test_it_stays_as_it_is_for_what_comes_later_and_moves_for_what_comes_earlier() -> None:
    async def story() -> None:
        timer = LookTimer(lambda: None)
        now = time.monotonic()
        timer.set(FOREVER)
        assert not timer.rings_by(now + 2 * FAR)
        timer.set(now + FAR)
        timer.set(now + 2 * FAR)
        timer.set(FOREVER)
        assert timer.rings_by(now + FAR)
        assert not timer.rings_by(now + FAR / 2)
        timer.set(now + FAR / 2)
        assert timer.rings_by(now + FAR / 2)
        timer.stop()
        assert not timer.rings_by(now + 2 * FAR)

    asyncio.run(story())


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic("t", partitions=1)
        yield broker


def test_what_lingers_is_delivered_though_the_timer_was_set_for_a_batch_that_is_gone(broker: headrace.Broker) -> None:
    with headrace.Producer(broker.address, linger_ms=200) as producer:
        producer.send("t", b"a")
        producer.flush(30)  # long before it has lingered: the timer is still set
        assert producer.send("t", b"b").result(30).offset == 1
        assert producer.send("t", b"c").result(30).offset == 2


def test_a_batch_that_begins_while_the_timer_is_set_does_not_wake_the_loop(
    broker: headrace.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with headrace.Producer(broker.address, linger_ms=30_000) as producer:
        for value in (b"a", b"b"):  # nothing lingers before the producer has its identity
            producer.send("t", value)
            producer.flush(30)
        woken: list[str] = []
        monkeypatch.setattr(producer._core.sender, "wake", lambda: woken.append("wake"))
        delivery = producer.send("t", b"c")
        assert woken == []
        monkeypatch.undo()
        producer.flush(30)
        assert delivery.result(30).offset == 2
