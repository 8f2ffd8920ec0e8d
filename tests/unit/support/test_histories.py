"""The checker of histories can fail: each promise is broken once, and it says which."""

from collections.abc import Callable

import pytest

from tests.support.histories import Breach, Entry, History, check


def a_history() -> History:
    """Two producers, one partition, six records; the last one was sent, and perhaps stored, but never acknowledged."""
    history = History()
    history.attempted["a", 0] = [b"a0", b"a1", b"a2", b"a3"]
    history.attempted["b", 0] = [b"b0", b"b1"]
    stored = [b"a0", b"b0", b"a1", b"a2", b"b1", b"a3"]
    history.read[0] = [Entry(offset, value) for offset, value in enumerate(stored)]
    history.acknowledged[0] = [(offset, value) for offset, value in enumerate(stored[:-1])]
    return history


def drop(history: History, offset: int) -> None:
    """The record is not there, and the others have moved up."""
    values = [entry.value for entry in history.read[0] if entry.offset != offset]
    history.read[0] = [Entry(number, value) for number, value in enumerate(values)]


def breaches(history: History) -> set[Breach]:
    return {violation.breach for violation in check(history)}


def test_promises_that_were_kept_are_no_violations() -> None:
    assert check(a_history()) == []


def test_what_was_never_acknowledged_may_be_there_or_not() -> None:
    history = a_history()
    del history.read[0][-1]
    assert check(history) == []


def test_an_empty_log_is_right_only_if_nothing_was_acknowledged() -> None:
    history = a_history()
    history.read[0] = []
    assert breaches(history) == {Breach.MISSING}
    history.acknowledged[0] = []
    assert check(history) == []


def lose_the_last_acknowledged(history: History) -> None:
    del history.read[0][-2:]


def lose_one_in_the_middle(history: History) -> None:
    drop(history, 2)


def leave_a_hole(history: History) -> None:
    del history.read[0][2]


def store_one_again(history: History) -> None:
    history.read[0].append(Entry(6, b"a3"))


def store_what_nobody_sent(history: History) -> None:
    history.read[0].append(Entry(6, b"x"))


def swap_two_of_one_producer(history: History) -> None:
    history.acknowledged[0] = []
    entries = history.read[0]
    entries[2], entries[3] = Entry(2, b"a2"), Entry(3, b"a1")


def swap_two_of_different_producers(history: History) -> None:
    entries = history.read[0]
    entries[0], entries[1] = Entry(0, b"b0"), Entry(1, b"a0")


def promise_two_places(history: History) -> None:
    history.acknowledged[0].append((5, b"a2"))


def go_back(history: History) -> None:
    history.read[0][5] = Entry(4, b"a3")


def lose_what_was_acknowledged_without_an_offset(history: History) -> None:
    history.acknowledged[0][4] = (None, b"b1")
    drop(history, 4)


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (lose_the_last_acknowledged, {Breach.MISSING}),
        (lose_one_in_the_middle, {Breach.MISSING, Breach.MOVED, Breach.SKIPPED}),
        (leave_a_hole, {Breach.MISSING, Breach.GAP, Breach.SKIPPED}),
        (store_one_again, {Breach.DOUBLED}),
        (store_what_nobody_sent, {Breach.INVENTED}),
        (swap_two_of_one_producer, {Breach.REORDERED}),
        (swap_two_of_different_producers, {Breach.MOVED}),
        (promise_two_places, {Breach.TWICE, Breach.MOVED}),
        (go_back, {Breach.UNORDERED}),
        (lose_what_was_acknowledged_without_an_offset, {Breach.MISSING}),
    ],
)
def test_a_broken_promise_is_found(break_it: Callable[[History], None], expected: set[Breach]) -> None:
    history = a_history()
    break_it(history)
    assert breaches(history) == expected


def test_records_before_the_start_of_the_log_are_not_missed() -> None:
    history = a_history()
    del history.read[0][:3]
    assert breaches(history) == {Breach.MISSING, Breach.GAP, Breach.SKIPPED}
    history.log_start[0] = 3
    assert check(history) == []


def compacted() -> History:
    history = a_history()
    history.keys = {b"a0": b"k", b"a1": b"k", b"a2": b"k", b"a3": b"z", b"b0": b"l", b"b1": b"m"}
    history.read[0] = [Entry(entry.offset, entry.value, history.keys[entry.value]) for entry in history.read[0]]
    return history


def test_compaction_may_take_what_a_later_record_replaces() -> None:
    history = compacted()
    del history.read[0][0], history.read[0][1]
    assert [entry.value for entry in history.read[0]] == [b"b0", b"a2", b"b1", b"a3"]
    assert check(history) == []


def test_compaction_may_not_take_the_last_of_a_key() -> None:
    history = compacted()
    del history.read[0][3]
    assert breaches(history) == {Breach.MISSING}


def test_partitions_are_judged_one_by_one() -> None:
    history = a_history()
    history.attempted["a", 1] = [b"a0"]
    history.acknowledged[1] = [(0, b"a0")]
    history.read[1] = []
    (violation,) = check(history)
    assert (violation.breach, violation.partition) == (Breach.MISSING, 1)
