"""Groups on a broker that fails: joining, staying, and being refused."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import headrace
from headrace.client.consumer import Consumer
from headrace.protocol.apis import API_BY_NAME
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatResponse
from headrace.server.faults import Which
from headrace.server.later import Later
from headrace.testing import MovableClock
from tests.support.both_brokers import eventually
from tests.support.consuming import fill, read, values
from tests.support.faulty_broker import (
    GROUP,
    PLACE,
    TOPIC,
    broker_with_orders,
    committed,
    member_of_group,
    poll_until,
)


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with broker_with_orders() as made:
        yield made


@pytest.fixture
def member(broker: headrace.Broker) -> Iterator[Consumer]:
    with member_of_group(broker) as consumer:
        yield consumer


MOVED = ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("FindCoordinator", "COORDINATOR_LOAD_IN_PROGRESS"),
        *[("JoinGroup", error) for error in [*MOVED, "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"]],
        *[("SyncGroup", error) for error in [*MOVED, "REBALANCE_IN_PROGRESS"]],
        *[("OffsetFetch", error) for error in [*MOVED, "UNSTABLE_OFFSET_COMMIT"]],
    ],
)
def test_a_group_is_joined_in_spite_of_errors(broker: headrace.Broker, member: Consumer, api: str, error: str) -> None:
    with broker.faults.answer(api, error=error, times=2) as fault:
        member.subscribe([TOPIC])
        assert [record.offset for record in read(member, 10)] == list(range(10))
        assert fault.hits == 2


def test_a_member_that_is_unknown_when_it_syncs_joins_as_another() -> None:
    """The group waits for the one that it was, until that one's session is over."""
    with (
        broker_with_orders(clock=MovableClock()) as broker,
        headrace.Admin(broker.address) as admin,
        member_of_group(broker) as member,
        broker.faults.answer("SyncGroup", error="UNKNOWN_MEMBER_ID", times=2) as fault,
    ):
        member.subscribe([TOPIC])
        for hits in (1, 2):
            fault.wait(hits)
            eventually(lambda: len(admin.describe_group(GROUP).members) == 2)
            broker.clock.advance(46)
        assert len(read(member, 10)) == 10
        (described,) = admin.describe_group(GROUP).members
        assert described.id == member.group_member.member_id


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "Heartbeat"])
def test_a_group_survives_lost_connections(broker: headrace.Broker, member: Consumer, api: str, when: Any) -> None:
    with broker.faults.drop(api, when=when, times=2) as fault:
        member.subscribe([TOPIC])
        assert [record.offset for record in read(member, 10)] == list(range(10))
        poll_until(lambda: fault.hits == 2, member)
    member.commit()
    assert committed(member) == 10


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [("REBALANCE_IN_PROGRESS", False), ("ILLEGAL_GENERATION", True), ("UNKNOWN_MEMBER_ID", True)],
)
def test_what_a_heartbeat_brings(error: str, is_lost: bool) -> None:
    heard: list[str] = []
    with (
        broker_with_orders(clock=MovableClock()) as broker,
        headrace.Admin(broker.address) as admin,
        member_of_group(broker) as member,
    ):
        member.subscribe(
            [TOPIC],
            on_assigned=lambda _: heard.append("assigned"),
            on_revoked=lambda _: heard.append("revoked"),
            on_lost=lambda _: heard.append("lost"),
        )
        read(member, 10)
        before = member.group_member
        with broker.faults.answer("Heartbeat", error=error, times=1):
            poll_until(lambda: heard[1:2] == ["lost" if is_lost else "revoked"], member)
        if error == "UNKNOWN_MEMBER_ID":  # the group waits for the one that it was
            poll_until(lambda: len(admin.describe_group(GROUP).members) == 2, member)
            broker.clock.advance(46)
        poll_until(lambda: heard[2:] == ["assigned"], member)
        assert member.group_member.generation > before.generation
        assert (member.group_member.member_id == before.member_id) == (error != "UNKNOWN_MEMBER_ID")


class _Held(NamedTuple):
    """A request without effect, whose answer the test gives."""

    answer: Later[Any]

    def on(self, *_: Any) -> Later[Any]:
        return self.answer


