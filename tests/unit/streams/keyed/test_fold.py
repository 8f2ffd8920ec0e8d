import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.functions import Function
from headrace.streams.keyed.fold import Fold, Windows
from headrace.streams.keyed.folding import FoldingRows, FunctionFailedError
from headrace.streams.keyed.operator import TIME, Clock
from headrace.streams.keyed.state_table import StateTable
from tests.unit.streams.keyed.fold_stories import COUNT, In, Story, batch_of, listing, reducing, results, some_batches

MINUTE = Windows(60, 60)


def test_a_group_starts_with_its_first_row_and_each_batch_gives_it_once() -> None:
    story = Story(Fold(results(reducing(lambda one, other: {"v": one["v"] + other["v"]}), windowed=False)))
    assert story.step(In("a", 1, 1), In("b", 1, 5), In("a", 2, 2)) == [{"k": "a", "v": 3}, {"k": "b", "v": 5}]
    assert story.step(In("a", 3, 10)) == [{"k": "a", "v": 13}]
    assert story.step() == []


def test_rows_are_added_in_the_order_of_their_offsets() -> None:
    story = Story(Fold(results(listing(), windowed=False)))
    assert story.step(In("a", 9, 1), In("a", 3, 2), In("a", 5, 3)) == [{"k": "a", "all": [1, 2, 3]}]


def test_each_input_has_its_function() -> None:
    story = Story(Fold(results(listing(), windowed=False)))
    assert story.step(In("a", 1, 1), In("a", 2, 7, side=1), In("a", 3, 2)) == [{"k": "a", "all": [1, -7, 2]}]


def test_a_result_is_as_old_as_the_latest_row_of_its_group() -> None:
    operator = Fold(results(COUNT, windowed=False))
    state = StateTable(operator.state_schema)
    operator.step(batch_of([In("a", 50)]), state, Clock(None))
    made = operator.step(batch_of([In("a", 20)]), state, Clock(None))
    assert made[TIME].cast(pa.int64()).to_pylist() == [50_000]


def test_a_function_that_gives_none_ends_the_group_and_the_next_row_starts_it_anew() -> None:
    def call(one: dict[str, int], other: dict[str, int]) -> dict[str, int] | None:
        return None if other["v"] == 0 else {"v": one["v"] + other["v"]}

    story = Story(Fold(results(reducing(call), windowed=False)))
    story.step(In("a", 1, 1))
    assert story.step(In("a", 2, 0)) == [{"k": "a", "gone": True}]
    assert len(story.state) == 0
    assert story.step(In("a", 3, 5), In("b", 3, 1), In("b", 3, 0)) == [{"k": "a", "v": 5}], "of b nobody has heard"


def test_a_function_that_raises_is_named_with_its_operator_and_the_row() -> None:
    story = Story(Fold(results(reducing(lambda one, other: 1 // 0), windowed=False)))
    with pytest.raises(FunctionFailedError, match=r"reduce-1: call\(\) raised for the row \{'v': 2\}: ZeroDivision"):
        story.step(In("a", 1, 1), In("a", 2, 2))


def test_what_a_function_gives_must_fit_the_schema() -> None:
    story = Story(Fold(results(reducing(lambda one, other: {"v": "text"}), windowed=False)))
    with pytest.raises(FunctionFailedError, match=r"\{'v': 'text'\} does not fit struct<v: int64>"):
        story.step(In("a", 1, 1), In("a", 2, 2))
    cut = Story(Fold(results(reducing(lambda one, other: {"v": 5.5}), windowed=False)))
    with pytest.raises(FunctionFailedError, match=r"\{'v': 5.5\} does not fit struct<v: int64>: 5.5 is not a whole"):
        cut.step(In("a", 1, 1), In("a", 2, 2))
    other = Story(Fold(results(reducing(lambda one, other: 7), windowed=False)))
    with pytest.raises(FunctionFailedError, match="must give a dict"):
        other.step(In("a", 1, 1), In("a", 2, 2))


def test_functions_may_change_what_they_are_given() -> None:
    def append(so_far: dict[str, list[int]], row: dict[str, int]) -> dict[str, list[int]]:
        so_far["all"].append(row["v"])
        return so_far

    plain = listing()
    folding = FoldingRows("fold-1", plain.initial, (Function("tests.append", append),), None, plain.results)
    story = Story(Fold(results(folding, windowed=True), Windows(60, 30)))
    story.step(In("a", 40, 1))
    assert story.step(In("a", 50, 2)) == [
        {"k": "a", "window_start": 0, "window_end": 60, "all": [1, 2]},
        {"k": "a", "window_start": 30, "window_end": 90, "all": [1, 2]},
    ]


def test_changes_of_windows_are_given_until_they_are_over_and_then_they_are_forgotten() -> None:
    story = Story(Fold(results(COUNT, windowed=True), MINUTE))
    first = {"k": "a", "window_start": 0, "window_end": 60}
    assert story.step(In("a", 10), In("a", 59)) == [{**first, "n": 2}]
    assert story.step(In("a", 20), watermark=59) == [{**first, "n": 3}]
    assert story.step(In("a", 20), watermark=60) == [], "it is late"
    assert len(story.state) == 0


def test_final_windows_are_given_once_when_the_watermark_comes_to_their_end() -> None:
    story = Story(Fold(results(COUNT, windowed=True), MINUTE, "final"))
    assert story.step(In("a", 10), In("a", 70)) == []
    assert story.operator.wakes_at(story.state) == 60
    assert story.step(In("a", 59), watermark=59) == []
    assert story.step(watermark=60) == [{"k": "a", "window_start": 0, "window_end": 60, "n": 2}]
    assert story.step(In("a", 30), watermark=60) == []
    assert story.step(watermark=500) == [{"k": "a", "window_start": 60, "window_end": 120, "n": 1}]


def test_a_row_that_is_late_for_some_hopping_windows_is_in_the_others() -> None:
    story = Story(Fold(results(COUNT, windowed=True), Windows(60, 20)))
    made = story.step(In("a", 50), watermark=60)
    assert [(row["window_start"], row["window_end"]) for row in made] == [(20, 80), (40, 100)]


@settings(max_examples=60, deadline=None)
@given(some_batches(0, 100), st.sampled_from([Windows(30, 30), Windows(30, 10), Windows(25, 10)]))
def test_windows_hold_what_falls_into_them(batches: list[list[In]], windows: Windows) -> None:
    story = Story(Fold(results(listing(), windowed=True), windows))
    found = {}
    for rows in batches:
        for row in story.step(*rows):
            found[row["k"], row["window_start"]] = row["all"]
            assert row["window_end"] == row["window_start"] + windows.size_ms
    expected: dict[tuple[str, int], list[int | None]] = {}
    for given_row in (row for rows in batches for row in rows):
        for start in range(-900, 900, windows.hop_ms):
            if start <= given_row.ms < start + windows.size_ms:
                expected.setdefault((given_row.key, start), []).append(given_row.value)
    assert found == expected
