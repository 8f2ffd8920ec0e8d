"""confluent-kafka (librdkafka) in groups, by both protocols: members share, leave and return, and keep their place."""

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions

from tests.support.broker_process import BrokerProcess
from tests.support.clients_confluent import SECONDS, admin, assigned, create_topic, outcomes, sender, take, values
from tests.support.clients_confluent_groups import PROTOCOLS, Member, Place, crew
from tests.support.waiting import wait_until

PARTITIONS = 4


@pytest.fixture
def made(address: str, topic: str) -> str:
    return create_topic(address, topic, PARTITIONS)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def everywhere(topic: str, count: int = PARTITIONS) -> list[Place]:
    return [(topic, index) for index in range(count)]


def fill(address: str, topic: str, numbers: range, partitions: int = PARTITIONS) -> None:
    producer = sender(address)
    for number in numbers:
        producer.send(topic, b"%d" % number, partition=number % partitions)
    producer.flush()
    assert not producer.failed


def numbers_of(*members: Member) -> list[int]:
    return sorted(int(value or b"") for member in members for value in member.values)


# Sharing


def test_members_share_the_partitions_and_take_over_where_others_stopped(
    address: str, made: str, protocol: str
) -> None:
    with crew(address, made) as group:
        first = group.join(protocol, made)
        group.share(*everywhere(made))
        fill(address, made, range(100))
        group.until(lambda: len(first.got) == 100, "it reads everything")
        first.consumer.commit(asynchronous=False)
        second = group.join(protocol, made)
        group.share(*everywhere(made))
        third = group.join(protocol, made)
        group.share(*everywhere(made))
        fill(address, made, range(100, 200))
        group.until(lambda: sum(len(each.got) for each in group.members) == 200, "they read everything")
        for member in group.members:
            member.consumer.commit(asynchronous=False)
        group.leave(second)
        group.share(*everywhere(made))
        group.leave(first)
        group.share(*everywhere(made))
        fill(address, made, range(200, 300))
        group.until(lambda: sum(len(each.got) for each in group.everybody) >= 300, "the last one reads everything")
        assert numbers_of(first, second, third) == list(range(300))
        assert not any(member.errors or member.lost for member in group.everybody)


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range", "roundrobin"])
def test_who_keeps_what_when_a_member_joins(address: str, made: str, strategy: str) -> None:
    """By the cooperative strategy only what moves is taken away, by the others everything."""
    with crew(address, made) as group:
        first = group.join("classic", made, partition_assignment_strategy=strategy)
        group.share(*everywhere(made))
        second = group.join("classic", made, partition_assignment_strategy=strategy)
        group.share(*everywhere(made))
        moved = second.owned if strategy == "cooperative-sticky" else set(everywhere(made))
        assert [each for each in first.taken if each] == [moved]
        group.leave(second)
        group.share(*everywhere(made))
        assert not first.errors


def test_by_the_consumer_protocol_only_what_moves_is_taken_away(address: str, made: str) -> None:
    with crew(address, made) as group:
        first = group.join("consumer", made, group_remote_assignor="range")
        group.share(*everywhere(made))
        second = group.join("consumer", made)
        group.share(*everywhere(made))
        assert first.taken == [second.owned]
        assert second.owned == {(made, 2), (made, 3)} or second.owned == {(made, 0), (made, 1)}


def test_a_pattern_is_a_subscription(address: str, topic: str, protocol: str) -> None:
    for name in (f"{topic}-a", f"{topic}-b", topic):
        create_topic(address, name, 2)
    with crew(address, topic) as group:
        group.join(protocol, f"^{topic}-.*")
        group.share(*everywhere(f"{topic}-a", 2), *everywhere(f"{topic}-b", 2))
        other = group.join(protocol, f"^{topic}-[b-z]", topic)
        wanted = {place for name in (f"{topic}-a", f"{topic}-b", topic) for place in everywhere(name, 2)}
        group.until(lambda: set().union(*(each.owned for each in group.members)) == wanted, "all is owned")
        assert set(everywhere(topic, 2)) <= other.owned
        assert not other.owned & set(everywhere(f"{topic}-a", 2))


