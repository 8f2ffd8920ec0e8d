"""Assignors: each partition has one owner that wants it, shares are even, and what can stay stays."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.assignors import Assignor, Member, load_assignors
from headrace.client.errors import ConfigError
from headrace.client.topic_partition import TopicPartition

NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
STICKY = ["sticky", "cooperative-sticky"]
layouts = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 7), min_size=1)
subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(6)]), st.sets(st.sampled_from("abcd"), min_size=1), min_size=1
)


def made(name: str) -> Assignor:
    (assignor,) = load_assignors([name])
    return assignor


def topics_of(layout: dict[str, int]) -> dict[str, list[frozenset[str]]]:
    return {topic: [frozenset()] * count for topic, count in layout.items()}


def members_of(
    assignor: Assignor, wanted: dict[str, set[str]], owned: dict[str, list[TopicPartition]], generation: int = 1
) -> list[Member]:
    return [
        Member(
            name,
            sorted(topics),
            owned.get(name, []),
            generation if name in owned else -1,
            user_data=assignor.user_data(owned[name], generation) if name in owned else None,
        )
        for name, topics in wanted.items()
    ]


def counts(assignment: dict[str, list[TopicPartition]]) -> list[int]:
    return [len(each) for each in assignment.values()]


@pytest.mark.parametrize("name", NAMES)
@given(layouts, subscriptions)
def test_each_partition_goes_to_one_member_that_wants_it(
    name: str, layout: dict[str, int], wanted: dict[str, set[str]]
) -> None:
    assignor = made(name)
    asked_for = {topic: count for topic, count in layout.items() if topic in set().union(*wanted.values())}
    found = assignor.assign(topics_of(asked_for), members_of(assignor, wanted, {}))
    assert set(found) == set(wanted)
    assert all(partition.topic in wanted[member] for member, each in found.items() for partition in each)
    given_out = Counter(partition for each in found.values() for partition in each)
    expected = [TopicPartition(topic, number) for topic, count in asked_for.items() for number in range(count)]
    assert given_out == dict.fromkeys(expected, 1)


@pytest.mark.parametrize("name", ["roundrobin", *STICKY])
@given(layouts, st.integers(1, 6))
def test_members_that_want_the_same_get_the_same_number(name: str, layout: dict[str, int], count: int) -> None:
    assignor = made(name)
    wanted = {f"m{number}": set(layout) for number in range(count)}
    shares = counts(assignor.assign(topics_of(layout), members_of(assignor, wanted, {})))
    assert max(shares) - min(shares) <= 1


@given(layouts, st.integers(1, 6))
def test_range_gives_neighbours_of_each_topic(layout: dict[str, int], count: int) -> None:
    assignor = made("range")
    found = assignor.assign(
        topics_of(layout), members_of(assignor, {f"m{number}": set(layout) for number in range(count)}, {})
    )
    for topic, partitions in layout.items():
        shares = [[each.partition for each in found[name] if each.topic == topic] for name in sorted(found)]
        assert [number for share in shares for number in share] == list(range(partitions))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("name", STICKY)
@given(layouts, subscriptions)
def test_what_is_even_stays_as_it_is(name: str, layout: dict[str, int], wanted: dict[str, set[str]]) -> None:
    assignor = made(name)
    topics = topics_of({topic: count for topic, count in layout.items() if topic in set().union(*wanted.values())})
    first = assignor.assign(topics, members_of(assignor, wanted, {}))
    again = assignor.assign(topics, members_of(assignor, wanted, first))
    assert {name: set(each) for name, each in again.items()} == {name: set(each) for name, each in first.items()}


@pytest.mark.parametrize("name", STICKY)
@given(layouts, st.integers(2, 6))
def test_when_a_member_goes_the_others_keep_what_they_have(name: str, layout: dict[str, int], count: int) -> None:
    assignor = made(name)
    wanted = {f"m{number}": set(layout) for number in range(count)}
    first = assignor.assign(topics_of(layout), members_of(assignor, wanted, {}))
    del wanted["m0"]
    then = assignor.assign(topics_of(layout), members_of(assignor, wanted, {m: first[m] for m in wanted}))
    assert all(set(first[member]) <= set(then[member]) for member in wanted)


@given(layouts, st.integers(1, 5))
def test_a_cooperative_group_gives_nothing_away_that_another_still_has(layout: dict[str, int], count: int) -> None:
    assignor = made("cooperative-sticky")
    wanted = {f"m{number}": set(layout) for number in range(count)}
    first = assignor.assign(topics_of(layout), members_of(assignor, wanted, {}))
    wanted["new"] = set(layout)
    then = assignor.assign(topics_of(layout), members_of(assignor, wanted, first))
    had = {partition: member for member, each in first.items() for partition in each}
    assert all(had.get(partition, member) == member for member, each in then.items() for partition in each)
    # What was given up is free in the next round: then the shares are even.
    last = assignor.assign(topics_of(layout), members_of(assignor, wanted, then, 2))
    assert sum(counts(last)) == sum(layout.values())
    assert max(counts(last)) - min(counts(last)) <= 1


@pytest.mark.parametrize("name", STICKY)
def test_a_claim_of_an_older_generation_does_not_count(name: str) -> None:
    assignor = made(name)
    place = TopicPartition("a", 0)
    members = [
        Member("old", ["a"], [place], 4, user_data=assignor.user_data([place], 4)),
        Member("young", ["a"], [place], 5, user_data=assignor.user_data([place], 5)),
    ]
    for each in (members, members[::-1]):
        assert assignor.assign(topics_of({"a": 1}), each) == {"old": [], "young": [place]}


def test_assignors_come_by_name_class_or_object_and_others_are_refused() -> None:
    class Own:
        name = "own"
        is_cooperative = False

        def user_data(self, owned: object, generation: int) -> None:
            return None

        def assign(self, topics: object, members: list[Member]) -> dict[str, list[TopicPartition]]:
            return {member.id: [] for member in members}

    java = "org.apache.kafka.clients.consumer.StickyAssignor"
    assert [each.name for each in load_assignors(["range", java, Own])] == ["range", "sticky", "own"]
    own: Any = Own()
    assert load_assignors([own])[0] is own
    for wrong, told in (
        ([], "must name an assignor"),
        (["range", "range"], "twice"),
        (["rang"], 'not "rang"'),
        ([object()], "is no assignor, since it has no name"),
    ):
        with pytest.raises(ConfigError, match=told):
            load_assignors(wrong)
