"""Who gets which partitions. Apache Kafka's own assignors judge the results in tests/interop."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.assignors import ASSIGNORS, RANGE, UNIFORM
from headrace.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec

T, U, V = (name * 16 for name in (b"t", b"u", b"v"))


def group(
    members: Mapping[str, Sequence[bytes]],
    partitions: Mapping[bytes, int],
    assigned: Mapping[str, Assignment] | None = None,
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    specs = {
        member_id: MemberSpec((instances or {}).get(member_id), tuple(topics), (assigned or {}).get(member_id, {}))
        for member_id, topics in members.items()
    }
    is_homogeneous = len({frozenset(topics) for topics in members.values()}) == 1
    return GroupSpec(specs, is_homogeneous, partitions)


@pytest.mark.parametrize("name", [UNIFORM, RANGE])
def test_a_group_without_members_gets_nothing(name: str) -> None:
    assert ASSIGNORS[name](GroupSpec({}, True, {T: 3})) == {}


def test_range_gives_neighbours_and_the_same_ones_of_every_topic() -> None:
    assert ASSIGNORS[RANGE](group({"b": [T, U], "a": [T, U]}, {T: 3, U: 3})) == {
        "a": {T: (0, 1), U: (0, 1)},
        "b": {T: (2,), U: (2,)},
    }


def test_range_takes_static_members_first_in_the_order_of_their_instances() -> None:
    members = {"a": [T], "b": [T], "c": [T]}
    assert ASSIGNORS[RANGE](group(members, {T: 3}, instances={"c": "1", "b": "2"})) == {
        "c": {T: (0,)},
        "b": {T: (1,)},
        "a": {T: (2,)},
    }


def test_range_leaves_the_last_members_without_partitions_if_there_are_too_few() -> None:
    assert ASSIGNORS[RANGE](group({"a": [T], "b": [T], "c": [T]}, {T: 2})) == {"a": {T: (0,)}, "b": {T: (1,)}, "c": {}}


def test_range_cuts_a_topic_among_its_subscribers_only() -> None:
    assert ASSIGNORS[RANGE](group({"a": [T], "b": [T, U], "c": [U]}, {T: 2, U: 4})) == {
        "a": {T: (0,)},
        "b": {T: (1,), U: (0, 1)},
        "c": {U: (2, 3)},
    }


def test_uniform_lets_members_keep_what_they_have() -> None:
    assigned = {"a": {T: (0, 1, 2, 3)}}
    assert ASSIGNORS[UNIFORM](group({"a": [T], "b": [T]}, {T: 4}, assigned)) == {"a": {T: (0, 1)}, "b": {T: (2, 3)}}


def test_uniform_gives_one_more_to_those_who_have_one_more() -> None:
    assigned: Mapping[str, Assignment] = {"a": {T: (0,)}, "b": {T: (1, 2)}}
    assert ASSIGNORS[UNIFORM](group({"a": [T], "b": [T]}, {T: 3}, assigned)) == assigned


def test_uniform_takes_topics_away_that_nobody_wants_any_more() -> None:
    assigned = {"a": {T: (0,), U: (0,)}}
    assert ASSIGNORS[UNIFORM](group({"a": [T]}, {T: 1, U: 1}, assigned)) == {"a": {T: (0,)}}


def test_uniform_levels_members_that_want_different_topics() -> None:
    assigned = ASSIGNORS[UNIFORM](group({"a": [T, U], "b": [T]}, {T: 4, U: 2}, {"a": {T: (0, 1, 2, 3)}}))
    assert assigned == {"a": {T: (0,), U: (0, 1)}, "b": {T: (1, 2, 3)}}


def test_uniform_gives_a_topic_to_the_only_one_who_wants_it() -> None:
    assigned = ASSIGNORS[UNIFORM](group({"a": [T, U], "b": [T]}, {T: 2, U: 10}))
    assert assigned == {"a": {U: tuple(range(10))}, "b": {T: (0, 1)}}


def sizes_of(assigned: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: sum(map(len, assignment.values())) for member_id, assignment in assigned.items()}


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    ids = draw(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=4, unique=True))
    partitions = {topic_id: draw(st.integers(1, 12)) for topic_id in ids}
    wishes = st.lists(st.sampled_from(ids), unique=True)
    if draw(st.booleans()):
        same = draw(wishes)
        wishes = st.just(same)
    members = {f"m{number}": draw(wishes) for number in range(draw(st.integers(1, 7)))}
    owners = draw(st.permutations(list(members)))
    assigned: dict[str, dict[bytes, tuple[int, ...]]] = {member_id: {} for member_id in members}
    for topic_id in ids:
        for partition in range(partitions[topic_id]):
            owner = draw(st.sampled_from([None, *owners]))
            if owner is not None:
                assigned[owner][topic_id] = (*assigned[owner].get(topic_id, ()), partition)
    return group(members, partitions, assigned)


@pytest.mark.parametrize("name", [UNIFORM, RANGE])
@given(spec=groups())
def test_every_partition_that_somebody_wants_has_one_owner_who_wants_it(name: str, spec: GroupSpec) -> None:
    assigned = ASSIGNORS[name](spec)
    owners = Counter(
        (topic_id, partition)
        for assignment in assigned.values()
        for topic_id, partitions in assignment.items()
        for partition in partitions
    )
    wanted = {topic_id for member in spec.members.values() for topic_id in member.topic_ids}
    assert owners == Counter(
        (topic_id, partition) for topic_id in wanted for partition in range(spec.partition_counts[topic_id])
    )
    for member_id, assignment in assigned.items():
        assert set(assignment) <= set(spec.members[member_id].topic_ids)
        assert all(partitions == tuple(sorted(partitions)) and partitions for partitions in assignment.values())


@given(spec=groups())
def test_what_is_uniform_stays_as_it_is(spec: GroupSpec) -> None:
    first = ASSIGNORS[UNIFORM](spec)
    members = {
        member_id: member._replace(assigned=first.get(member_id, {})) for member_id, member in spec.members.items()
    }
    assert ASSIGNORS[UNIFORM](spec._replace(members=members)) == first


@given(spec=groups())
def test_members_that_want_the_same_differ_by_one_partition_at_most(spec: GroupSpec) -> None:
    if spec.is_homogeneous:
        sizes = sizes_of(ASSIGNORS[UNIFORM](spec)).values()
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(spec=groups())
def test_no_single_move_makes_a_mixed_group_more_even(spec: GroupSpec) -> None:
    assigned = ASSIGNORS[UNIFORM](spec)
    sizes = sizes_of(assigned)
    for giver, assignment in assigned.items():
        for topic_id in assignment:
            for taker, member in spec.members.items():
                if topic_id in member.topic_ids:
                    assert sizes[giver] - sizes[taker] <= 1
