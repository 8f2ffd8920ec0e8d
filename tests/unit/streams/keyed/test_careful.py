"""Rows for which a function fails, and rows that are late: dead letters, and a state as if they had never come."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.functions import Function
from headrace.streams.keyed.fold import Fold, Windows
from headrace.streams.keyed.folding import FoldingRows
from headrace.streams.keyed.operator import KeyedOperator
from headrace.streams.keyed.sessions import FoldSessions
from headrace.streams.keyed.sliding import FoldSliding
from tests.unit.streams.keyed.fold_stories import COUNT, In, Story, listing, reducing, results, some_batches

UNLUCKY = 7
Values = dict[str, list[Any]]


def append(so_far: Values, row: dict[str, Any]) -> Values:
    """As careless as a function can be: it has changed all that it was given when it raises."""
    so_far["all"].append(row["v"])
    if row.pop("v") == UNLUCKY:
        raise ValueError("unlucky")
    return so_far


def merge(one: Values, other: Values) -> Values:
    one["all"].extend(other["all"])
    other["all"].clear()
    return one


def careless() -> FoldingRows:
    plain = listing()
    merging = Function("tests.merge", merge)
    return FoldingRows("fold-1", plain.initial, (Function("tests.append", append),), merging, plain.results)


def operators() -> dict[str, KeyedOperator]:
    plain = results(careless(), windowed=False, letters=True)
    windowed = results(careless(), windowed=True, letters=True)
    return {
        "no window": Fold(plain),
        "tumbling": Fold(windowed, Windows(30, 30)),
        "hopping": Fold(windowed, Windows(30, 10)),
        "session": FoldSessions(windowed, 10),
        "sliding": FoldSliding(windowed, 20),
    }


@pytest.mark.parametrize("name", operators())
@settings(max_examples=20, deadline=None)
@given(batches=some_batches(0, 100))
def test_rows_that_fail_are_dead_letters_and_all_else_is_as_without_them(name: str, batches: list[list[In]]) -> None:
    """Also if functions change what they are given before they raise."""
    story, other = Story(operators()[name]), Story(operators()[name])
    for rows in batches:
        good = [row for row in rows if row.value != UNLUCKY]
        made, expected = (sorted(each, key=repr) for each in (story.step(*rows), other.step(*good)))
        assert made == expected
        assert story.dead == [(UNLUCKY, "ValueError: unlucky", "tests.append")] * (len(rows) - len(good))
    assert sorted(story.state.live().to_pylist(), key=repr) == sorted(other.state.live().to_pylist(), key=repr)


def test_a_row_counts_in_all_of_its_windows_or_in_none() -> None:
    def limited(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        if one["v"] + other["v"] > 10:
            raise OverflowError("too much")
        return {"v": one["v"] + other["v"]}

    story = Story(Fold(results(reducing(limited), windowed=True, letters=True), Windows(60, 30)))
    story.step(In("a", 10, 8), In("a", 40, 1))
    assert story.step(In("a", 50, 5)) == [], "in [0, 60) it would be too much, so that it is not in [30, 90) either"
    assert [letter for letter, _, _ in story.dead] == [5]
    assert {row["window_start"]: row["v"] for row in story.step(In("a", 45, 1))} == {0: 10, 30: 2}


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"v": "text"}, "what it gave does not fit the schema: "),
        ({"v": 5.5}, "what it gave does not fit the schema: ValueError: 5.5 is not a whole number"),
        (7, "it must give a dict of columns, or None, and gave 7"),
    ],
)
def test_what_does_not_fit_is_the_fault_of_its_row(made: Any, why: str) -> None:
    def call(one: dict[str, int], other: dict[str, int]) -> Any:
        return made if other["v"] == UNLUCKY else {"v": one["v"] + other["v"]}

    both: tuple[KeyedOperator, ...] = (
        Fold(results(reducing(call), windowed=False, letters=True)),
        FoldSessions(results(reducing(call), windowed=True, letters=True), 10),
    )
    for operator in both:
        story = Story(operator)
        (row,) = story.step(In("a", 1, 1), In("a", 2, UNLUCKY), In("a", 3, 2))
        assert row["v"] == 3
        ((letter, error, _),) = story.dead
        assert letter == UNLUCKY
        assert error.startswith(why)


def test_a_merge_of_sessions_that_raises_is_the_fault_of_the_row_between_them() -> None:
    def never(one: Values, other: Values) -> Values:
        raise RuntimeError("never")

    story = Story(FoldSessions(results(listing(merge=never), windowed=True, letters=True), 10))
    story.step(In("a", 0, 1), In("a", 15, 2))
    assert story.step(In("a", 8, 3)) == []
    assert story.dead == [(3, "RuntimeError: never", "tests.merge")]
    assert story.step(In("a", 26, 4)) == [{"k": "a", "window_start": 26, "window_end": 36, "all": [4]}]


def test_a_group_that_nobody_has_heard_of_is_not_told_if_its_first_row_fails() -> None:
    story = Story(Fold(results(careless(), windowed=False, letters=True)))
    assert story.step(In("a", 1, UNLUCKY)) == []
    assert len(story.state) == 0


@pytest.mark.parametrize("letters", [False, True])
@pytest.mark.parametrize(
    ("name", "deadline"), [("tumbling", "00.060"), ("hopping", "00.080"), ("session", "00.060"), ("sliding", "00.071")]
)
def test_late_rows_are_counted_and_if_asked_dead_letters(name: str, deadline: str, letters: bool) -> None:
    made = results(COUNT, windowed=True, letters=letters, late_letters=letters)
    made_of: dict[str, KeyedOperator] = {
        "tumbling": Fold(made, Windows(30, 30)),
        "hopping": Fold(made, Windows(30, 10)),
        "session": FoldSessions(made, 10),
        "sliding": FoldSliding(made, 20),
    }
    story = Story(made_of[name])
    story.step(In("a", 50, 1))
    story.step(In("a", 50, 2), In("a", 300, 3), watermark=90)
    assert story.late == 1
    story.step(In("a", 310, 4), watermark=90)
    assert story.late == 0
    story.step(In("a", 50, 5), watermark=90)
    why = f"it is late: it was taken until the watermark had come to 1970-01-01T00:00:{deadline}000Z, and that is at "
    assert story.dead == ([(5, f"{why}1970-01-01T00:00:00.090000Z", None)] if letters else [])


def test_a_watermark_of_any_year_can_be_told() -> None:
    story = Story(Fold(results(COUNT, windowed=True, letters=True, late_letters=True), Windows(30, 30)))
    story.step(In("a", 5, 1), watermark=1_767_225_600_000_000)
    ((_, why, _),) = story.dead
    assert why.endswith("T00:00:00.030000Z, and that is at 57971-02-25T00:00:00.000000Z"), why


def test_a_row_that_meets_an_open_session_is_not_late() -> None:
    story = Story(FoldSessions(results(COUNT, windowed=True, letters=True, late_letters=True), 10))
    story.step(In("a", 20))
    assert story.step(In("a", 12), watermark=25)[-1]["n"] == 2
    assert (story.late, story.dead) == (0, [])


@settings(max_examples=20, deadline=None)
@given(some_batches(0, 100), st.sampled_from(["hopping", "sliding"]))
def test_functions_may_keep_and_change_their_rows(batches: list[list[In]], name: str) -> None:
    """Each window has a row of its own: what a function does to it is not seen by the next."""

    def keep(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        other["v"] += one["v"]
        return other

    def pure(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        return {"v": one["v"] + other["v"]}

    def story(call: Any) -> Story:
        made = results(reducing(call), windowed=True)
        return Story(Fold(made, Windows(30, 10)) if name == "hopping" else FoldSliding(made, 20))

    careless_story, pure_story = story(keep), story(pure)
    for rows in batches:
        assert careless_story.step(*rows) == pure_story.step(*rows)
