"""The truth, on inputs small enough to be summed up by hand; and the comparison, which must not overlook anything."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from headrace.demo.comparison import Line, compare, is_right
from headrace.demo.orders import Event, make_orders, make_users
from headrace.demo.truth import (
    BELOW_ZERO,
    NO_AMOUNT,
    NO_USER,
    NOT_JSON,
    Cell,
    Outcome,
    Revenue,
    countries,
    truth_of,
)

MINUTE = 60_000
WHERE = {"u1": "France", "u2": "Brazil"}


def order(number: int, user: str = "u1", cents: int = 100, at_ms: int = 0) -> Event:
    return Event(user.encode(), json.dumps({"id": f"o{number}", "user": user, "cents": cents}).encode(), at_ms)


def test_the_newest_record_of_a_user_says_where_they_live_and_one_without_a_value_that_they_left() -> None:
    def user(name: bytes, country: str | None) -> Event:
        return Event(name, None if country is None else json.dumps({"country": country}).encode(), 0)

    users = [user(b"u1", "Brazil"), user(b"u2", "Brazil"), user(b"u1", "France"), user(b"u2", None)]
    assert countries(users) == {"u1": "France"}


def test_revenue_is_summed_per_country_and_minute_of_the_orders_own_time() -> None:
    orders = [order(1), order(2, "u2", 5), order(3, at_ms=MINUTE), order(4, cents=11, at_ms=MINUTE - 1)]
    outcome = truth_of(orders, WHERE)
    assert outcome.revenue == {
        Cell("France", 0): Revenue(2, 111),
        Cell("Brazil", 0): Revenue(1, 5),
        Cell("France", MINUTE): Revenue(1, 100),
    }
    assert outcome.orders == Counter(["o1", "o2", "o3", "o4"])
    assert not outcome.letters


def test_a_duplicate_counts_once() -> None:
    outcome = truth_of([order(1), order(2), order(1)], WHERE)
    assert outcome.revenue == {Cell("France", 0): Revenue(2, 200)}
    assert outcome.orders == Counter(["o1", "o2"])


def test_a_broken_order_is_a_dead_letter_with_a_reason_and_no_revenue() -> None:
    broken = {
        b'{"id": "o1", "cents": 5': NOT_JSON,
        b'{"id": "o2", "user": "u1"}': NO_AMOUNT,
        b'{"id": "o3", "user": "u1", "cents": 0}': BELOW_ZERO,
        b'{"id": "o4", "user": "nobody", "cents": 5}': NO_USER,
    }
    outcome = truth_of([Event(b"u1", value, 0) for value in broken], WHERE)
    assert outcome.letters == Counter((reason, value) for value, reason in broken.items())
    assert not outcome.revenue
    assert not outcome.orders


@pytest.fixture
def wanted() -> Outcome:
    return truth_of(make_orders(3_000, 1, 0), countries(make_users(1, 0)))


def copy(outcome: Outcome) -> Outcome:
    return replace(outcome, orders=outcome.orders.copy(), letters=outcome.letters.copy(), revenue=dict(outcome.revenue))


def different(wanted: Outcome, found: Outcome, lag: int = 0) -> set[str]:
    lines = compare(wanted, found, lag=lag)
    names = {line.name for line in lines if not line.is_equal}
    assert is_right(lines) == (not names)
    return names


def test_equal_outcomes_are_equal(wanted: Outcome) -> None:
    assert not different(wanted, copy(wanted))


def test_a_wrong_sum_is_seen_even_if_the_total_of_the_country_is_right(wanted: Outcome) -> None:
    found = copy(wanted)
    first, second = [cell for cell in found.revenue if cell.country == "France"][:2]
    for cell, cents in ((first, 1), (second, -1)):
        found.revenue[cell] = found.revenue[cell]._replace(cents=found.revenue[cell].cents + cents)
    assert [name for name in different(wanted, found) if name.startswith("France")]


def test_a_wrong_number_of_orders_in_a_minute_is_seen(wanted: Outcome) -> None:
    found = copy(wanted)
    cell = next(iter(found.revenue))
    found.revenue[cell] = found.revenue[cell]._replace(orders=found.revenue[cell].orders + 1)
    assert [name for name in different(wanted, found) if name.startswith(cell.country)]


def test_a_minute_that_is_missing_or_too_many_is_seen(wanted: Outcome) -> None:
    found = copy(wanted)
    cell = next(iter(found.revenue))
    del found.revenue[cell]
    assert [name for name in different(wanted, found) if name.startswith(cell.country)]
    found = copy(wanted)
    found.revenue[Cell("Atlantis", 0)] = Revenue(1, 1)
    assert [name for name in different(wanted, found) if name.startswith("Atlantis")]


def test_a_lost_order_is_seen(wanted: Outcome) -> None:
    found = copy(wanted)
    del found.orders[next(iter(found.orders))]
    assert different(wanted, found) == {"orders that count", "lost"}


def test_a_doubled_order_is_seen(wanted: Outcome) -> None:
    found = copy(wanted)
    found.orders[next(iter(found.orders))] += 1
    assert different(wanted, found) == {"orders that count", "doubled"}


def test_one_that_is_lost_and_another_that_is_doubled_do_not_make_up_for_one_another(wanted: Outcome) -> None:
    found = copy(wanted)
    first, second = list(found.orders)[:2]
    del found.orders[first]
    found.orders[second] += 1
    assert different(wanted, found) == {"orders that count", "lost", "doubled"}


def test_dead_letters_that_are_lost_doubled_or_have_another_reason_are_seen(wanted: Outcome) -> None:
    letter = next(iter(wanted.letters))
    found = copy(wanted)
    del found.letters[letter]
    assert different(wanted, found) == {"dead letters", "lost"}
    found = copy(wanted)
    found.letters[letter] += 1
    assert different(wanted, found) == {"dead letters", "doubled"}
    found = copy(wanted)
    del found.letters[letter]
    found.letters["another reason", letter[1]] = 1
    assert "dead letters" in different(wanted, found)


def test_a_lag_is_not_right(wanted: Outcome) -> None:
    assert different(wanted, copy(wanted), lag=1) == {"lag of the pipeline"}


def test_the_lines_have_the_numbers_that_people_want_to_see() -> None:
    outcome = truth_of([order(1), order(2, "u2", 250)], WHERE)
    assert compare(outcome, Outcome(), lag=3) == [
        Line("Brazil, 1 minutes", 250, 0, is_equal=False, is_money=True),
        Line("France, 1 minutes", 100, 0, is_equal=False, is_money=True),
        Line("orders that count", 2, 0, is_equal=False),
        Line("dead letters", 0, 0, is_equal=True),
        Line("lost", 0, 2, is_equal=False),
        Line("doubled", 0, 0, is_equal=True),
        Line("lag of the pipeline", 0, 3, is_equal=False),
    ]
