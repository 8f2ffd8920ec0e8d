"""The demo's input: users, and orders as they come on a bad day. The same seed gives the same, byte for byte.

Most orders come when they are placed. Some are late, as from a phone that was in a tunnel; some come twice, as from a
program that did not hear the answer; some are broken in one of the ways of `BREAKERS`. A user may have moved, which is
a second record of the same key, or left, which is a record without a value.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

COUNTRIES: Final = ("Austria", "Brazil", "Canada", "Denmark", "Estonia", "France")
USERS: Final = 300
SPAN_MS: Final = 10 * 60_000  # in which all orders are placed, whatever time it takes to send them
MAX_LATE_MS: Final = 3 * 60_000
MAX_APART: Final = 500  # orders between one and its duplicate

LATE_SHARE: Final = 0.05
DUPLICATE_SHARE: Final = 0.03
BROKEN_SHARE: Final = 0.02
MOVED_SHARE: Final = 0.1
LEFT_SHARE: Final = 0.02


class Event(NamedTuple):
    """A record to send. Its timestamp is when the order was placed; value is None for a user who left."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


def make_users(seed: int, start_ms: int) -> list[Event]:
    random = Random(f"users {seed}")
    first = [_user(number, random.choice(COUNTRIES), start_ms) for number in range(USERS)]
    moved = [_user(number, random.choice(COUNTRIES), start_ms) for number in _some(random, MOVED_SHARE)]
    left = [Event(_user_id(number), None, start_ms) for number in _some(random, LEFT_SHARE)]
    return first + moved + left


def make_orders(count: int, seed: int, start_ms: int) -> list[Event]:
    """So many orders, broken ones and duplicates among them, as they arrive."""
    random = Random(f"orders {seed}")
    arriving: list[tuple[float, Event]] = []
    for number in range(count):
        if arriving and random.random() < DUPLICATE_SHARE:
            _, original = arriving[-random.randint(1, min(len(arriving), MAX_APART))]
            if b"#" not in (original.value or b""):  # of broken ones there is one each, to be counted by their bytes
                arriving.append((number, original))
                continue
        placed_ms = start_ms + SPAN_MS * number // count
        late_ms = random.randint(1, MAX_LATE_MS) if random.random() < LATE_SHARE else 0
        # It takes its place in line when it comes, and keeps the time at which it was placed.
        arriving.append((number + late_ms * count / SPAN_MS, _order(number, placed_ms, random)))
    arriving.sort(key=lambda pair: pair[0])
    return [event for _, event in arriving]


def _order(number: int, placed_ms: int, random: Random) -> Event:
    user = _user_id(random.randrange(USERS))
    # Whole cents: sums of them are exact in every order of adding.
    order = {"id": f"o{number:07d}", "user": user.decode(), "cents": random.randint(100, 50_000)}
    if random.random() < BROKEN_SHARE:
        order["note"] = f"#{number}"
        return Event(user, random.choice(BREAKERS)(order), placed_ms)
    return Event(user, json.dumps(order).encode(), placed_ms)


def _cut(order: dict[str, Any]) -> bytes:
    return json.dumps(order).encode()[:-1]


def _without_cents(order: dict[str, Any]) -> bytes:
    return json.dumps({name: value for name, value in order.items() if name != "cents"}).encode()


def _below_zero(order: dict[str, Any]) -> bytes:
    return json.dumps(order | {"cents": -order["cents"]}).encode()


def _of_nobody(order: dict[str, Any]) -> bytes:
    return json.dumps(order | {"user": "nobody"}).encode()


BREAKERS: Final[tuple[Callable[[dict[str, Any]], bytes], ...]] = (_cut, _without_cents, _below_zero, _of_nobody)


def _user(number: int, country: str, start_ms: int) -> Event:
    return Event(_user_id(number), json.dumps({"user": number, "country": country}).encode(), start_ms)


def _user_id(number: int) -> bytes:
    return b"u%03d" % number


def _some(random: Random, share: float) -> list[int]:
    return random.sample(range(USERS), int(USERS * share))
