"""Positions, ranges, admission control and tasks: all of it computes, so it is tested on any numbers at all."""

import json
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.client.topic_partition import TopicPartition
from headrace.spark.source_admission import Waiting, is_too_little, rate_limit, waits
from headrace.spark.source_offsets import Limits, OffsetRange, Offsets, Position, beginners, from_json, ranges, to_json
from headrace.spark.source_split import split

OLD, NEW = bytes([1] * 16), bytes([2] * 16)  # ids of topics
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

topic_partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d-e"]), st.integers(0, 12))
offsets = st.integers(0, 1 << 62)
positions = st.dictionaries(topic_partitions, offsets, max_size=12)
ids = st.dictionaries(st.sampled_from(["a", "b", "c.d-e"]), st.binary(min_size=16, max_size=16).filter(any))


def at(position: Offsets, topic_id: bytes = OLD) -> Position:
    """With an id for topic a."""
    return Position(position, {"a": topic_id})


class TestJson:
    @given(positions, ids)
    def test_comes_back_as_it_was(self, position: Offsets, topic_ids: dict[str, bytes]) -> None:
        known = {topic: topic_ids[topic] for topic in {each.topic for each in position} & topic_ids.keys()}
        assert from_json(json.loads(json.dumps(to_json(position, topic_ids)))) == Position(position, known)

    def test_is_that_of_sparks_source(self) -> None:
        assert json.dumps(to_json({A1: 345, B0: 2, A0: 23})) == '{"a": {"0": 23, "1": 345}, "b": {"0": 2}}'

    def test_has_ids_where_sparks_source_finds_no_offsets(self) -> None:
        found = to_json({A1: 345, B0: 2}, {"a": OLD, "b": bytes(16), "c": NEW})  # b is at a broker that knows no ids
        assert found == {"a": {"1": 345}, "b": {"0": 2}, "a@AQEBAQEBAQEBAQEBAQEBAQ": {}}

    def test_partitions_are_in_the_order_of_numbers(self) -> None:
        position = {TopicPartition("a", number): number for number in range(12)}
        assert list(to_json(position)["a"]) == [str(number) for number in range(12)]

    @pytest.mark.parametrize(
        "found", [None, 3, {"a": 5}, {"a": {"x": 5}}, {"a": {"0": "5"}}, {"a": {"0": True}}, {"a@b": {}}]
    )
    def test_of_another_source_is_an_error_that_says_so(self, found: object) -> None:
        with pytest.raises(ValueError, match="that of another source"):
            from_json(found)


