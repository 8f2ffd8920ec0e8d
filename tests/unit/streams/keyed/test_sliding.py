from typing import Any

import pytest
from hypothesis import given, settings

from headrace.streams.keyed.sliding import FoldSliding
from tests.unit.streams.keyed.fold_stories import COUNT, In, Story, listing, results, some_batches

T = 1000  # windows begin before their rows, and Kafka has none before the epoch


def counted(emit: Any = "changes") -> Story:
    return Story(FoldSliding(results(COUNT, windowed=True), 10, emit))


def told(rows: list[dict[str, Any]]) -> dict[int, Any]:
    """What was told of each window, by its start."""
    assert all(row["window_end"] == row["window_start"] + 10 for row in rows)
    return {row["window_start"] - T: row.get("n", row.get("all")) for row in rows}


def test_a_row_alone_has_the_window_that_ends_with_it() -> None:
    assert told(counted().step(In("a", T + 5))) == {-5: 1}


def test_a_second_row_makes_the_right_window_of_the_first_and_its_own_left_one() -> None:
    story = counted()
    story.step(In("a", T + 5))
    assert told(story.step(In("a", T + 8))) == {-2: 2, 6: 1}


def test_rows_further_apart_than_the_difference_share_nothing() -> None:
    story = counted()
    story.step(In("a", T + 5))
    assert told(story.step(In("a", T + 17))) == {7: 1}


def test_rows_exactly_the_difference_apart_are_together() -> None:
    story = counted()
    story.step(In("a", T + 5))
    assert told(story.step(In("a", T + 15))) == {5: 2, 6: 1}


def test_a_row_out_of_order_makes_its_right_window_of_what_is_later() -> None:
    story = counted()
    story.step(In("a", T + 5), In("a", T + 12))
    assert told(story.step(In("a", T + 8))) == {-2: 2, 2: 3, 6: 2, 9: 1}


def test_rows_of_one_moment_are_in_the_same_windows() -> None:
    story = counted()
    story.step(In("a", T + 5), In("a", T + 5))
    assert told(story.step(In("a", T + 5))) == {-5: 3}


def test_windows_that_are_over_take_no_rows_but_later_ones_are_made_of_them() -> None:
    story = counted()
    story.step(In("a", T + 5))
    assert told(story.step(In("a", T + 3), In("a", T + 9), watermark=T + 6)) == {-1: 2, 6: 1, 4: 2}
    assert story.step(In("a", T), watermark=T + 11) == [], "its right window is over"
    story.step(watermark=T + 19)
    assert len(story.state) > 0
    story.step(watermark=T + 40)
    assert len(story.state) == 0


def test_final_windows_are_given_once_when_they_are_over() -> None:
    story = counted("final")
    assert story.step(In("a", T + 5), In("a", T + 8)) == []
    assert story.operator.wakes_at(story.state) == T + 5
    assert told(story.step(watermark=T + 8)) == {-5: 1, -2: 2}
    assert story.step(In("a", T + 9), watermark=T + 8) == []
    assert told(story.step(watermark=T + 100)) == {6: 2, -1: 3, 9: 1}
    assert len(story.state) == 0


def test_a_new_window_does_not_share_its_value_with_the_one_that_it_was_made_of() -> None:
    story = Story(FoldSliding(results(listing(), windowed=True), 10))
    story.step(In("a", T + 5, 1))
    assert told(story.step(In("a", T + 8, 2))) == {-2: [1, 2], 6: [2]}
    assert told(story.step(In("a", T + 9, 3))) == {-1: [1, 2, 3], 6: [2, 3], 9: [3]}


@settings(max_examples=80, deadline=None)
@given(some_batches(T, T + 40))
@pytest.mark.parametrize("emit", ["changes", "final"])
def test_there_is_a_window_for_each_set_of_rows_that_are_near_one_another(emit: str, batches: list[list[In]]) -> None:
    story, table = counted(emit), {}
    every = [story.step(*rows) for rows in batches]
    if emit == "final":
        every.append(story.step(watermark=T + 1000))
    for row in (row for rows in every for row in rows):
        table[row["k"], row["window_start"]] = row["n"]
    expected = {}
    for key in "ab":
        times = [row.ms for rows in batches for row in rows if row.key == key]
        for time in times:
            for start in (time - 10, time + 1):
                inside = sum(start <= each <= start + 10 for each in times)
                if inside:
                    expected[key, start] = inside
    assert table == expected