def test_new_topics_and_new_partitions_are_shared_as_well(address: str, topic: str, protocol: str) -> None:
    """A classic member looks for itself whether its pattern matches; the broker looks at most every ten seconds."""
    create_topic(address, f"{topic}-a")
    wanted = [f"^{topic}-.*"] if protocol == "classic" else [f"{topic}-a", f"{topic}-b"]
    with crew(address, topic) as group:
        group.join(protocol, *wanted)
        group.join(protocol, *wanted)
        group.until(lambda: any(each.owned for each in group.members), "one has the only partition")
        create_topic(address, f"{topic}-b", 2)
        group.share(*everywhere(f"{topic}-a", 1), *everywhere(f"{topic}-b", 2))
        assert outcomes(admin(address).create_partitions([NewPartitions(f"{topic}-a", 2)])) == {f"{topic}-a": None}
        group.share(*everywhere(f"{topic}-a", 2), *everywhere(f"{topic}-b", 2))


def test_members_with_different_subscriptions_get_only_what_they_want(address: str, topic: str, protocol: str) -> None:
    a, b, c = (set(everywhere(create_topic(address, f"{topic}-{name}", 2), 2)) for name in "abc")
    with crew(address, topic) as group:
        one = group.join(protocol, f"{topic}-a", f"{topic}-b")
        two = group.join(protocol, f"{topic}-b", f"{topic}-c")
        group.until(lambda: one.owned | two.owned == a | b | c and not one.owned & two.owned, "all is owned")
        assert a <= one.owned <= a | b
        assert c <= two.owned <= b | c
        one.subscribe(f"{topic}-c")
        group.until(lambda: one.owned | two.owned == b | c and not one.owned & two.owned, "all is owned")
        assert one.owned <= c


# Static members


def test_a_static_member_that_returns_finds_its_partitions(address: str, made: str, protocol: str) -> None:
    with crew(address, made) as group:
        here = group.join(protocol, made, group_instance_id="here")
        gone = group.join(protocol, made, group_instance_id="gone")
        group.share(*everywhere(made))
        theirs, events = gone.owned, (len(here.given), len(here.taken))
        group.leave(gone)
        back = group.join(protocol, made, group_instance_id="gone")
        group.until(lambda: back.owned == theirs, "it has what it had")
        assert (len(here.given), len(here.taken)) == events, "nobody else was troubled"


def test_of_two_with_the_same_name_one_must_go(address: str, made: str, protocol: str) -> None:
    """A classic group believes the newcomer, and fences the old one; a consumer group refuses the newcomer."""
    with crew(address, made) as group:
        old = group.join(protocol, made, group_instance_id="me")
        group.share(*everywhere(made))
        new = group.join(protocol, made, group_instance_id="me")
        if protocol == "classic":
            group.until(lambda: bool(old.errors), "the old one hears of it")
            assert set(old.errors) == {"_FATAL"}
            group.abandon(old)
            group.share(*everywhere(made))
            assert not new.errors
        else:
            group.until(lambda: bool(new.errors), "the new one hears of it")
            assert set(new.errors) == {"_FATAL"}
            assert not old.errors
            assert old.owned == set(everywhere(made))


# Offsets


def test_offsets_are_committed_in_every_way(address: str, made: str, protocol: str) -> None:
    reported: list[int] = []
    with crew(address, made) as group:
        member = group.join(
            protocol, made, on_commit=lambda error, rows: reported.extend(row.offset for row in rows if not error)
        )
        group.share(*everywhere(made))
        assert member.committed((made, 0)) == [OFFSET_INVALID]
        fill(address, made, range(40))
        group.until(lambda: len(member.got) == 40, "everything is read")
        (row,) = member.consumer.commit(offsets=[TopicPartition(made, 0, 3, "why", leader_epoch=0)], asynchronous=False)
        assert row.offset == 3
        (row,) = member.consumer.committed([TopicPartition(made, 0)], timeout=SECONDS)
        assert (row.offset, row.metadata, row.leader_epoch) == (3, "why", 0)
        last = next(each for each in reversed(member.got) if each.partition() == 1)
        member.consumer.commit(message=last, asynchronous=False)
        assert member.committed((made, 0), (made, 1), (made, 2)) == [3, 10, OFFSET_INVALID]
        reported.clear()
        member.consumer.commit(asynchronous=True)
        group.until(lambda: reported.count(10) >= 3, "the commit is reported")
        assert member.committed(*everywhere(made)) == [10] * 4
        with pytest.raises(KafkaException, match="OFFSET_METADATA_TOO_LARGE"):
            member.consumer.commit(offsets=[TopicPartition(made, 0, 4, "x" * 5000)], asynchronous=False)


