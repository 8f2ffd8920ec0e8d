"""Placement: spread over racks and brokers, dead brokers last, the same for the same random source."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.placement import PlacementError, UsableBroker, place_replicas

RACKS = {
    rack: [UsableBroker(10 * number + i, rack, fenced=False) for i in range(3)] for number, rack in enumerate("abc")
}
NINE = [broker for brokers in RACKS.values() for broker in brokers]


def brokers(*ids: int, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [UsableBroker(each, None, fenced=each in fenced) for each in ids]


def place(
    usable: list[UsableBroker], partitions: int, replication_factor: int, *, seed: int = 0
) -> list[tuple[int, ...]]:
    return place_replicas(usable, partitions=partitions, replication_factor=replication_factor, random=Random(seed))


def test_three_racks_hold_one_replica_of_every_partition_each() -> None:
    for replicas in place(NINE, 30, 3):
        assert {each // 10 for each in replicas} == {0, 1, 2}


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = place(NINE, 90, 3)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert set(Counter(each for replicas in placed for each in replicas).values()) == {30}


def test_consecutive_partitions_are_striped() -> None:
    first, second, third = place(brokers(1, 2, 3), 3, 3)
    assert sorted({first[0], second[0], third[0]}) == [1, 2, 3]
    assert len({first, second, third}) == 3


def test_the_next_leaders_of_a_lost_broker_are_spread_over_the_others() -> None:
    placed = place(brokers(1, 2, 3, 4), 400, 3)
    successors = Counter(replicas[1] for replicas in placed if replicas[0] == 1)
    assert set(successors) == {2, 3, 4}
    assert min(successors.values()) > 10


def test_a_fenced_broker_is_used_only_when_nobody_else_is_left() -> None:
    usable = brokers(1, 2, 3, 4, fenced=(4,))
    assert all(4 not in replicas for replicas in place(usable, 20, 3))
    for replicas in place(usable, 20, 4):
        assert 4 in replicas
        assert replicas[0] != 4


def test_a_fenced_broker_never_leads_even_when_its_rack_has_only_fenced_ones() -> None:
    usable = [UsableBroker(1, "a", fenced=True), UsableBroker(2, "b", fenced=False)]
    assert place(usable, 4, 2) == [(2, 1)] * 4


def test_one_broker_holds_everything() -> None:
    assert place(brokers(7), 5, 1) == [(7,)] * 5


@pytest.mark.parametrize(
    ("usable", "replication_factor", "complaint"),
    [
        (brokers(1, 2), 3, "3 replicas need as many brokers, and only 2"),
        (brokers(1, 2), 0, "leaves no replica"),
        (brokers(1, 2, fenced=(1, 2)), 1, "no broker is alive"),
        ([], 1, "no broker is alive"),
    ],
)
def test_what_cannot_be_placed_is_refused(usable: list[UsableBroker], replication_factor: int, complaint: str) -> None:
    with pytest.raises(PlacementError, match=complaint):
        place(usable, 1, replication_factor)


clusters = st.dictionaries(
    st.integers(0, 30), st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1
)


@settings(max_examples=200, deadline=None)
@given(cluster=clusters, partitions=st.integers(1, 40), replication_factor=st.integers(1, 6), seed=st.integers(0, 99))
def test_any_placement_keeps_its_promises(
    cluster: dict[int, tuple[str | None, bool]], partitions: int, replication_factor: int, seed: int
) -> None:
    usable = [UsableBroker(each, rack, fenced) for each, (rack, fenced) in cluster.items()]
    try:
        placed = place(usable, partitions, replication_factor, seed=seed)
    except PlacementError:
        assert replication_factor > len(cluster) or all(broker.fenced for broker in usable)
        return
    assert placed == place(usable[::-1], partitions, replication_factor, seed=seed)
    racks = {broker.rack for broker in usable}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == replication_factor
        assert not cluster[replicas[0]][1]
        assert len({cluster[each][0] for each in replicas}) == min(len(racks), replication_factor)
