"""What happens to the pipelines that Kafka Streams judges: hand-written stories with ugly cases, and random ones.

A story has keys of its own, so that all are told at once, in a few micro-batches: changes of tables, rows of streams,
and both once more. A row of a stream sees the tables as they are when it comes; where both come in one micro-batch,
they are in the order of their times. That is the first one, since queries that run may see one topic before another.
"""

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tests.support.streams_judge import Given

BASE_MS: Final = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
CLOSING_MS: Final = 3 * 3_600_000  # after BASE_MS, and later than any grace of these tests
_MINUTES: Final = 5
Batch = list[Given]
Story = Sequence[Batch]  # tables, streams, tables, streams


def order(user: str | None, second: float, amount: int, item: str = "i1") -> Given:
    return _given("orders", user, second, {"amount": amount, "item": item})


def payment(user: str | None, second: float, paid: int) -> Given:
    return _given("payments", user, second, {"paid": paid})


def user(name: str, second: float, age: int, city: str | None) -> Given:
    return _given("users", name, second, {"age": age, "city": city})


def profile(name: str, second: float, nick: str) -> Given:
    return _given("profiles", name, second, {"nick": nick})


def city(name: str, second: float, size: int) -> Given:
    return _given("cities", name, second, {"size": size})


def item(name: str, second: float, price: int) -> Given:
    return _given("items", name, second, {"price": price})


def gone(topic: str, key: str, second: float) -> Given:
    """A tombstone."""
    return _given(topic, key, second, None)


def _given(topic: str, key: str | None, second: float, value: dict[str, Any] | None) -> Given:
    return Given(topic, key, value, BASE_MS + round(second * 1000))


def batches() -> list[Batch]:
    """All stories, told at once, and at the end what closes every window."""
    stories = [*_ugly(), *(_random_story(seed) for seed in range(4))]
    together = [[given for part in parts for given in part] for parts in zip(*stories, strict=True)]
    together[-1] += [order("closing", CLOSING_MS / 1000, 1), payment("closing too", CLOSING_MS / 1000, 1)]
    return together


def late_batches() -> list[Batch]:
    """Rows that come late, for pipelines with a grace of ten seconds."""
    far = CLOSING_MS / 1000
    return [
        [order("late", 5, 1), order("other", 69, 2), payment("other", 69, 2)],
        [order("late", 6, 4), order("other", 70, 8)],  # its window, up to 60 s, is open until 70 s
        [order("late", 7, 16), order("late", 60, 32)],
        [order("visits", 100, 1), order("visits", 118, 2), order("other", 140, 4), payment("other", 140, 4)],
        [order("visits", 105, 8), payment("visits", 100, 8)],  # into a session that is open, for an order that waits
        # In one micro-batch, with what closes all windows.
        [order("ahead", 400, 1), order("behind", 305, 2), order("closing", far, 1), payment("closing too", far, 1)],
    ]


# --- ugly cases


def _ugly() -> Iterable[Story]:
    yield _of_streams(_edges())
    yield _of_streams(_out_of_order())
    yield _of_streams(_partners())
    yield _of_streams(_without_key_or_value())
    yield _of_changes()
    yield _of_foreign_keys()
    yield _of_both()


def _edges() -> list[Batch]:
    """Rows on the borders of windows, sessions and sliding windows, to the millisecond."""
    borders = [0, 59.999, 60, 119.999, 120, 20, 40]
    gaps = [200, 220, 240.001, 260, 300, 319.999]  # of exactly 20 s, of one millisecond more, of one less
    differences = [400, 415, 430.001, 445.001, 445.002]
    return [
        [order("edges", second, number) for number, second in enumerate(borders + gaps[::2] + differences[::2])],
        [order("edges", second, number) for number, second in enumerate(gaps[1::2] + differences[1::2])],
    ]


def _out_of_order() -> list[Batch]:
    """Times that go backwards, many rows of one time, and a row that makes one session of two."""
    backwards = [order("backwards", second, second) for second in range(100, 0, -9)]
    same = [order("same", 33, amount) for amount in (3, 1, 2)]
    bridged = [order("bridged", 10, 1), order("bridged", 45, 2)]
    return [backwards + same + bridged, [order("bridged", 28, 4), order("bridged", 27, 8), order("same", 33, 9)]]


def _partners() -> list[Batch]:
    """Orders at 100 s find payments from 95 s to 120 s, both included."""
    around = [payment("partners", second, n) for n, second in enumerate((94.999, 95, 100, 120, 120.001))]
    many = [order("many", 50, 1), order("many", 50, 2), payment("many", 50, 10), payment("many", 55, 20)]
    later = [payment("waits", 200, 7), order("alone", 210, 8), payment("unasked", 220, 9)]
    return [[order("partners", 100, 1), *many, *later], [*around, order("waits", 203, 6), order("partners", 101, 2)]]


def _without_key_or_value() -> list[Batch]:
    nothing = [order(None, 10, 1), payment(None, 10, 2), gone("orders", "empty", 11), gone("payments", "empty", 12)]
    return [nothing, [order("empty", 13, 3), gone("orders", "empty", 14), order(None, 70, 4, "i2")]]