def test_what_is_stored_is_committed_now_and_then_and_at_the_end(address: str, made: str, protocol: str) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 50, "enable_auto_offset_store": False}
    with crew(address, made) as group:
        member = group.join(protocol, made, **settings)
        group.share(*everywhere(made))
        fill(address, made, range(40))
        group.until(lambda: len(member.got) == 40, "everything is read")
        member.consumer.store_offsets(offsets=[TopicPartition(made, 0, 5), TopicPartition(made, 1, 6)])
        group.until(lambda: member.committed((made, 0), (made, 1)) == [5, 6], "it is committed")
        group.leave(member)
        late = group.join(protocol, made, enable_auto_commit=True, auto_commit_interval_ms=3_600_000)
        group.until(lambda: len(late.got) == 29, "the rest is read")
        group.leave(late)
    with assigned(address, group_id=made) as outsider:
        found = outsider.committed([TopicPartition(*place) for place in everywhere(made)], timeout=SECONDS)
    assert [row.offset for row in found] == [10, 10, 10, 10]


@pytest.mark.parametrize(
    ("policy", "told", "read"),
    [("earliest", "_PARTITION_EOF", 8), ("latest", "_PARTITION_EOF", 0), ("error", "_AUTO_OFFSET_RESET", 0)],
)
def test_where_nothing_is_committed_the_policy_decides(
    address: str, made: str, protocol: str, policy: str, told: str, read: int
) -> None:
    fill(address, made, range(8))
    with crew(address, made) as group:
        member = group.join(protocol, made, auto_offset_reset=policy, enable_partition_eof=True)
        group.until(lambda: len(member.errors) == PARTITIONS, "every partition has come to its end")
        assert member.errors == [told] * PARTITIONS
        assert len(member.got) == read


def test_a_consumer_that_assigns_itself_commits_to_a_group_without_members(address: str, made: str) -> None:
    fill(address, made, range(40))
    place = TopicPartition(made, 0, 0)
    with assigned(address, place, group_id=made) as outsider:
        assert len(take(outsider, 5)) == 5
        outsider.commit(asynchronous=False)
    with assigned(address, TopicPartition(made, 0), group_id=made) as outsider:  # where the group is
        assert values(take(outsider, 1)) == [b"20"]
        with crew(address, made) as group:
            group.join("classic", made)
            group.share(*everywhere(made))
            with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
                outsider.commit(asynchronous=False)
        outsider.commit(asynchronous=False)
        (row,) = outsider.committed([TopicPartition(made, 0)], timeout=SECONDS)
        assert row.offset == 6


# A broker that comes back


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
def test_members_go_on_when_the_broker_comes_back(tmp_path: Path, topic: str, protocol: str, crash: bool) -> None:
    configs = {"group.initial.rebalance.delay.ms": "0", "group.consumer.min.heartbeat.interval.ms": "50"}
    configs["group.consumer.heartbeat.interval.ms"] = "50"
    with BrokerProcess(tmp_path, configs=configs) as broker:
        create_topic(broker.bootstrap, topic, PARTITIONS)
        with crew(broker.bootstrap, topic) as group:
            # Longer than a broker's return on any disk: who is away for longer has to join anew.
            patience = {"session_timeout_ms": 60_000} if protocol == "classic" else {}
            group.join(protocol, topic, **patience)
            group.join(protocol, topic, **patience)
            group.share(*everywhere(topic))
            fill(broker.bootstrap, topic, range(100))
            group.until(lambda: len(numbers_of(*group.members)) == 100, "everything is read")
            for member in group.members:
                member.consumer.commit(asynchronous=False)
            owned = [member.owned for member in group.members]
            if crash:
                broker.kill()
            else:
                broker.stop()
            broker.start()
            fill(broker.bootstrap, topic, range(100, 200))
            group.until(lambda: len(numbers_of(*group.members)) >= 200, "everything is read")
            assert numbers_of(*group.members) == list(range(200))
            assert [member.owned for member in group.members] == owned, "the group is as it was"
            wait_until(lambda: _commits(group.members), "they can commit")
        with assigned(broker.bootstrap, group_id=topic) as outsider:
            found = outsider.committed([TopicPartition(*place) for place in everywhere(topic)], timeout=SECONDS)
        assert [row.offset for row in found] == [50] * PARTITIONS
        broker.check_log()


def _commits(members: list[Member]) -> bool:
    try:
        for member in members:
            member.consumer.commit(asynchronous=False)
    except KafkaException:
        return False
    return True
