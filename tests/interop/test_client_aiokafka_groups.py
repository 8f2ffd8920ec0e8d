"""aiokafka in groups: members share, leave and return, and keep their place. It speaks the oldest versions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from tests.support.broker_process import BrokerProcess
from tests.support.clients_aiokafka import SECONDS, administering, assigned, create_topic, in_loop, sending, take

PARTITIONS = 4


class Member:
    """A consumer that reads all the time."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer
        self.read: list[int] = []
        self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while True:
            with suppress(KafkaError):  # the broker may be away
                for records in (await self.consumer.getmany(timeout_ms=50)).values():
                    self.read += [int(record.value) for record in records]

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    async def leave(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.consumer.stop()


class Crew:
    def __init__(self, address: str, topic: str) -> None:
        self.address = address
        self.topic = topic
        self.members: list[Member] = []

    async def join(self, *, pattern: str | None = None, **configs: Any) -> Member:
        settings = {
            "group_id": self.topic,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 50,
            "session_timeout_ms": 6000,
            "retry_backoff_ms": 20,
            **configs,
        }
        topics = () if pattern else (self.topic,)
        consumer = AIOKafkaConsumer(*topics, bootstrap_servers=self.address, **settings)
        await consumer.start()
        if pattern:
            consumer.subscribe(pattern=pattern)
        self.members.append(Member(consumer))
        return self.members[-1]

    async def leave(self, member: Member) -> None:
        self.members.remove(member)
        await member.leave()

    @property
    def read(self) -> list[int]:
        return sorted(number for member in self.members for number in member.read)

    async def share(self, count: int = PARTITIONS) -> None:
        """Until each partition has one owner, and everybody the same number or one more."""

        def is_shared() -> bool:
            counts = [len(member.owned) for member in self.members]
            owned = set().union(*(member.owned for member in self.members))
            return owned == set(range(count)) and sum(counts) == count and max(counts) - min(counts) <= 1

        await becomes(is_shared)

    async def commit(self) -> None:
        """What was read counts, and is forgotten here."""
        for member in self.members:
            await member.consumer.commit()
            member.read.clear()


async def becomes(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def crew(address: str, topic: str) -> AsyncIterator[Crew]:
    members = Crew(address, topic)
    async with AsyncExitStack() as stack:
        try:
            yield members
        finally:
            for member in members.members:
                stack.push_async_callback(member.leave)


async def fill(address: str, topic: str, numbers: range) -> None:
    async with sending(address) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        await producer.flush()


@pytest.mark.parametrize("strategy", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor])
@in_loop
async def test_members_share_the_partitions_and_take_over_where_others_stopped(
    address: str, topic: str, strategy: type
) -> None:
    await create_topic(address, topic, PARTITIONS)
    settings: dict[str, Any] = {"partition_assignment_strategy": [strategy]}
    async with crew(address, topic) as group:
        first = await group.join(**settings)
        await group.share()
        await fill(address, topic, range(100))
        await becomes(lambda: len(group.read) >= 100)
        await group.commit()
        await group.join(**settings)
        await group.join(**settings)
        await group.share()
        await fill(address, topic, range(100, 200))
        await becomes(lambda: len(group.read) >= 100)
        assert group.read == list(range(100, 200))
        await group.commit()
        await group.leave(first)
        await group.share()
        await fill(address, topic, range(200, 300))
        await becomes(lambda: len(group.read) >= 100)
        assert group.read == list(range(200, 300))


@in_loop
async def test_a_pattern_finds_topics_as_they_come(address: str, topic: str) -> None:
    await create_topic(address, f"{topic}-a", 2)
    async with crew(address, topic) as group:
        member = await group.join(pattern=f"^{topic}-.*", metadata_max_age_ms=200)
        await becomes(lambda: member.consumer.assignment() == {TopicPartition(f"{topic}-a", n) for n in range(2)})
        await create_topic(address, f"{topic}-b", 2)
        wanted = {TopicPartition(f"{topic}-{name}", n) for name in "ab" for n in range(2)}
        await becomes(lambda: member.consumer.assignment() == wanted)


@in_loop
async def test_a_static_member_that_returns_finds_its_partitions(address: str, topic: str) -> None:
    await create_topic(address, topic, PARTITIONS)
    async with crew(address, topic) as group:
        await group.join(group_instance_id="here")
        gone = await group.join(group_instance_id="gone")
        await group.share()
        theirs = gone.owned
        await group.leave(gone)
        back = await group.join(group_instance_id="gone")
        await becomes(lambda: back.owned == theirs)
        await group.share()


@in_loop
async def test_offsets_are_committed_in_every_way(address: str, topic: str) -> None:
    await create_topic(address, topic, PARTITIONS)
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    async with crew(address, topic) as group:
        member = await group.join()
        await group.share()
        assert await member.consumer.committed(places[0]) is None
        await fill(address, topic, range(40))
        await becomes(lambda: len(group.read) == 40)
        await member.consumer.commit({places[0]: OffsetAndMetadata(3, "why")})
        assert await member.consumer.committed(places[0]) == 3
        await member.consumer.seek_to_committed(places[0])
        await becomes(lambda: len(group.read) == 47)
        await member.consumer.commit()
        assert [await member.consumer.committed(place) for place in places] == [10] * PARTITIONS
    async with crew(address, topic) as group:
        await group.join(enable_auto_commit=True, auto_commit_interval_ms=50)
        await group.share()
        await fill(address, topic, range(40, 80))
        await becomes(lambda: len(group.read) == 40)
    async with administering(address) as client:
        found = await client.list_consumer_group_offsets(topic)
        assert {place.partition: row.offset for place, row in found.items()} == dict.fromkeys(range(4), 20)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 8), ("latest", 0)])
