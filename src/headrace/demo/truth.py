"""What must come out, computed from the input in plain Python: one pass, a dict for each question, no Spark.

It knows nothing of how the input was made: it decodes the bytes that were sent, as the pipeline does.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.demo.orders import Event

MINUTE_MS: Final = 60_000

NOT_JSON: Final = "the value is not JSON"
NO_AMOUNT: Final = "no amount"
BELOW_ZERO: Final = "amount not above zero"
NO_USER: Final = "no such user"


class Cell(NamedTuple):
    country: str
    minute_ms: int


class Revenue(NamedTuple):
    orders: int
    cents: int


@dataclass
class Outcome:
    """What a pipeline over the orders makes of them. `orders` counts ids, `letters` counts (reason, value)."""

    orders: "Counter[str]" = field(default_factory=Counter)
    letters: "Counter[tuple[str, bytes]]" = field(default_factory=Counter)
    revenue: dict[Cell, Revenue] = field(default_factory=dict)


def countries(users: Iterable[Event]) -> dict[str, str]:
    """Where each user lives now: the newest record of a key is what counts."""
    newest = {user.key.decode(): user.value for user in users}
    return {key: json.loads(value)["country"] for key, value in newest.items() if value is not None}


def truth_of(orders: Iterable[Event], country_of: Mapping[str, str]) -> Outcome:
    outcome = Outcome()
    for event in orders:
        value = event.value or b""
        reason, order = _decode(value, country_of)
        if reason:
            outcome.letters[reason, value] += 1
        elif order["id"] not in outcome.orders:
            outcome.orders[order["id"]] = 1
            cell = Cell(country_of[order["user"]], event.timestamp_ms // MINUTE_MS * MINUTE_MS)
            before = outcome.revenue.get(cell, Revenue(0, 0))
            outcome.revenue[cell] = Revenue(before.orders + 1, before.cents + order["cents"])
    return outcome


def _decode(value: bytes, country_of: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """What is wrong with it, or an empty text; and the order."""
    try:
        order = json.loads(value)
    except ValueError:
        return NOT_JSON, {}
    if order.get("cents") is None:
        return NO_AMOUNT, {}
    if order["cents"] <= 0:
        return BELOW_ZERO, {}
    if order["user"] not in country_of:
        return NO_USER, {}
    return "", order
