"""Consumers that share partitions, in both protocols and against both brokers."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import pytest

import headrace
from headrace.client.consumer import Consumer
from headrace.client.subscriptions import BrokerPattern
from headrace.client.topic_partition import TopicPartition
from tests.support.both_brokers import eventually, unique
from tests.support.consuming import fill, read, values

SECONDS = 120.0  # so long the machine may be busy; what needs it is broken
CLASSIC = [["range"], ["roundrobin"], ["sticky"], ["cooperative-sticky"], ["range", "cooperative-sticky"]]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[headrace.Admin]:
    with headrace.Admin(bootstrap) as made:
        yield made


@pytest.fixture
def topic(admin: headrace.Admin) -> str:
    name = unique("shared")
    admin.create_topic(name, partitions=4)
    return name


# A broker asks members of the protocol `consumer` for a heartbeat every five seconds, so its rebalances take a while.
@pytest.fixture(params=["classic", pytest.param("consumer", marks=pytest.mark.slow)])
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def member(bootstrap: str, protocol: str) -> Iterator[Callable[..., Consumer]]:
    """Makes members; all are closed at the end."""
    with ExitStack() as stack:

        def make(
            group: str, topics: Any = None, *, listens_to: dict[str, Any] | None = None, **configs: Any
        ) -> Consumer:
            settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_protocol": protocol}
            if protocol == "classic":
                settings |= {"heartbeat_interval_ms": 50}
            consumer = headrace.Consumer(bootstrap, group=group, **{**settings, **configs})
            stack.callback(consumer.close)
            if topics is not None:
                consumer.subscribe(topics, **(listens_to or {}))
            return consumer

        yield make


def owned(consumer: Consumer) -> list[int]:
    return sorted(partition.partition for partition in consumer.assignment())


def poll_until(condition: Callable[[], bool], *consumers: Consumer) -> list[headrace.ConsumerRecord]:
    """All consumers poll, and so take part in rebalances, until it holds; what they got meanwhile."""
    records: list[headrace.ConsumerRecord] = []
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, [sorted(each.assignment()) for each in consumers]
        for consumer in consumers:
            records += consumer.poll(0.01)
    return records


def shares(*consumers: Consumer) -> Callable[[], bool]:
    """All four partitions are shared, none twice, and everyone has some."""

    def holds() -> bool:
        all_owned = [owned(consumer) for consumer in consumers]
        return all(all_owned) and sorted(chain.from_iterable(all_owned)) == [0, 1, 2, 3]

    return holds


def test_one_member_has_all_partitions_and_commits(member: Any, bootstrap: str, topic: str) -> None:
    group = unique("g")
    fill(bootstrap, topic, {number: ["a", "b"] for number in range(4)})
    alone = member(group, [topic])
    assert len(read(alone, 8)) == 8
    assert owned(alone) == [0, 1, 2, 3]
    assert alone.subscription() == {topic}
    assert alone.group_member.group_id == group
    assert alone.group_member.generation > 0
    alone.commit()
    alone.close()
    assert alone.assignment() == set()
    fill(bootstrap, topic, {2: ["c"]})
    assert values(read(member(group, topic), 1)) == ["c"]


def test_members_share_and_who_leaves_leaves_its_share_to_the_others(member: Any, topic: str) -> None:
    group = unique("g")
    first, second = member(group, [topic]), member(group, [topic])
    poll_until(shares(first, second), first, second)
    third = member(group, [topic])
    poll_until(shares(first, second, third), first, second, third)
    second.close()
    poll_until(shares(first, third), first, third)
    first.unsubscribe()
    assert owned(first) == []
    poll_until(shares(third), first, third)
    first.subscribe([topic])
    poll_until(shares(first, third), first, third)


@pytest.mark.parametrize("strategy", CLASSIC, ids="+".join)
def test_every_assignor_shares(bootstrap: str, topic: str, strategy: list[str]) -> None:
    group = unique("g")
    configs: dict[str, Any] = {"partition_assignment_strategy": strategy, "heartbeat_interval_ms": 50}
    with (
        headrace.Consumer(bootstrap, group=group, topics=[topic], **configs) as first,
        headrace.Consumer(bootstrap, group=group, topics=[topic], **configs) as second,
        headrace.Consumer(bootstrap, group=group, topics=[topic], **configs) as third,
    ):
        poll_until(shares(first, second, third), first, second, third)


def test_an_assignor_of_ones_own(bootstrap: str, topic: str) -> None:
    class OldestTakesAll:
        name = "oldest"
        is_cooperative = False

        def user_data(self, owned: Any, generation: int) -> bytes:
            return b"%d %d" % (len(owned), generation)

        def assign(self, topics: Any, members: Any) -> dict[str, list[TopicPartition]]:
            told.append(sorted(member.user_data or b"" for member in members))
            assignment: dict[str, list[TopicPartition]] = {member.id: [] for member in members}
            oldest = min(members, key=lambda member: member.instance_id)
            assignment[oldest.id] = [
                TopicPartition(name, number) for name in topics for number in range(len(topics[name]))
            ]
            return assignment

    told: list[list[bytes]] = []
    group = unique("g")
    configs: dict[str, Any] = {"partition_assignment_strategy": [OldestTakesAll], "heartbeat_interval_ms": 50}
    with (
        headrace.Consumer(bootstrap, group=group, topics=[topic], group_instance_id="b", **configs) as young,
        headrace.Consumer(bootstrap, group=group, group_instance_id="a", **configs) as old,
    ):
        poll_until(lambda: owned(young) == [0, 1, 2, 3], young)
        old.subscribe([topic])
        poll_until(lambda: (owned(old), owned(young)) == ([0, 1, 2, 3], []), young, old)
    assert told[0] == [b""]
    assert told[-1][-1].startswith(b"4 ")


def test_an_assignor_that_fails_is_told_to_the_user_again_and_again(bootstrap: str, topic: str) -> None:
    class Broken:
        name = "broken"
        is_cooperative = False

        def user_data(self, owned: Any, generation: int) -> None: ...

        def assign(self, topics: Any, members: Any) -> dict[str, list[TopicPartition]]:
            raise ZeroDivisionError("not today")

    configs: dict[str, Any] = {"partition_assignment_strategy": [Broken()], "session_timeout_ms": 6000}
    with headrace.Consumer(bootstrap, group=unique("g"), topics=[topic], **configs) as consumer:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError, match="not today"):
                poll_until(lambda: False, consumer)


def test_listeners_hear_of_everything_in_time(member: Any, bootstrap: str, topic: str) -> None:
    group = unique("g")
    fill(bootstrap, topic, {number: ["0", "1", "2"] for number in range(4)})
    heard: list[tuple[str, list[int]]] = []

    def listener(what: str) -> Callable[[list[TopicPartition]], None]:
        def hear(partitions: list[TopicPartition]) -> None:
            assert threading.current_thread() is threading.main_thread()
            heard.append((what, [partition.partition for partition in partitions]))
            if what == "assigned":
                for partition in partitions:
                    if first.position(partition) == 0:
                        first.seek(partition, 2)
            else:
                first.commit(dict.fromkeys(partitions, 3))

        return hear

    first = member(group)
    first.subscribe([topic], on_assigned=listener("assigned"), on_revoked=listener("revoked"))
    assert values(read(first, 4)) == ["2", "2", "2", "2"]
    assert heard == [("assigned", [0, 1, 2, 3])]
    second = member(group, [topic])
    poll_until(shares(first, second), first, second)
    revoked = next(partitions for what, partitions in heard if what == "revoked")
    assert set(owned(second)) <= set(revoked)
    committed = first.committed([TopicPartition(topic, number) for number in revoked])
    assert {place.offset for place in committed.values() if place is not None} == {3}
    heard.clear()
    last = owned(first)
    first.close()
    assert heard == [("revoked", last)]


def test_an_error_in_a_listener_comes_out_of_poll_and_the_group_goes_on(
    member: Any, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, {0: ["a"]})

    def fail(partitions: list[TopicPartition]) -> None:
        raise LookupError(len(partitions))

    consumer = member(unique("g"), [topic], listens_to={"on_assigned": fail})
    with pytest.raises(LookupError, match="4"):
        poll_until(lambda: False, consumer)
    assert values(read(consumer, 1)) == ["a"]


def test_a_pattern_takes_topics_in_that_come_later(member: Any, admin: headrace.Admin, bootstrap: str) -> None:
    word = unique("metrics")
    admin.create_topic(f"{word}-a")
    admin.create_topic(f"other-{word}-b")
    consumer = member(unique("g"), re.compile(f"{word}-."), metadata_max_age_ms=100)
    poll_until(lambda: consumer.assignment() == {TopicPartition(f"{word}-a", 0)}, consumer)
    assert consumer.subscription() == {f"{word}-a"}
    admin.create_topic(f"{word}-c")
    fill(bootstrap, f"{word}-c", {0: ["late"]})
    assert values(read(consumer, 1)) == ["late"]
    admin.delete_topic(f"{word}-a")
    poll_until(lambda: consumer.assignment() == {TopicPartition(f"{word}-c", 0)}, consumer)


def test_a_pattern_that_the_broker_matches(admin: headrace.Admin, bootstrap: str) -> None:
    word = unique("metrics")
    admin.create_topic(f"{word}-a")
    fill(bootstrap, f"{word}-a", {0: ["x"]})
    configs: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}
    with headrace.Consumer(bootstrap, group=unique("g"), metadata_max_age_ms=100, **configs) as consumer:
        consumer.subscribe(BrokerPattern(f"{word}-[a-z]"))
        assert values(read(consumer, 1)) == ["x"]
    with (
        headrace.Consumer(bootstrap, group=unique("g")) as classic,
        pytest.raises(headrace.WrongStateError, match="only with group_protocol"),
    ):
        classic.subscribe(BrokerPattern("x"))


def test_new_partitions_of_a_topic_are_read(member: Any, admin: headrace.Admin, bootstrap: str, topic: str) -> None:
    consumer = member(unique("g"), [topic], metadata_max_age_ms=100)
    poll_until(lambda: owned(consumer) == [0, 1, 2, 3], consumer)
    admin.create_partitions({topic: 5})
    poll_until(lambda: owned(consumer) == [0, 1, 2, 3, 4], consumer)
    fill(bootstrap, topic, {4: ["new"]})
    assert values(read(consumer, 1)) == ["new"]


def test_a_subscription_can_be_changed(member: Any, admin: headrace.Admin, topic: str) -> None:
    other = unique("other")
    admin.create_topic(other)
    heard: list[tuple[str, int]] = []
    consumer = member(unique("g"), [topic])
    poll_until(lambda: len(consumer.assignment()) == 4, consumer)
    consumer.subscribe(
        [other],
        on_assigned=lambda partitions: heard.append(("assigned", len(partitions))),
        on_revoked=lambda partitions: heard.append(("revoked", len(partitions))),
    )
    poll_until(lambda: consumer.assignment() == {TopicPartition(other, 0)}, consumer)
    poll_until(lambda: heard == [("revoked", 4), ("assigned", 1)], consumer)


def test_subscribing_and_assigning_exclude_each_other(member: Any, topic: str) -> None:
    consumer = member(unique("g"), [topic])
    with pytest.raises(headrace.WrongStateError, match=r"topics are subscribed to.*unsubscribe\(\) first"):
        consumer.assign([TopicPartition(topic, 0)])
    consumer.unsubscribe()
    consumer.assign([TopicPartition(topic, 0)])
    with pytest.raises(headrace.WrongStateError, match="partitions are assigned by hand"):
        consumer.subscribe([topic])


def test_without_a_group_there_is_nothing_to_subscribe_to(bootstrap: str) -> None:
    with (
        headrace.Consumer(bootstrap) as consumer,
        pytest.raises(headrace.WrongStateError, match="give it a group, or assign"),
    ):
        consumer.subscribe(["orders"])


def test_a_static_member_that_returns_gets_the_same_partitions_back(
    member: Any, admin: headrace.Admin, topic: str
) -> None:
    group = unique("g")
    first = member(group, [topic], group_instance_id="one")
    second = member(group, [topic], group_instance_id="two")
    poll_until(shares(first, second), first, second)
    mine, generation = owned(first), second.group_member.generation
    first.close()
    again = member(group, [topic], group_instance_id="one")
    poll_until(lambda: owned(again) == mine, again, second)
    assert second.group_member.generation == generation


def test_a_second_static_member_of_the_same_name_fences_the_first(bootstrap: str, topic: str) -> None:
    group = unique("g")
    configs: dict[str, Any] = {"group_instance_id": "one", "heartbeat_interval_ms": 50}
    with (
        headrace.Consumer(bootstrap, group=group, topics=[topic], **configs) as first,
        headrace.Consumer(bootstrap, group=group, **configs) as second,
    ):
        poll_until(lambda: len(first.assignment()) == 4, first)
        second.subscribe([topic])
        poll_until(lambda: len(second.assignment()) == 4, second)
        for _ in range(2):
            with pytest.raises(headrace.FencedError, match="has the name 'one'"):
                poll_until(lambda: False, first)
        assert first.assignment() == set()


# Automatic commits


def test_what_was_handed_out_is_committed_automatically(member: Any, bootstrap: str, topic: str) -> None:
    group = unique("g")
    fill(bootstrap, topic, {0: ["0", "1", "2", "3"]})
    place = TopicPartition(topic, 0)
    consumer = member(group, [topic], enable_auto_commit=True, auto_commit_interval_ms=20)
    assert len(read(consumer, 2)) == 2

    def committed() -> int | None:
        found = consumer.committed([place])[place]
        return None if found is None else found.offset

    for _ in range(3):
        time.sleep(0.03)  # some automatic commits pass by: what was handed out last may still be worked at
        assert committed() in (None, 0, 1)
    poll_until(lambda: committed() == 4, consumer)


def test_an_iteration_commits_all_but_the_record_that_is_worked_at(member: Any, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, {0: ["0", "1", "2", "3"]})
    place = TopicPartition(topic, 0)
    consumer = member(unique("g"), [topic], enable_auto_commit=True, auto_commit_interval_ms=20)
    for record in consumer:
        if record.offset == 2:
            eventually(lambda: consumer.committed([place]) == {place: headrace.OffsetAndMetadata(2, 0)})
            break


@pytest.mark.parametrize(("is_failing", "expected"), [(False, 3), (True, 2)])
def test_a_block_that_fails_does_not_commit_the_record_that_it_failed_at(
    bootstrap: str, topic: str, protocol: str, is_failing: bool, expected: int
) -> None:
    group = unique("g")
    fill(bootstrap, topic, {0: ["0", "1", "2", "3"]})
    place = TopicPartition(topic, 0)

    def work() -> None:
        configs: dict[str, Any] = {"auto_offset_reset": "earliest", "group_protocol": protocol}
        with headrace.Consumer(bootstrap, group=group, topics=[topic], **configs) as consumer:
            for record in consumer:
                if record.offset == 2:
                    if is_failing:
                        raise LookupError
                    return

    if is_failing:
        with pytest.raises(LookupError):
            work()
    else:
        work()
    with headrace.Consumer(bootstrap, group=group) as consumer:
        assert consumer.committed([place]) == {place: headrace.OffsetAndMetadata(expected, 0)}


def test_partitions_are_committed_before_they_are_given_up(member: Any, bootstrap: str, topic: str) -> None:
    group = unique("g")
    fill(bootstrap, topic, {number: ["a"] for number in range(4)})
    first = member(group, [topic], enable_auto_commit=True)
    assert len(read(first, 4)) == 4
    second = member(group, [topic], enable_auto_commit=True)
    assert poll_until(shares(first, second), first, second) == []


# A user that is stuck


def test_a_stuck_user_leaves_the_group_and_is_told_why_at_the_next_poll(
    member: Any, bootstrap: str, topic: str
) -> None:
    group = unique("g")
    fill(bootstrap, topic, {number: ["a"] for number in range(4)})
    heard: list[str] = []
    stuck = member(group, [topic], listens_to={"on_lost": lambda _: heard.append("lost")}, max_poll_interval_ms=300)
    assert len(read(stuck, 4)) == 4
    other = member(group, [topic])
    poll_until(lambda: owned(other) == [0, 1, 2, 3], other)
    assert stuck.assignment() == set()
    assert heard == []
    with pytest.raises(headrace.PollIntervalError, match=r"asked for no records for 0\.\d s.*max_poll_interval_ms"):
        stuck.poll(SECONDS)
    assert heard == ["lost"]
    with pytest.raises(headrace.CommitFailedError):
        stuck.commit({TopicPartition(topic, 0): 1})
    poll_until(shares(stuck, other), stuck, other)


def test_a_user_that_is_slow_with_each_record_is_not_stuck(member: Any, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, {0: [str(number) for number in range(10)]})
    consumer = member(unique("g"), [topic], max_poll_interval_ms=300)
    for record in consumer:
        time.sleep(0.1)  # the user's work; all of it takes longer than the interval
        if record.offset == 9:
            break


def test_a_rebalance_interrupts_an_iteration_after_the_record_that_it_is_at(
    member: Any, bootstrap: str, topic: str
) -> None:
    group = unique("g")
    fill(bootstrap, topic, {number: ["x"] * 2500 for number in range(4)})
    first = member(group, [topic], max_poll_interval_ms=60_000)
    taken = 0
    second = None
    for _ in first:
        taken += 1
        if second is None:
            second = member(group, [topic])
        time.sleep(0.002)  # the user's work
        if len(owned(first)) < 4:
            break
    assert taken % 500, "the rebalance waited until all records of a poll were taken"
    assert second is not None
    poll_until(shares(first, second), first, second)


def test_settings_that_do_not_go_together() -> None:
    with pytest.raises(
        headrace.ConfigError, match=r"session\.timeout\.ms must be left out with group\.protocol=consumer"
    ):
        headrace.Consumer("localhost:9092", group="g", group_protocol="consumer", session_timeout_ms=6000)
    with pytest.raises(headrace.ConfigError, match=r"heartbeat\.interval\.ms must be below"):
        headrace.Consumer("localhost:9092", group="g", heartbeat_interval_ms=45_000)
    with pytest.raises(headrace.ConfigError, match=r"group\.remote\.assignor must be left out"):
        headrace.Consumer("localhost:9092", group="g", group_remote_assignor="uniform")
    with pytest.raises(headrace.ConfigError, match=r"group\.id must not be empty"):
        headrace.Consumer("localhost:9092", group="")
    with pytest.raises(headrace.ConfigError, match='not "rnge"'):
        headrace.Consumer("localhost:1", group="g", partition_assignment_strategy=["rnge"])