@in_loop
async def test_where_nothing_is_committed_the_policy_decides(
    address: str, topic: str, policy: str, expected: int
) -> None:
    await create_topic(address, topic, PARTITIONS)
    await fill(address, topic, range(8))
    async with crew(address, topic) as group:
        member = await group.join(auto_offset_reset=policy)
        await group.share()
        positions = [await member.consumer.position(TopicPartition(topic, index)) for index in range(PARTITIONS)]
        assert policy == "earliest" or positions == [2] * PARTITIONS
        await fill(address, topic, range(8, 16))
        await becomes(lambda: len(group.read) == expected + 8)
        assert group.read == list(range(8 - expected, 16))


@in_loop
async def test_a_consumer_that_assigns_itself_commits_to_a_group_without_members(address: str, topic: str) -> None:
    place = TopicPartition(await create_topic(address, topic, PARTITIONS), 0)
    await fill(address, topic, range(40))
    async with assigned(address, place, group_id=topic) as outsider:
        assert len(await take(outsider, 5)) == 5
        await outsider.commit({place: 5})
        async with crew(address, topic) as group:
            await group.join()
            await group.share()
            with pytest.raises(CommitFailedError):
                await outsider.commit({place: 6})
        await outsider.commit({place: 7})
        assert await outsider.committed(place) == 7


@in_loop
async def test_groups_are_described_and_listed(address: str, topic: str) -> None:
    await create_topic(address, topic, PARTITIONS)
    async with crew(address, topic) as group, administering(address) as client:
        await group.join(client_id="one")
        await group.share()
        (answer,) = await client.describe_consumer_groups([topic])
        ((code, name, state, protocol_type, protocol, members, *_),) = answer.groups
        assert (code, name, state, protocol_type, protocol) == (0, topic, "Stable", "consumer", "roundrobin")
        assert [member[-4:-2] for member in members] == [("one", "/127.0.0.1")]
        assert (topic, "consumer") in await client.list_consumer_groups()


@pytest.mark.slow
@in_loop
async def test_members_go_on_when_the_broker_comes_back(tmp_path: Path, topic: str) -> None:
    with BrokerProcess(tmp_path, configs={"group.initial.rebalance.delay.ms": "0"}) as broker:
        await create_topic(broker.bootstrap, topic, PARTITIONS)
        async with crew(broker.bootstrap, topic) as group:
            await group.join()
            await group.join()
            await group.share()
            await fill(broker.bootstrap, topic, range(100))
            await becomes(lambda: len(group.read) == 100)
            await group.commit()
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            await fill(broker.bootstrap, topic, range(100, 200))
            await becomes(lambda: len(group.read) >= 100)
            assert group.read == list(range(100, 200))
            await group.commit()
        broker.check_log()