def test_a_heartbeat_that_the_next_generation_has_overtaken_loses_nothing() -> None:
    """It was on its way when the member joined again, and is answered before JoinGroup is, on another connection."""
    heard: list[str] = []
    held: Later[HeartbeatResponse] = Later()

    def answer_the_heartbeat(_: Any) -> bool:
        held.resolve(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        return True

    keeping = {"partition_assignment_strategy": ["cooperative-sticky"]}
    with broker_with_orders(clock=MovableClock()) as broker, member_of_group(broker, **keeping) as member:
        broker.create_topic("others", 1)
        member.subscribe([TOPIC])
        read(member, 10)
        before = member.group_member
        with broker.faults._add(API_BY_NAME["Heartbeat"], Which(), _Held(held), 1, "waits") as heartbeat:
            heartbeat.wait()
            with broker.faults.delay("JoinGroup", seconds=1, times=1, matching=answer_the_heartbeat) as join:
                member.subscribe(
                    [TOPIC, "others"],
                    on_assigned=lambda _: heard.append("assigned"),
                    on_revoked=lambda _: heard.append("revoked"),
                    on_lost=lambda _: heard.append("lost"),
                )
                poll_until(lambda: join.hits == 1, member)
        committed(member)  # comes after the heartbeat's answer, on its connection
        broker.clock.advance(1)
        poll_until(lambda: "assigned" in heard, member)
        assert heard == ["assigned"]
        assert member.group_member == before._replace(generation=before.generation + 1)


def test_a_refused_group_is_told_at_each_poll_and_goes_on_when_it_is_allowed(
    broker: headrace.Broker, member: Consumer
) -> None:
    with broker.faults.answer("JoinGroup", error="GROUP_AUTHORIZATION_FAILED") as fault:
        member.subscribe([TOPIC])
        for _ in range(2):
            with pytest.raises(headrace.AuthorizationError, match="The group 'billing' cannot be joined"):
                poll_until(lambda: False, member)
        assert fault.hits == 2
    assert len(read(member, 10)) == 10


def test_a_broker_that_restarts_knows_its_groups(broker: headrace.Broker, member: Consumer) -> None:
    member.subscribe([TOPIC])
    read(member, 10)
    member.commit()
    broker.restart()
    fill(broker.address, TOPIC, {0: ["after"]})
    assert values(read(member, 1)) == ["after"]
    member.commit()
    assert committed(member) == 11


def test_a_session_that_ends_at_the_broker_is_joined_anew() -> None:
    """And its partition is read at once, though a fetch for it as it was before still waits at the broker."""
    lost: list[Any] = []
    with (
        broker_with_orders(clock=MovableClock()) as broker,
        member_of_group(broker, request_timeout_ms=300_000) as consumer,
    ):
        consumer.subscribe([TOPIC], on_lost=lost.extend)
        assert len(read(consumer, 10)) == 10
        with broker.faults.answer("Heartbeat", error="COORDINATOR_LOAD_IN_PROGRESS"):
            broker.clock.advance(46)
            with pytest.raises(headrace.CommitFailedError, match=r"max\.poll\.interval\.ms"):
                consumer.commit()
        again = poll_until(lambda: lost == [PLACE], consumer)
        again += read(consumer, 10 - len(again))
        assert [record.offset for record in again] == list(range(10))  # they were not committed
        consumer.commit()


def test_a_rebalance_does_not_wait_for_commits_of_a_topic_that_was_deleted() -> None:
    with (
        broker_with_orders(auto_create_topics_enable=False) as broker,
        member_of_group(
            broker,
            enable_auto_commit=True,
            auto_commit_interval_ms=600_000,
            metadata_max_age_ms=50,
        ) as member,
    ):
        broker.create_topic("gone", 1)
        fill(broker.address, "gone", {0: ["a"]})
        member.subscribe([TOPIC, "gone"])
        read(member, 11)
        with (
            broker.faults.delay("OffsetCommit", seconds=0.0, topic="gone") as fault,
            headrace.Admin(broker.address) as admin,
        ):
            admin.delete_topics(["gone"])
            poll_until(lambda: member.assignment() == {PLACE}, member)
            assert fault.hits == 0
