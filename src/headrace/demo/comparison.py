"""Results beside the truth: line by line for people, and one answer for programs."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from headrace.demo.truth import Outcome, Revenue


class Line(NamedTuple):
    """A number that must be, the number that is, and whether all that they stand for is equal."""

    name: str
    wanted: int
    found: int
    is_equal: bool
    is_money: bool = False


def compare(wanted: Outcome, found: Outcome, *, lag: int) -> list[Line]:
    """A line for each country and for each thing that must hold. A sum that is right by chance is not equal."""
    return [*_countries(wanted, found), *_records(wanted, found), Line("lag of the pipeline", 0, lag, lag == 0)]


def is_right(lines: list[Line]) -> bool:
    return all(line.is_equal for line in lines)


def _countries(wanted: Outcome, found: Outcome) -> Iterator[Line]:
    names = sorted({cell.country for cell in wanted.revenue.keys() | found.revenue.keys()})
    for name in names:
        minutes_wanted, minutes_found = _minutes(wanted, name), _minutes(found, name)
        yield Line(
            f"{name}, {len(minutes_wanted)} minutes",
            sum(revenue.cents for revenue in minutes_wanted.values()),
            sum(revenue.cents for revenue in minutes_found.values()),
            minutes_wanted == minutes_found,
            is_money=True,
        )


def _minutes(outcome: Outcome, country: str) -> dict[int, Revenue]:
    return {cell.minute_ms: revenue for cell, revenue in outcome.revenue.items() if cell.country == country}


def _records(wanted: Outcome, found: Outcome) -> Iterator[Line]:
    yield Line("orders that count", wanted.orders.total(), found.orders.total(), wanted.orders == found.orders)
    yield Line("dead letters", wanted.letters.total(), found.letters.total(), wanted.letters == found.letters)
    lost = _too_few(wanted.orders, found.orders) + _too_few(wanted.letters, found.letters)
    yield Line("lost", 0, lost, lost == 0)
    doubled = _too_few(found.orders, wanted.orders) + _too_few(found.letters, wanted.letters)
    yield Line("doubled", 0, doubled, doubled == 0)


def _too_few(wanted: "Counter[Any]", found: "Counter[Any]") -> int:
    return (wanted - found).total()
