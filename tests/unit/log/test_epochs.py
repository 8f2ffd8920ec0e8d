"""Leader epochs: Kafka's rules for assigning, asking and truncating; and the text of the checkpoint."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.epochs import EpochHistory
from headrace.log.errors import CorruptCheckpointError

HISTORY = [(2, 0), (4, 10), (7, 30)]
LOG_END_OFFSET = 50


def test_an_epoch_is_assigned_once() -> None:
    history = EpochHistory()
    assert history.latest_epoch is None
    assert history.assign(3, 5)
    assert not history.assign(3, 5)
    assert not history.assign(3, 9)
    assert history.entries == [(3, 5)]


def test_a_new_epoch_at_the_same_offset_replaces_the_one_without_records() -> None:
    history = EpochHistory([(3, 5)])
    assert history.assign(4, 5)
    assert history.entries == [(4, 5)]


def test_a_start_that_lies_before_known_ones_drops_them() -> None:
    history = EpochHistory(HISTORY)
    assert history.assign(8, 10)
    assert history.entries == [(2, 0), (8, 10)]


def test_an_older_epoch_drops_the_newer_ones_since_the_log_is_right() -> None:
    history = EpochHistory(HISTORY)
    assert history.assign(5, 60)
    assert history.entries == [(2, 0), (4, 10), (5, 60)]


def test_the_latest_epoch_may_turn_out_to_begin_earlier() -> None:
    history = EpochHistory(HISTORY)
    assert history.assign(7, 20)
    assert history.entries == [(2, 0), (4, 10), (7, 20)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, (7, LOG_END_OFFSET)),  # the latest goes on
        (4, (4, 30)),  # an older one ends where the next begins
        (5, (4, 30)),  # one without records: the last one before it
        (2, (2, 10)),
        (1, (1, 0)),  # older than all: go on from the first start
        (8, (-1, -1)),  # newer than all: unknown
        (-1, (-1, -1)),
    ],
)
def test_where_an_epoch_ended(asked: int, answer: tuple[int, int]) -> None:
    assert EpochHistory(HISTORY).end_offset_for(asked, LOG_END_OFFSET) == answer


def test_an_empty_history_knows_no_end() -> None:
    assert EpochHistory().end_offset_for(0, 0) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 2), (9, 2), (10, 4), (29, 4), (30, 7), (99, 7)])
def test_which_epoch_wrote_an_offset(offset: int, epoch: int) -> None:
    assert EpochHistory(HISTORY).epoch_at(offset) == epoch


def test_no_epoch_wrote_an_offset_before_the_first_entry() -> None:
    assert EpochHistory([(3, 5)]).epoch_at(4) is None


@pytest.mark.parametrize(("offset", "left"), [(31, 3), (30, 2), (11, 2), (10, 1), (1, 1), (0, 0)])
def test_truncating_the_end_drops_the_epochs_that_began_there_or_later(offset: int, left: int) -> None:
    history = EpochHistory(HISTORY)
    assert history.truncate_from_end(offset) is (left < 3)
    assert history.entries == HISTORY[:left]


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, HISTORY),
        (1, [(2, 1), (4, 10), (7, 30)]),
        (10, [(4, 10), (7, 30)]),
        (15, [(4, 15), (7, 30)]),
        (30, [(7, 30)]),
        (45, [(7, 45)]),
    ],
)
def test_truncating_the_start_keeps_the_epoch_that_wrote_it_from_there(
    offset: int, left: list[tuple[int, int]]
) -> None:
    history = EpochHistory(HISTORY)
    assert history.truncate_from_start(offset) is (left != HISTORY)
    assert history.entries == left


def test_truncating_the_start_before_the_first_entry_changes_nothing() -> None:
    history = EpochHistory([(3, 5)])
    assert not history.truncate_from_start(4)
    assert history.entries == [(3, 5)]


def test_the_file_has_kafkas_text() -> None:
    assert EpochHistory(HISTORY).format() == "0\n3\n2 0\n4 10\n7 30\n"
    assert EpochHistory().format() == "0\n0\n"
    assert EpochHistory.parse("0\n3\n2 0\n4 10\n7 30\n").entries == HISTORY
    assert EpochHistory.parse("").entries == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n0\n", "line 1: version 1, only 0 is known"),
        ("x\n0\n", "line 1: 'x' is not a number"),
        ("0\n", "line 2: the number of lines is missing"),
        ("0\n2\n1 0\n", "line 2: 2 lines announced, there are 1"),
        ("0\n1\n1 0 0\n", "line 3: '1 0 0', expected epoch and start offset"),
        ("0\n1\n-1 0\n", "line 3: '-1 0', expected epoch and start offset"),
        ("0\n1\n1 1_0\n", "line 3: '1_0' is not a number"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="^orders-0/leader-epoch-checkpoint, " + reason):
        EpochHistory.parse(text, path="orders-0/leader-epoch-checkpoint")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12), st.integers(0, 10))
@settings(max_examples=200, deadline=None)
def test_epochs_and_offsets_grow_whatever_is_assigned(assigned: list[tuple[int, int]], offset: int) -> None:
    history = EpochHistory()
    for epoch, start_offset in assigned:
        before = history.entries
        assert history.assign(epoch, start_offset) is (history.entries != before)
        assert history.latest_epoch == epoch
        assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(history.entries))
    assert EpochHistory.parse(history.format()).entries == history.entries
    # truncation never changes which epoch wrote what is left
    writers = {place: history.epoch_at(place) for place in range(12)}
    history.truncate_from_start(offset)
    assert all(history.epoch_at(place) == writers[place] for place in range(offset, 12))
