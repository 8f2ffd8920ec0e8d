"""Requests that no honest client would send: each is answered, and what is written can be read again."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinator.groups import GroupShard
from headrace.coordinator.result import Client, Step, Ticket
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.protocol.types import ZERO_UUID
from tests.support.consumer_protocol import subscription_bytes
from tests.support.group_driver import GroupDriver, topic_id_of
from tests.support.group_invariants import check_all

Decide = Callable[[GroupShard, Ticket, int], Step]
GOOD = subscription_bytes(["t"])
CLIENT = Client("A", "/127.0.0.1")

groups = st.sampled_from(["g", "g", "g", "g", "", "h"])
member_ids = st.sampled_from(["A-1", "A-1", "i1-2", "i1-2", "", "", "A-3", "nobody"])  # some that are given out
instances = st.sampled_from([None, None, None, "i1", "i1", ""])
generations = st.sampled_from([2, 2, 2, 3, 4, -1, 0, -(1 << 31), (1 << 31) - 1])
indexes = st.sampled_from([0, 0, 1, 2, -1, (1 << 31) - 1])
numbers = st.sampled_from([7_000, 60_000, 3, 1, 0, -1, -(1 << 31), (1 << 31) - 1])
longs = st.sampled_from([-1, -1, 0, 1, (1 << 63) - 1, -2, -(1 << 63)])
texts = st.sampled_from([None, "text", "", "x" * 5_000])
names = st.sampled_from(["t", "t", "t", "u", ""])
topic_ids = st.sampled_from([topic_id_of("t"), topic_id_of("t"), ZERO_UUID, b"?" * 16])
blobs = st.sampled_from([GOOD, GOOD, b"", b"\x00", GOOD[:-5], b"\xff" * 10])
a_protocol = st.builds(JoinGroupRequestProtocol, st.sampled_from(["range", "range", "range", "sticky", ""]), blobs)
rows = st.lists(st.builds(OffsetCommitRequestPartition, indexes, longs, numbers, texts), min_size=1, max_size=2)
txn_rows = st.lists(st.builds(TxnOffsetCommitRequestPartition, indexes, longs, numbers, texts), min_size=1, max_size=2)


@st.composite
def joins(draw: st.DrawFn) -> Decide:
    request = JoinGroupRequest(
        draw(groups),
        draw(st.sampled_from([10_000, 10_000, 6_000, 0, -1])),
        draw(numbers),
        draw(member_ids),
        draw(instances),
        draw(st.sampled_from(["consumer", "consumer", "consumer", "connect", ""])),
        draw(st.lists(a_protocol, max_size=3)),
        draw(texts),
    )
    version = draw(st.integers(0, 9))
    return lambda shard, ticket, now_ms: shard.join_group(
        request, ticket=ticket, client=CLIENT, version=version, now_ms=now_ms
    )


@st.composite
def syncs(draw: st.DrawFn) -> Decide:
    request = SyncGroupRequest(
        draw(groups),
        draw(generations),
        draw(member_ids),
        draw(instances),
        draw(st.sampled_from([None, "consumer", "connect"])),
        draw(st.sampled_from([None, "range", "sticky"])),
        draw(st.lists(st.builds(SyncGroupRequestAssignment, member_ids, blobs), max_size=3)),
    )
    return lambda shard, ticket, now_ms: shard.sync_group(request, ticket=ticket, now_ms=now_ms)


@st.composite
def heartbeats(draw: st.DrawFn) -> Decide:
    request = HeartbeatRequest(draw(groups), draw(generations), draw(member_ids), draw(instances))
    return lambda shard, ticket, now_ms: shard.heartbeat(request, ticket=ticket, now_ms=now_ms)


@st.composite
def leaves(draw: st.DrawFn) -> Decide:
    members = draw(st.lists(st.builds(MemberIdentity, member_ids, instances, texts), max_size=3))
    request, version = LeaveGroupRequest(draw(groups), draw(member_ids), members), draw(st.integers(0, 5))
    return lambda shard, ticket, now_ms: shard.leave_group(request, ticket=ticket, version=version, now_ms=now_ms)


@st.composite
def commits(draw: st.DrawFn) -> Decide:
    topics = draw(st.lists(st.builds(OffsetCommitRequestTopic, names, topic_ids, rows), max_size=2))
    who = (draw(groups), draw(generations), draw(member_ids), draw(instances))
    request, version = OffsetCommitRequest(*who, draw(longs), topics), draw(st.integers(2, 10))
    return lambda shard, ticket, now_ms: shard.offset_commit(request, ticket=ticket, version=version, now_ms=now_ms)


@st.composite
def txn_commits(draw: st.DrawFn) -> Decide:
    topics = draw(st.lists(st.builds(TxnOffsetCommitRequestTopic, names, txn_rows), max_size=2))
    who = (draw(generations), draw(member_ids), draw(instances))
    request = TxnOffsetCommitRequest("tx", draw(groups), draw(st.sampled_from([7, 8])), 0, *who, topics)
    return lambda shard, ticket, now_ms: shard.txn_offset_commit(request, ticket=ticket, version=5, now_ms=now_ms)


@st.composite
def deletes(draw: st.DrawFn) -> Decide:
    partitions = st.lists(st.builds(OffsetDeleteRequestPartition, indexes), max_size=2)
    request = OffsetDeleteRequest(
        draw(groups), draw(st.lists(st.builds(OffsetDeleteRequestTopic, names, partitions), max_size=2))
    )
    return lambda shard, ticket, _: shard.offset_delete(request, ticket=ticket)


fetched_topics = st.lists(
    st.builds(OffsetFetchRequestTopics, names, topic_ids, st.lists(indexes, max_size=2)), max_size=2
)
fetches = st.builds(
    OffsetFetchRequestGroup, groups, st.sampled_from([None, "", "A-1"]), numbers, st.none() | fetched_topics
)
anything: st.SearchStrategy[Any] = st.one_of(
    joins(),
    joins(),
    syncs(),
    heartbeats(),
    leaves(),
    commits(),
    txn_commits(),
    deletes(),
    fetches,
    st.sampled_from(["move", "restart", "commit 7", "abort 8", "describe", "list"]),
)


def join(driver: GroupDriver, member_id: str, instance_id: str | None, version: int) -> Ticket:
    protocols = [JoinGroupRequestProtocol("range", GOOD)]
    request = JoinGroupRequest("g", 10_000, 60_000, member_id, instance_id, "consumer", protocols)
    return driver.send(
        lambda shard, ticket: shard.join_group(
            request, ticket=ticket, client=CLIENT, version=version, now_ms=driver.now_ms
        )
    )


def sync(driver: GroupDriver, member_id: str, instance_id: str | None) -> Any:
    request = SyncGroupRequest("g", 2, member_id, instance_id)
    return driver.ask(lambda shard, ticket: shard.sync_group(request, ticket=ticket, now_ms=driver.now_ms))


def with_a_group() -> GroupDriver:
    """Generation 2 of g is stable: A-1 leads, i1-2 is static."""
    driver = GroupDriver()
    driver.make_topic("t", 2)
    join(driver, "", None, 3)
    join(driver, "", "i1", 5)
    join(driver, "A-1", None, 3)
    assert not sync(driver, "A-1", None).error_code
    assert not sync(driver, "i1-2", "i1").error_code
    driver.answers.clear()
    return driver


def send(driver: GroupDriver, decide: Decide) -> Ticket:
    return driver.send(lambda shard, ticket: decide(shard, ticket, driver.now_ms))


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.lists(anything, min_size=5, max_size=25))
def test_whatever_is_sent_is_answered_in_the_end(happenings: list[Any]) -> None:
    driver = with_a_group()
    sent: set[Ticket] = set()
    for happening in happenings:
        if isinstance(happening, OffsetFetchRequestGroup):
            driver.shard.fetch_offsets(happening, version=10, require_stable=True)
        elif happening == "move":
            driver.move(5_000)
        elif happening == "restart":
            driver.restart()
            sent.clear()
        elif happening in ("commit 7", "abort 8"):
            driver.end_transaction(int(happening[-1]), committed=happening == "commit 7")
        elif happening == "describe":
            driver.shard.describe_group("g", version=6)
        elif happening == "list":
            driver.shard.list_groups(["Stable"], ["classic"])
        else:
            sent.add(send(driver, happening))
        check_all(driver)
    driver.move((1 << 31) + 1_000_000)  # the longest time that a member can ask for
    assert sent <= driver.answers.keys(), "somebody waits for ever"
