"""A group of a thousand members, over real sockets, in both protocols."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

import headrace
from headrace.client.admin_topics import NewTopic
from tests.support.broker_process import BrokerProcess
from tests.support.crowd import ClassicMember, ConsumerMember, ImpatientMember, Member, crowd

MEMBERS: Final = 1_000
CONFIGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.min.session.timeout.ms": "20000",
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "first_missed"), [(ClassicMember, ImpatientMember), (ConsumerMember, ConsumerMember)])
def test_a_thousand_members_share_partitions_and_go_on_without_those_who_leave_or_die(
    tmp_path: Path, kind: type[Member], first_missed: type[Member]
) -> None:
    async def live(address: tuple[str, int]) -> None:
        async with crowd(address, "t", MEMBERS) as group:
            dying = await group.join(first_missed)
            await asyncio.gather(*(group.join(kind) for _ in range(MEMBERS - 1)))
            # Members may agree that one has all, before those who came after it are assigned anything.
            await group.until(
                lambda: group.agrees() and {len(member.owned) for member in group.members} == {1},
                "a thousand members own one partition each",
            )

            leaving = group.members[MEMBERS // 2]
            group.remove(leaving)
            await leaving.leave()
            await group.until(group.agrees, "the partition of the one that left has a new owner")

            # Nobody is held up by one that is gone and not missed yet: the others are answered as before.
            before = {member: member.heartbeats for member in group.members}
            group.remove(dying)
            await dying.die()
            await group.until(
                lambda: all(member.heartbeats > before[member] for member in group.members), "the others go on"
            )
            await group.until(group.agrees, "the partitions of the one that died have a new owner")

    with BrokerProcess(tmp_path, configs=CONFIGS) as broker:
        with headrace.Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("t", MEMBERS)])
        asyncio.run(live(broker.address))
        broker.check_log()
