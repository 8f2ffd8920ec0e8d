"""The demo's input: the same for the same seed, and of every kind that the pipeline must cope with."""

import json
from collections import Counter

from headrace.demo.orders import BREAKERS, MAX_LATE_MS, SPAN_MS, USERS, Event, make_orders, make_users

START_MS = 1_700_000_040_000


def decoded(events: list[Event]) -> list[dict[str, object]]:
    """Those that are whole."""
    return [json.loads(event.value) for event in events if event.value and b"#" not in event.value]


def test_a_seed_gives_the_same_orders_and_users_again_and_another_gives_others() -> None:
    assert make_orders(2_000, 7, START_MS) == make_orders(2_000, 7, START_MS)
    assert make_orders(2_000, 7, START_MS) != make_orders(2_000, 8, START_MS)
    assert make_users(7, START_MS) == make_users(7, START_MS)
    assert make_users(7, START_MS) != make_users(8, START_MS)


def test_there_are_as_many_as_were_asked_for() -> None:
    for count in (100, 999, 5_000):
        assert len(make_orders(count, 1, START_MS)) == count


def test_some_come_twice_byte_for_byte_and_never_before_the_original() -> None:
    orders = make_orders(5_000, 1, START_MS)
    seen = Counter(orders)
    twice = [event for event, count in seen.items() if count > 1]
    assert 50 < len(twice) < 300
    ids = Counter(str(order["id"]) for order in decoded(orders))
    assert len(ids) == len({event for event in orders if b"#" not in (event.value or b"")})


def test_some_are_late_and_none_later_than_the_limit() -> None:
    orders = make_orders(5_000, 1, START_MS)
    newest, lateness = START_MS, []
    for event in orders:
        newest = max(newest, event.timestamp_ms)
        lateness.append(newest - event.timestamp_ms)
    assert sum(late > 10_000 for late in lateness) > 100
    assert max(lateness) <= 2 * MAX_LATE_MS, "a duplicate of a late one may be as late again"
    assert all(START_MS <= event.timestamp_ms < START_MS + SPAN_MS for event in orders)


def test_every_kind_of_broken_order_is_there_and_each_is_unique() -> None:
    broken = [event.value for event in make_orders(5_000, 1, START_MS) if b"#" in (event.value or b"")]
    assert len(set(broken)) == len(broken)
    assert len(broken) > 10 * len(BREAKERS)
    kinds = {"cut": 0, "no cents": 0, "below zero": 0, "nobody": 0}
    for value in broken:
        assert value is not None
        try:
            order = json.loads(value)
        except ValueError:
            kinds["cut"] += 1
            continue
        kinds["no cents"] += "cents" not in order
        kinds["below zero"] += order.get("cents", 1) < 0
        kinds["nobody"] += order["user"] == "nobody"
    assert all(kinds.values()), kinds
    assert sum(kinds.values()) == len(broken)


def test_some_users_have_moved_and_some_have_left() -> None:
    users = make_users(1, START_MS)
    assert len({user.key for user in users}) == USERS
    last = {user.key: user.value for user in users}
    assert 0 < sum(value is None for value in last.values()) < USERS // 10
    assert len(users) > USERS + sum(value is None for value in last.values())
