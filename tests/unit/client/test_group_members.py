"""What members of groups say, and what they make of the answers."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client import group_classic_member, group_consumer_member
from headrace.client.assignors import load_assignors
from headrace.client.cluster import Cluster
from headrace.client.config import load_settings
from headrace.client.consumer_configs import CONSUMER_CONFIGS
from headrace.client.consumer_inbox import Inbox
from headrace.client.consumer_progress import HandedOut, Progress
from headrace.client.errors import FencedError, KafkaError
from headrace.client.group_classic_member import NO_GENERATION, ClassicMember, Joined
from headrace.client.group_consumer import ConsumerMembership
from headrace.client.group_consumer_member import ConsumerMember, PartitionOfId, Subscription
from headrace.client.group_member import GroupMember
from headrace.client.group_protocol import read_assignment, read_subscription, write_assignment, write_subscription
from headrace.client.group_rebalances import Rebalances
from headrace.client.group_topics import GroupTopics
from headrace.client.group_watch import UserWatch
from headrace.client.metadata import Metadata, Topic
from headrace.client.subscriptions import Place, Subscriptions
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.protocol.messages.sync_group import SyncGroupResponse

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
TOPIC = bytes(range(16))
partitions = st.lists(st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 9)), unique=True)


def settings(**configs: Any) -> Any:
    return load_settings(CONSUMER_CONFIGS, "localhost:9092", {}, {"group_id": "g", **configs})


def classic(*assignors: str, **configs: Any) -> ClassicMember:
    return ClassicMember(settings(**configs), load_assignors(assignors or ["range"]))


# What members tell one another


@given(partitions, st.integers(-1, 100), st.none() | st.text(min_size=1), st.none() | st.binary())
def test_a_subscription_is_read_as_it_was_written(
    owned: list[TopicPartition], generation: int, rack: str | None, user_data: bytes | None
) -> None:
    data = write_subscription(["b", "a"], owned=owned, generation=generation, rack=rack, user_data=user_data)
    found = read_subscription("m", "i", data)
    assert found.id == "m"
    assert found.instance_id == "i"
    assert found.topics == ("a", "b")
    assert sorted(found.owned) == sorted(owned)
    assert (found.generation, found.rack, found.user_data) == (generation, rack, user_data)


@given(partitions)
def test_an_assignment_is_read_as_it_was_written(assigned: list[TopicPartition]) -> None:
    assert sorted(read_assignment(write_assignment(assigned))) == sorted(assigned)


def test_a_later_version_is_read_as_far_as_it_is_known_and_nonsense_is_refused() -> None:
    data = write_assignment([A])
    assert read_assignment(b"\x00\x63" + data[2:]) == [A]
    assert read_assignment(b"") == []
    for nonsense in (b"\x00", b"\xff\xff" + data[2:], data[:-3]):
        with pytest.raises(ProtocolError):
            read_assignment(nonsense)


# The classic protocol


def join_answer(**fields: Any) -> JoinGroupResponse:
    return JoinGroupResponse(
        **{"generation_id": 7, "protocol_name": "range", "leader": "m", "member_id": "m", "members": [], **fields}
    )


def test_a_leader_gets_all_members_and_others_none() -> None:
    member = classic()
    introduced = write_subscription(["a"], owned=[A], generation=3)
    answer = join_answer(members=[JoinGroupResponseMember("m", None, introduced)])
    verdict, joined = member.joined(answer)
    assert verdict is group_classic_member.Verdict.DONE
    assert isinstance(joined, Joined)
    assert joined.is_leader
    assert joined.must_assign
    assert [each.owned for each in joined.members] == [[A]]
    assert member.identity == GroupMember("g", 7, "m")
    _, follower = classic().joined(join_answer(leader="other"))
    assert isinstance(follower, Joined)
    assert not follower.is_leader


def test_a_static_leader_that_comes_back_may_skip_the_assignment() -> None:
    _, joined = classic(group_instance_id="i").joined(join_answer(skip_assignment=True))
    assert isinstance(joined, Joined)
    assert joined.is_leader
    assert not joined.must_assign


def test_an_id_is_taken_before_the_second_attempt() -> None:
    member = classic()
    verdict, _ = member.joined(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
    assert verdict is group_classic_member.Verdict.REJOIN
    assert member.join(["a"], [], "").member_id == "given"
    assert member.generation == NO_GENERATION


def test_an_assignor_that_is_not_ours_ends_it() -> None:
    verdict, error = classic("sticky").joined(join_answer(protocol_name="elsewhere"))
    assert verdict is group_classic_member.Verdict.FAILED
    assert "agreed on the assignor 'elsewhere', which is not among ours: sticky" in str(error)


def test_what_was_assigned_is_told_to_the_next_assignor() -> None:
    member = classic("sticky", "cooperative-sticky")
    member.joined(join_answer(protocol_name="sticky"))
    verdict, assigned = member.synced(SyncGroupResponse(assignment=write_assignment([A, B])))
    assert verdict is group_classic_member.Verdict.DONE
    assert assigned == [A, B]
    said = {row.name: row.metadata for row in member.join(["a"], [A, B], "again").protocols}
    assert set(said) == {"sticky", "cooperative-sticky"}
    for name, data in said.items():
        introduced = read_subscription("m", None, bytes(data))
        assert introduced.generation == 7
        assert list(introduced.owned) == [A, B]
        assert introduced.user_data is not None, name


@pytest.mark.parametrize(
    ("code", "verdict", "generation", "member_id"),
    [
        ("NONE", "DONE", 7, "m"),
        ("REBALANCE_IN_PROGRESS", "REJOIN", 7, "m"),
        ("ILLEGAL_GENERATION", "BEGIN_ANEW", -1, "m"),
        ("UNKNOWN_MEMBER_ID", "BEGIN_ANEW", -1, ""),
        ("NOT_COORDINATOR", "ELSEWHERE", 7, "m"),
        ("COORDINATOR_NOT_AVAILABLE", "ELSEWHERE", 7, "m"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "AGAIN", 7, "m"),
        ("REQUEST_TIMED_OUT", "AGAIN", 7, "m"),
        ("GROUP_AUTHORIZATION_FAILED", "FAILED", 7, "m"),
        ("FENCED_INSTANCE_ID", "FENCED", 7, "m"),
    ],
)
def test_what_an_error_means_in_the_classic_protocol(code: str, verdict: str, generation: int, member_id: str) -> None:
    member = classic(group_instance_id="i")
    member.joined(join_answer())
    found, error = member.judge(ErrorCode[code], "does not want us")
    assert found is group_classic_member.Verdict[verdict]
    assert error.code is ErrorCode[code]
    assert isinstance(error, FencedError) == (code == "FENCED_INSTANCE_ID")
    assert member.identity == GroupMember("g", generation, member_id, "i")


def test_only_if_all_assignors_cooperate_partitions_are_kept_in_a_rebalance() -> None:
    assert classic("cooperative-sticky").is_cooperative
    assert not classic("range", "cooperative-sticky").is_cooperative


# The protocol `consumer`

WANTED = Subscription(frozenset({"a", "b"}))


def consumer(**configs: Any) -> ConsumerMember:
    return ConsumerMember(settings(group_protocol="consumer", **configs), "me")


def heartbeat_answer(
    epoch: int = 3, assigned: list[int] | None = None, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    rows = None if assigned is None else Assignment([TopicPartitions(TOPIC, assigned)])
    return ConsumerGroupHeartbeatResponse(
        member_id="me", member_epoch=epoch, heartbeat_interval_ms=100, assignment=rows, **fields
    )


def test_the_first_heartbeat_says_everything_and_the_next_one_only_what_is_new() -> None:
    member = consumer(client_rack="here", group_remote_assignor="range", group_instance_id="i")
    first = member.heartbeat(WANTED, [])
    assert (first.member_id, first.member_epoch, first.instance_id) == ("me", 0, "i")
    assert (first.rack_id, first.server_assignor) == ("here", "range")
    assert first.subscribed_topic_names == ["a", "b"]
    assert first.topic_partitions == []
    was_member = member.is_member
    verdict, target = member.heard(heartbeat_answer(assigned=[1, 2]))
    assert verdict is group_consumer_member.Verdict.DONE
    assert target == frozenset({PartitionOfId(TOPIC, 1), PartitionOfId(TOPIC, 2)})
    assert (was_member, member.is_member) == (False, True)
    assert member.identity == GroupMember("g", 3, "me", "i")

    assert isinstance(target, frozenset)
    assert member.has_news(WANTED, target)
    second = member.heartbeat(WANTED, target)
    assert second.topic_partitions == [TopicPartitions(TOPIC, [1, 2])]
    assert (second.subscribed_topic_names, second.rack_id, second.server_assignor) == (None, None, None)
    assert second.rebalance_timeout_ms == -1
    member.heard(heartbeat_answer(4))
    assert not member.has_news(WANTED, target)
    third = member.heartbeat(WANTED, target)
    assert third.topic_partitions is None
    assert third.member_epoch == 4


def test_what_got_no_answer_is_said_again() -> None:
    member = consumer()
    member.heartbeat(WANTED, [])
    member.heard(heartbeat_answer())
    member.heartbeat(Subscription(frozenset({"c"})), [])
    member.unheard()
    again = member.heartbeat(Subscription(frozenset({"c"})), [])
    assert again.subscribed_topic_names == ["c"]
    assert again.topic_partitions == []
    assert again.rebalance_timeout_ms > 0


def test_a_pattern_is_told_and_taken_back() -> None:
    member = consumer()
    assert member.heartbeat(Subscription(frozenset(), "a.*"), []).subscribed_topic_regex == "a.*"
    member.heard(heartbeat_answer())
    assert member.heartbeat(Subscription(frozenset(), "a.*"), []).subscribed_topic_regex is None
    assert member.heartbeat(WANTED, []).subscribed_topic_regex == ""


@pytest.mark.parametrize(
    ("code", "verdict", "is_member"),
    [
        ("COORDINATOR_LOAD_IN_PROGRESS", "AGAIN", True),
        ("NOT_COORDINATOR", "ELSEWHERE", True),
        ("COORDINATOR_NOT_AVAILABLE", "ELSEWHERE", True),
        ("FENCED_MEMBER_EPOCH", "BEGIN_ANEW", False),
        ("UNKNOWN_MEMBER_ID", "BEGIN_ANEW", False),
        ("GROUP_AUTHORIZATION_FAILED", "FAILED", True),
        ("UNRELEASED_INSTANCE_ID", "FAILED", True),
        ("UNSUPPORTED_ASSIGNOR", "FAILED", True),
    ],
)
def test_what_an_error_means_in_the_protocol_consumer(code: str, verdict: str, is_member: bool) -> None:
    member = consumer()
    member.heartbeat(WANTED, [])
    member.heard(heartbeat_answer())
    found, error = member.heard(ConsumerGroupHeartbeatResponse(error_code=ErrorCode[code], error_message="why"))
    assert found is group_consumer_member.Verdict[verdict]
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode[code]
    assert member.is_member == is_member
    assert member.heartbeat(WANTED, []).subscribed_topic_names == ["a", "b"]  # all of it again


def test_only_a_static_member_leaves_for_a_while() -> None:
    assert consumer().leave(is_final=False).member_epoch == group_consumer_member.LEAVING
    static = consumer(group_instance_id="i")
    assert static.leave(is_final=False).member_epoch == group_consumer_member.LEAVING_FOR_A_WHILE
    assert static.leave(is_final=True).member_epoch == group_consumer_member.LEAVING


def test_what_a_member_should_have_had_before_it_was_out_is_not_taken_after_it_has_joined_again() -> None:
    """All that is here while its user works at records of a partition that it should give up."""
    places = [TopicPartition("a", number) for number in range(3)]
    kept, given_up, given = (PartitionOfId(TOPIC, number) for number in range(3))
    topic = Topic("a", TOPIC, False, {}, ErrorCode.NONE, 0)
    seen: list[set[TopicPartition]] = []

    async def commit(_: Collection[TopicPartition]) -> None: ...

    async def story() -> None:
        configs = settings(group_protocol="consumer")
        cluster, subscriptions, progress = Cluster(configs), Subscriptions(), Progress()
        cluster.metadata = Metadata(topics={"a": topic}, names_by_id={TOPIC: "a"})
        inbox = Inbox(on_room=lambda: None)
        rebalances = Rebalances(
            subscriptions, inbox, progress, commit=commit, on_changed=lambda: seen.append(rebalances.owned)
        )
        watch = UserWatch(inbox, progress, 60.0)
        member = ConsumerMembership(cluster, GroupTopics(cluster, subscriptions), rebalances, inbox, watch)

        async def reconcile(*target: PartitionOfId) -> None:
            member._target = frozenset(target)
            member._is_target_new.set()
            for _ in range(5):
                await asyncio.sleep(0)

        task = asyncio.create_task(member._keep_reconciled())
        await reconcile(kept, given_up)
        state = subscriptions.state(places[1])
        state.jump(Place(0))
        progress.hand_out(HandedOut(state, state.era, [], Place(1)))
        await reconcile(kept)
        assert state.is_stopped
        rebalances.lose(rebalances.owned)
        seen.clear()
        await reconcile(given)
        notice = inbox.take_notice()
        assert notice is not None
        notice.acknowledge()
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await cluster.close()

    asyncio.run(story())
    assert {places[2]} in seen
    assert all(places[0] not in owned for owned in seen)