def _of_streams(parts: list[Batch]) -> Story:
    return [[], parts[0], [], parts[1]]


def _of_changes() -> Story:
    """Tables by user: rows that come, change, go, come again, and pass a filter no more."""
    first = [
        user("stays", 1, 30, "X"),
        user("leaves", 1, 40, "X"),
        user("ages", 1, 17, "X"),
        user("younger", 1, 18, "X"),
        user("there and back", 1, 20, "X"),
        profile("stays", 1, "s"),
        profile("only a profile", 1, "o"),
        gone("users", "never was", 1),
        gone("profiles", "stays too", 1),
        user("twice", 5, 1, "X"),
        user("twice", 3, 2, "X"),  # written later, though it is older: it counts
        item("i1", 1, 100),
        item("i2", 1, 200),
    ]
    second = [
        gone("users", "leaves", 20),
        user("ages", 20, 18, "X"),
        user("younger", 20, 17, "Y"),
        gone("users", "there and back", 20),
        gone("profiles", "only a profile", 20),
        profile("leaves", 20, "left"),
        profile("ages", 19, "a"),
        gone("users", "moves", 15),
        user("moves", 16, 50, "X"),
        user("moves", 17, 50, "Y"),
        gone("items", "i2", 20),
    ]
    at_once = [
        user("there and back", 40, 21, "Y"),
        gone("profiles", "ages", 41),
        user("moves", 30, 51, "X"),
        gone("users", "stays", 60),
        gone("users", "stays", 61),
    ]
    asks = [order(name, 50, 1) for name in ("stays", "leaves", "ages", "there and back", "moves", "twice", "nobody")]
    return [first, asks, second + at_once, [*asks, order("moves", 2, 3, "i2")]]


def _of_foreign_keys() -> Story:
    """Cities that come before and after their users, change, go, and come again."""
    first = [
        user("f1", 1, 1, "early"),
        user("f2", 1, 2, "late"),
        user("f3", 1, 3, None),
        user("f4", 1, 4, "never"),
        city("early", 1, 10),
        city("empty", 1, 11),
    ]
    second = [
        city("late", 20, 20),
        city("early", 21, 30),
        user("f3", 22, 3, "early"),
        user("f4", 23, 4, None),
        user("f5", 20, 5, "early"),
        gone("cities", "never", 20),
    ]
    at_once = [
        gone("cities", "early", 40),
        user("f2", 41, 2, "empty"),
        gone("users", "f5", 42),
        city("early", 43, 40),
        gone("cities", "late", 44),
        user("f1", 45, 1, "late"),
    ]
    return [first, [], second + at_once, []]


def _of_both() -> Story:
    """Changes and rows in one micro-batch: each row sees the table as it is at its time."""
    mixed = [
        user("mixed", 1, 19, "Y"),
        gone("users", "mixed", 2),
        order("mixed", 60, 1),
        user("mixed", 61, 20, "X"),
        order("mixed", 61, 2),
        order("mixed", 62, 3),
        user("mixed", 63, 21, "X"),
        order("mixed", 64, 4),
        gone("users", "mixed", 65),
        order("mixed", 66, 5),
    ]
    return [mixed, [], [], []]


# --- random ones


def _random_story(seed: int) -> Story:
    """Few keys and many records, in no order of their times, cut into micro-batches anywhere."""
    chance = random.Random(seed)
    names = [f"u{seed}-{number}" for number in range(3)]
    cities = [f"c{seed}-{number}" for number in range(3)]
    rows = [_random_row(chance, names, number) for number in range(90)]
    changes = [_random_change(chance, names, cities) for _ in range(45)]
    early_changes, late_changes = _cut(chance, changes)
    early_rows, late_rows = _cut(chance, rows)
    return [early_changes, early_rows, late_changes, late_rows]


def _random_row(chance: random.Random, names: list[str], number: int) -> Given:
    """`number` is its amount, by which its partners can be told."""
    key = None if chance.random() < 0.03 else chance.choice(names)
    second = chance.randrange(60 * _MINUTES) + chance.choice((0, 0, 0, 0.001, 0.999))
    if chance.random() < 0.04:
        return _given(chance.choice(("orders", "payments")), key, second, None)
    if chance.random() < 0.3:
        return payment(key, second, number)
    return order(key, second, number, chance.choice(("i1", "i2", "i3")))


def _random_change(chance: random.Random, names: list[str], cities: list[str]) -> Given:
    second = chance.randrange(60 * _MINUTES)
    topic = chance.choice(("users", "users", "profiles", "cities"))
    if chance.random() < 0.25:
        return gone(topic, chance.choice(cities if topic == "cities" else names), second)
    if topic == "cities":
        return city(chance.choice(cities), second, chance.randrange(100))
    if topic == "profiles":
        return profile(chance.choice(names), second, chance.choice("abc"))
    return user(chance.choice(names), second, chance.randrange(10, 30), chance.choice([*cities, None]))


def _cut(chance: random.Random, records: Batch) -> tuple[Batch, Batch]:
    """Anywhere: a part may be empty."""
    at = chance.randrange(len(records) + 1)
    return records[:at], records[at:]
