"""Requests of both protocols that no honest client would send: each is answered, and what is written can be read."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinator.result import Ticket
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.support.consumer_invariants import check_consumer_groups
from tests.support.group_invariants import check_all
from tests.unit.coordinator.test_groups_fuzz import (
    CLIENT,
    Decide,
    commits,
    generations,
    groups,
    heartbeats,
    indexes,
    instances,
    joins,
    leaves,
    member_ids,
    names,
    numbers,
    send,
    syncs,
    texts,
    topic_ids,
    txn_commits,
    with_a_group,
)

epochs = st.one_of(st.just(0), st.sampled_from([2, 3, 4, 5, -1, -2, -3]), generations)
wishes = st.one_of(st.just(["t"]), st.none(), st.lists(names, max_size=3))
regexes = st.sampled_from([None, None, None, "", "t", "[tu]", "(a+)+", "(", "(?=t)", "a{1000}{2}", "x" * 9_000])
rows = st.builds(TopicPartitions, topic_ids, st.lists(indexes, max_size=3))


@st.composite
def consumer_heartbeats(draw: st.DrawFn) -> Decide:
    request = ConsumerGroupHeartbeatRequest(
        draw(groups),
        draw(member_ids),
        draw(epochs),
        draw(instances),
        draw(texts),
        draw(numbers),
        draw(wishes),
        draw(regexes),
        draw(st.sampled_from([None, None, "range", "uniform", "", "sticky"])),
        draw(st.one_of(st.just([]), st.none(), st.lists(rows, max_size=3))),
    )
    version = draw(st.integers(0, 1))
    return lambda shard, ticket, now_ms: shard.consumer_group_heartbeat(
        request, ticket=ticket, client=CLIENT, version=version, now_ms=now_ms
    )


@st.composite
def entering(draw: st.DrawFn) -> Decide:
    """The first heartbeat of a member that is as it should be."""
    member_id, instance_id = draw(st.sampled_from([("B", None), ("C", None), ("D", "i1"), ("E", "i2")]))
    request = ConsumerGroupHeartbeatRequest(
        "g", member_id, 0, instance_id, None, 60_000, ["t"], draw(st.sampled_from([None, "t|u"])), None, []
    )
    return lambda shard, ticket, now_ms: shard.consumer_group_heartbeat(
        request, ticket=ticket, client=CLIENT, version=1, now_ms=now_ms
    )


anything: st.SearchStrategy[Any] = st.one_of(
    entering(),
    consumer_heartbeats(),
    consumer_heartbeats(),
    joins(),
    syncs(),
    heartbeats(),
    leaves(),
    commits(),
    txn_commits(),
    st.sampled_from(["move", "restart", "describe", "delete", "topic", "no topic"]),
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.lists(anything, min_size=5, max_size=25))
def test_whatever_is_sent_is_answered_in_the_end(happenings: list[Any]) -> None:
    driver = with_a_group()
    sent: set[Ticket] = set()
    for number, happening in enumerate(happenings):
        if happening == "move":
            driver.move(5_000)
        elif happening == "restart":
            driver.restart()
            sent.clear()
        elif happening == "describe":
            driver.shard.describe_consumer_group("g")
        elif happening == "delete":
            driver.ask(lambda shard, ticket: shard.delete_group("g", ticket=ticket))
        elif happening == "topic":
            driver.make_topic("u", number + 1)
        elif happening == "no topic":
            if "u" in driver.image.topic_ids:
                driver.delete_topic("u")
        else:
            sent.add(send(driver, happening))
        check_all(driver)
        check_consumer_groups(driver)
    driver.move((1 << 31) + 1_000_000)  # the longest time that a member can ask for
    assert sent <= driver.answers.keys(), "somebody waits for ever"