class TestRanges:
    def test_lie_between_two_positions(self) -> None:
        assert ranges(at({A0: 5, A1: 7}), at({A0: 9, A1: 7}), {}) == [OffsetRange(A0, 5, 9)]

    def test_a_new_partition_begins_where_it_begins(self) -> None:
        start, end = at({A0: 5}), at({A0: 9, A1: 4})
        assert beginners(start, end) == [A1]
        assert ranges(start, end, {A1: 1}) == [OffsetRange(A0, 5, 9), OffsetRange(A1, 1, 4)]

    @pytest.mark.parametrize("last", [30, 100, 500])
    def test_another_id_is_a_topic_made_anew(self, last: int) -> None:
        start, end = at({A0: 100}, OLD), at({A0: last}, NEW)
        assert beginners(start, end) == [A0]
        assert ranges(start, end, {A0: 2}) == [OffsetRange(A0, 2, last)]

    @pytest.mark.parametrize(("before", "after"), [({}, {}), ({}, {"a": NEW}), ({"a": OLD}, {})])
    def test_without_ids_it_is_an_end_below_the_start(self, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        start, end = Position({A0: 100, A1: 100}, before), Position({A0: 30, A1: 130}, after)
        assert beginners(start, end) == [A0]
        assert ranges(start, end, {A0: 2}) == [OffsetRange(A0, 2, 30), OffsetRange(A1, 100, 130)]

    def test_an_end_below_the_start_in_the_same_topic_is_a_log_that_was_cut(self) -> None:
        assert beginners(at({A0: 100}), at({A0: 30})) == []
        assert ranges(at({A0: 100}), at({A0: 30}), {}) == []

    def test_a_partition_that_is_gone_has_none(self) -> None:
        assert ranges(at({A0: 5, B0: 5}), at({A0: 6}), {}) == [OffsetRange(A0, 5, 6)]


def limits_of(position: Offsets, more: list[int]) -> dict[TopicPartition, Limits]:
    return {each: Limits(0, offset + extra) for (each, offset), extra in zip(position.items(), more, strict=False)}


def waiting_after(position: Offsets, limits: dict[TopicPartition, Limits], topic_id: bytes = OLD) -> list[OffsetRange]:
    """For a query that has read of the topic with the old id; `topic_id` is that of now."""
    return waits(at(position), limits, {"a": topic_id})


class TestAdmission:
    def test_without_a_limit_all_there_is(self) -> None:
        waiting = waiting_after({A0: 5, A1: 0}, {A0: Limits(0, 50), A1: Limits(0, 10)})
        assert rate_limit(waiting, None) == {A0: 50, A1: 10}

    def test_a_limit_is_shared_in_proportion(self) -> None:
        waiting = waiting_after({A0: 100, A1: 0}, {A0: Limits(0, 400), A1: Limits(0, 100)})
        assert rate_limit(waiting, 40) == {A0: 130, A1: 10}

    def test_a_small_partition_is_not_left_out(self) -> None:
        waiting = waiting_after({A0: 0, A1: 0}, {A0: Limits(0, 1_000_000), A1: Limits(0, 1)})
        assert rate_limit(waiting, 10) == {A0: 9, A1: 1}

    def test_a_new_partition_begins_at_its_beginning(self) -> None:
        waiting = waiting_after({A0: 10}, {A0: Limits(0, 10), A1: Limits(5, 105)})
        assert rate_limit(waiting, 50) == {A0: 10, A1: 55}

    def test_what_is_gone_does_not_count(self) -> None:
        waiting = waiting_after({A0: 0}, {A0: Limits(900, 1_000)})
        assert waiting == [OffsetRange(A0, 900, 1_000)]
        assert rate_limit(waiting, 10) == {A0: 910}

    def test_a_topic_made_anew_is_read_from_its_beginning(self) -> None:
        limits = {A0: Limits(0, 5_000), A1: Limits(3, 7)}
        waiting = waiting_after({A0: 100, A1: 0}, limits, NEW)
        assert waiting == [OffsetRange(A0, 0, 5_000), OffsetRange(A1, 3, 7)]
        assert rate_limit(waiting, 500) == {A0: 499, A1: 4}

    def test_a_log_that_was_cut_is_not_read_again(self) -> None:
        assert waiting_after({A0: 100}, {A0: Limits(0, 30)}) == [OffsetRange(A0, 30, 30)]

    def test_without_ids_a_log_that_ends_before_the_position_is_read_anew(self) -> None:
        assert waits(Position({A0: 100}, {}), {A0: Limits(0, 30)}, {"a": NEW}) == [OffsetRange(A0, 0, 30)]

    @given(positions, st.lists(st.integers(0, 1 << 40), min_size=12, max_size=12), st.integers(1, 1 << 40))
    def test_is_that_of_sparks_source(self, position: Offsets, more: list[int], limit: int) -> None:
        limits = limits_of(position, more)
        assert rate_limit(waiting_after(position, limits), limit) == as_spark_would(position, limits, limit)

    @given(positions, st.lists(st.integers(0, 1 << 30), min_size=12, max_size=12), st.integers(1, 1 << 30))
    def test_goes_on_until_all_is_read_and_never_beyond(self, position: Offsets, more: list[int], limit: int) -> None:
        limits = limits_of(position, more)
        waiting = waiting_after(position, limits)
        end = rate_limit(waiting, limit)
        total = sum(each.size for each in waiting)
        read = sum(end[each.partition] - each.start for each in waiting)
        assert all(each.start <= end[each.partition] <= each.end for each in waiting)
        assert read <= min(total, limit + len(waiting))
        assert (read > 0) == (total > 0)

    def test_too_little_waits_until_the_delay_is_over(self) -> None:
        waiting = [OffsetRange(A0, 0, 60), OffsetRange(A1, 5, 44)]
        rule = Waiting(min_offsets=100, max_delay_ms=1_000)
        assert is_too_little(waiting, rule, since_last_ms=999)
        assert not is_too_little(waiting, rule, since_last_ms=1_000)
        assert not is_too_little([*waiting, OffsetRange(B0, 7, 8)], rule, since_last_ms=0)


def as_spark_would(position: Offsets, limits: dict[TopicPartition, Limits], limit: int) -> Offsets:
    """The rule in the words of its documentation, in exact steps: a share of the limit by size, rounded down, one at
    least, the end at most.
    """
    sizes = {each: latest - position[each] for each, (_, latest) in limits.items() if latest > position[each]}
    total = float(sum(sizes.values()))
    end = {each: latest for each, (_, latest) in limits.items()}
    for each, size in sizes.items():
        share = limit * (size / total)
        whole = math.ceil(share) if share < 1 else math.floor(share)
        end[each] = min(end[each], position[each] + whole)
    return end


some_ranges = st.lists(
    st.builds(
        lambda part, start, size: OffsetRange(part, start, start + size),
        topic_partitions,
        offsets,
        st.integers(0, 5_000),
    ),
    max_size=8,
    unique_by=lambda each: each.partition,
)


class TestTasks:
    def test_one_for_each_range_with_something_in_it(self) -> None:
        whole = [OffsetRange(A0, 0, 100), OffsetRange(A1, 5, 5), OffsetRange(B0, 3, 4)]
        assert split(whole) == [whole[0], whole[2]]

    def test_enough_partitions_are_left_as_they_are(self) -> None:
        whole = [OffsetRange(A0, 0, 100), OffsetRange(A1, 5, 6)]
        assert split(whole, min_partitions=2) == whole

    def test_one_partition_becomes_many_tasks(self) -> None:
        assert split([OffsetRange(A0, 10, 20)], min_partitions=3) == [
            OffsetRange(A0, 10, 13),
            OffsetRange(A0, 13, 16),
            OffsetRange(A0, 16, 20),
        ]

    # Worked out by the rule of Spark's own source.
    @pytest.mark.parametrize(
        ("sizes", "wanted", "pieces"),
        [
            ([200], 4, [4]),
            ([100, 100], 4, [2, 2]),
            ([1, 200], 6, [1, 5]),
            ([1, 20], 1, [1, 1]),
            ([1, 21, 1], 6, [1, 4, 1]),
            ([1, 15_000, 15_000], 10, [1, 5, 5]),
        ],
    )
    def test_pieces_are_in_proportion(self, sizes: list[int], wanted: int, pieces: list[int]) -> None:
        whole = [OffsetRange(TopicPartition("a", number), 0, size) for number, size in enumerate(sizes)]
        found = split(whole, min_partitions=wanted)
        assert [sum(piece.partition == each.partition for piece in found) for each in whole] == pieces

    def test_no_task_has_more_than_the_most(self) -> None:
        found = split([OffsetRange(A0, 0, 1_001), OffsetRange(A1, 0, 10)], max_records=500)
        assert [each.size for each in found] == [333, 334, 334, 10]

    @given(some_ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 600))
    def test_together_are_the_ranges(self, whole: list[OffsetRange], wanted: int | None, most: int | None) -> None:
        found = split(whole, min_partitions=wanted, max_records=most)
        assert all(each.size > 0 for each in found)
        assert most is None or all(each.size <= most for each in found)
        for each in whole:
            pieces = [piece for piece in found if piece.partition == each.partition]
            edges = [each.start, *(piece.end for piece in pieces)]
            assert [piece.start for piece in pieces] == edges[:-1]
            assert edges[-1] == each.end or not each.size

    @given(some_ranges, st.integers(1, 40))
    def test_are_about_as_many_as_wanted(self, whole: list[OffsetRange], wanted: int) -> None:
        assume(sum(each.size for each in whole) >= 40 * wanted)
        found = split(whole, min_partitions=wanted)
        assert len(found) >= wanted - len(whole)
