"""A new leader may lack what was read of the old one: consumers ask it, by leader epoch (KIP-320)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace import LogTruncationError, aio
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from tests.support.scripted_cluster import TOPIC, ScriptedCluster

PLACE = TopicPartition(TOPIC, 0)
OLD = [(0, b"a"), (0, b"b"), (0, b"c"), (0, b"d")]
SHORTER = [*OLD[:2], (1, b"C")]  # what a leader has that never got the last two


def run(story: Callable[[ScriptedCluster], Awaitable[None]], *logs: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120), ScriptedCluster(*logs) as cluster:
            await story(cluster)

    asyncio.run(bounded())


def reader(cluster: ScriptedCluster, **configs: Any) -> aio.Consumer:
    settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 1, "retry_backoff_max_ms": 10}
    return aio.Consumer(cluster.bootstrap, **{**settings, **configs})


async def read(consumer: aio.Consumer, count: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        records = await consumer.poll(1.0, max_records=count - len(found))
        found += [(record.offset, record.value) for record in records]
    return found


def test_what_the_new_leader_does_not_have_is_read_anew_from_where_the_logs_part() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            assert len(await read(consumer, 4)) == 4
            cluster.elect(1)
            assert await read(consumer, 1) == [(2, b"C")]
        assert cluster.epochs_asked == [0]
        assert cluster.fetches[-1][0::2] == (1, 1)

    run(story, OLD, SHORTER)


def test_a_leader_that_has_it_all_is_read_on() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            await read(consumer, 4)
            cluster.elect(1)
            assert await read(consumer, 1) == [(4, b"e")]
            assert cluster.epochs_asked == [0]
            cluster.logs[0] = [*cluster.logs[1], (2, b"f")]
            cluster.elect(0)
            assert await read(consumer, 1) == [(5, b"f")]
            assert cluster.epochs_asked == [0, 1]

    run(story, OLD, [*OLD, (1, b"e")])


def test_what_the_user_has_not_seen_of_the_lost_records_is_not_shown() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            assert await read(consumer, 1) == [(0, b"a")]  # the others are fetched, too
            cluster.elect(1)
            while cluster.fetches[-1].node != 1:  # the new leader was asked, and its answer understood
                await asyncio.sleep(0.01)
            assert await read(consumer, 2) == [(1, b"b"), (2, b"C")]

    run(story, OLD, SHORTER)


def test_without_a_place_to_begin_with_the_user_is_told_where_the_logs_part() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster, auto_offset_reset="none") as consumer:
            await consumer.assign([PLACE])
            await consumer.seek(PLACE, 0)
            await read(consumer, 4)
            cluster.elect(1)
            with pytest.raises(LogTruncationError, match="it parts at offset 2 from what was consumed up to 4") as told:
                await read(consumer, 1)
            assert told.value.partition == PLACE
            assert told.value.divergent_offset == 2
            await consumer.seek(PLACE, 2)
            assert await read(consumer, 1) == [(2, b"C")]

    run(story, OLD, SHORTER)


def test_a_leader_that_knows_no_such_epoch_means_to_begin_anew() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            await read(consumer, 4)
            cluster.elect(1)
            assert await read(consumer, 2) == [(0, b"A"), (1, b"B")]
        async with reader(cluster, auto_offset_reset="none") as consumer:
            await consumer.assign([PLACE])
            await consumer.seek(PLACE, 1, leader_epoch=0)
            with pytest.raises(LogTruncationError, match="at an unknown offset") as told:
                await read(consumer, 1)
            assert told.value.divergent_offset is None

    run(story, OLD, [(1, b"A"), (1, b"B")])


def test_an_offset_with_an_epoch_is_checked_before_it_is_read() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        cluster.elect(1)
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            await consumer.seek(PLACE, 3, leader_epoch=0)
            assert await read(consumer, 1) == [(2, b"C")]
        assert min(fetch.offset for fetch in cluster.fetches) == 2

    run(story, OLD, SHORTER)


@pytest.mark.parametrize(
    "error",
    [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER],
)
def test_the_question_is_asked_again_where_that_helps(error: ErrorCode) -> None:
    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster) as consumer:
            await consumer.assign([PLACE])
            await read(consumer, 4)
            cluster.epoch_errors = [error, error]
            cluster.elect(1)
            assert await read(consumer, 1) == [(2, b"C")]
        assert cluster.epochs_asked == [0, 0, 0]

    run(story, OLD, SHORTER)


def test_what_the_old_leader_still_answers_is_no_loss_though_it_is_of_a_later_epoch_than_was_asked_about() -> None:
    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.005)

    async def story(cluster: ScriptedCluster) -> None:
        async with reader(cluster, metadata_max_age_ms=20) as consumer:
            await consumer.assign([PLACE])
            await read(consumer, 4)
            cluster.elect(0)
            await until(lambda: cluster.fetches[-1].leader_epoch == 1)
            before = cluster.ready_fetches
            cluster.may_answer_fetches.clear()
            cluster.logs[0] = [*OLD, (1, b"e"), (1, b"f")]
            await until(lambda: cluster.ready_fetches > before)  # an answer with both is on its way
            cluster.may_answer_epochs.clear()
            cluster.elect(1)
            await until(lambda: cluster.epochs_asked == [0, 0])  # and where epoch 0 ended, too: at offset 4
            cluster.may_answer_fetches.set()
            assert await read(consumer, 2) == [(4, b"e"), (5, b"f")]
            cluster.may_answer_epochs.set()
            assert await read(consumer, 1) == [(6, b"g")]
            assert cluster.epochs_asked == [0, 0, 1]

    run(story, OLD, [*OLD, (1, b"e"), (1, b"f"), (2, b"g")])
