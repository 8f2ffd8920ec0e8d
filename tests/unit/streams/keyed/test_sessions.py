from typing import Any

from hypothesis import given, settings

from headrace.streams.keyed.sessions import FoldSessions
from tests.unit.streams.keyed.fold_stories import COUNT, In, Story, listing, results, some_batches


def counted(gap_ms: int = 10, emit: Any = "changes") -> Story:
    return Story(FoldSessions(results(COUNT, windowed=True), gap_ms, emit))


def window(start: int, end: int, **more: object) -> dict[str, object]:
    return {"k": "a", "window_start": start, "window_end": end, **more}


def test_a_session_that_grows_is_a_new_row_and_the_old_one_is_deleted() -> None:
    story = counted()
    assert story.step(In("a", 5)) == [window(5, 15, n=1)]
    assert story.step(In("a", 9)) == [window(5, 15, gone=True), window(5, 19, n=2)]
    assert story.step(In("a", 7)) == [window(5, 19, n=3)], "it has not grown"


def test_a_row_between_two_sessions_makes_one_of_them() -> None:
    story = counted()
    assert story.step(In("a", 0), In("a", 15)) == [window(0, 10, n=1), window(15, 25, n=1)]
    assert story.step(In("a", 8)) == [window(0, 10, gone=True), window(15, 25, gone=True), window(0, 25, n=3)]


def test_what_came_and_went_within_a_batch_is_not_told() -> None:
    story = counted()
    assert story.step(In("a", 0), In("a", 15), In("a", 8)) == [window(0, 25, n=3)]


def test_rows_that_are_the_gap_apart_are_one_session_and_a_millisecond_more_makes_two() -> None:
    assert counted().step(In("a", 0), In("a", 10)) == [window(0, 20, n=2)]
    assert counted().step(In("a", 0), In("a", 11)) == [window(0, 10, n=1), window(11, 21, n=1)]


def test_earlier_values_come_first_when_sessions_are_merged() -> None:
    folding = listing(merge=lambda one, other: {"all": one["all"] + other["all"]})
    story = Story(FoldSessions(results(folding, windowed=True), 10))
    story.step(In("a", 15, 1), In("a", 0, 2))
    assert story.step(In("a", 8, 3))[-1] == window(0, 25, all=[2, 1, 3])


def test_a_row_is_late_if_its_session_is_over_and_not_if_it_joins_one_that_is_not() -> None:
    story = counted()
    story.step(In("a", 20))
    assert story.step(In("a", 5), watermark=15) == []
    assert story.step(In("a", 12), watermark=25) == [window(20, 30, gone=True), window(12, 30, n=2)]
    assert story.step(watermark=30) == []
    assert len(story.state) == 0


def test_final_sessions_are_given_once_when_they_are_over() -> None:
    story = counted(emit="final")
    assert story.step(In("a", 0), In("a", 5)) == []
    assert story.step(In("a", 12), watermark=8) == []
    assert story.operator.wakes_at(story.state) == 22
    assert story.step(watermark=21) == []
    assert story.step(watermark=22) == [window(0, 22, n=3)]


@settings(max_examples=80, deadline=None)
@given(some_batches(0, 120))
def test_the_table_of_sessions_does_not_depend_on_the_order_of_rows(batches: list[list[In]]) -> None:
    story, table = counted(), dict[tuple[str, int, int], int]()
    for rows in batches:
        for row in story.step(*rows):
            key = (row["k"], row["window_start"], row["window_end"])
            if "gone" in row:
                del table[key]  # what is deleted was told before
            else:
                table[key] = row["n"]
    expected = {}
    for name in "ab":
        times = sorted(row.ms for rows in batches for row in rows if row.key == name)
        while times:
            session = [times.pop(0)]
            while times and times[0] - session[-1] <= 10:
                session.append(times.pop(0))
            expected[name, session[0], session[-1] + 10] = len(session)
    assert table == expected
