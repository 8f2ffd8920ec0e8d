"""Sessions and sliding windows of our own beside those of Kafka Streams, row by row: late rows, too, and their order.

Each row is a micro-batch here, so that what is late is the same. Times are multiples of four and graces are not: in the
very millisecond in which a window closes Kafka Streams gives its final result, and still takes rows.
"""

import random
from typing import Any, Final, NamedTuple

import pytest

from headrace.streams.keyed.sessions import FoldSessions
from headrace.streams.keyed.sliding import FoldSliding
from tests.support.streams_judge import Given, final_table, judge
from tests.unit.streams.keyed.fold_stories import In, Story, listing, results

pytestmark = pytest.mark.kafka

CASES: Final = 20  # of each kind
START_MS: Final = 100_000
NEVER_LATE_MS: Final = 1_000_000
Windows = dict[tuple[str, int, int], str]  # by key and both ends: the items of its rows, in the order of the fold


class Case(NamedTuple):
    window: str
    size_ms: int
    grace_ms: int
    rows: list[tuple[str, int]]  # key and time


def some_case(window: str, seed: int) -> Case:
    chance = random.Random(seed)
    grace_ms = chance.choice((2, 6, 14, NEVER_LATE_MS))
    times = [START_MS + 4 * (chance.randrange(20) + number) for number in range(chance.randrange(3, 16))]
    return Case(window, chance.choice((8, 12)), grace_ms, [(chance.choice("ab"), at) for at in times])


def item(number: int) -> str:
    return chr(ord("a") + number)


def ours(case: Case) -> Windows:
    story = Story(_operator(case))
    table: Windows = {}
    watermark: int | None = None
    for number, (key, at) in enumerate(case.rows):
        for row in story.step(In(key, at, number), watermark=watermark):
            window = (row["k"], row["window_start"], row["window_end"])
            if "gone" in row:
                del table[window]
            else:
                table[window] = "".join(map(item, row["all"]))
        watermark = max(at for _, at in case.rows[: number + 1]) - case.grace_ms
    return table


def _operator(case: Case) -> FoldSessions | FoldSliding:
    if case.window == "sliding":
        return FoldSliding(results(listing(), windowed=True), case.size_ms)
    folding = listing(merge=lambda one, other: {"all": one["all"] + other["all"]})
    return FoldSessions(results(folding, windowed=True), case.size_ms)


def theirs(cases: dict[str, Case]) -> dict[str, Windows]:
    asked: dict[str, dict[str, Any]] = {
        name: {"operator": "aggregate", "fold": "reduce", "emit": "changes", **_parameters(case)}
        for name, case in cases.items()
    }
    records = {
        name: [Given("orders", key, {"amount": 0, "item": item(n)}, at) for n, (key, at) in enumerate(case.rows)]
        for name, case in cases.items()
    }
    made = {}
    for name, found in judge(asked, records).items():
        tables = ((dict(key), dict(value)) for key, (value, _) in final_table(found).items())
        made[name] = {(key["user"], key["window_start"], key["window_end"]): value["item"] for key, value in tables}
    return made


def _parameters(case: Case) -> dict[str, Any]:
    return {"window": case.window, "size_ms": case.size_ms, "grace_ms": case.grace_ms}


def test_tables_of_windows_are_those_of_kafka_streams() -> None:
    cases = {f"{window} {seed}": some_case(window, seed) for window in ("sliding", "session") for seed in range(CASES)}
    judged = theirs(cases)
    different = {name: case for name, case in cases.items() if ours(case) != judged[name]}
    assert not different
