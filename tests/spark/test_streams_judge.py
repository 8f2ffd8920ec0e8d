"""Kafka Streams judges what operators mean: the same records through its TopologyTestDriver and through ours.

Compared are final tables, with the times of their rows, and of joins with streams all results. How many changes are
seen on the way depends on micro-batches, and is not compared.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from headrace.streams import App
from headrace.streams.compiler.app_test import AppTest
from headrace.streams.feeding import Record
from headrace.streams.plan import Plan, Source
from tests.support.streams_judge import Columns, Given, Result, columns, final_table, judge
from tests.support.streams_pipelines import TOGETHER, Pipeline, pipelines, sources
from tests.support.streams_stories import BASE_MS, Batch, batches, gone, late_batches, order, payment

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, pytest.mark.kafka]  # Maven fetches Kafka Streams

GRACE_MS: Final = 3_600_000  # longer than the stories last: nothing is late
LATE_GRACE_MS: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def app_of(built: Mapping[str, Pipeline], grace_ms: int = GRACE_MS) -> App:
    app = App("judged", "nowhere:1", grace=f"{grace_ms}ms", partitions=1)  # a process less for each operator in Python
    of = sources(app)
    for name, pipeline in built.items():
        pipeline.build(of).to(name)
    return app


def topics_of(plan: Plan) -> set[str]:
    return {topic for node in plan.nodes() if isinstance(node, Source) for topic in node.topics}


ALL: Final = pipelines(grace_ms=GRACE_MS)
Results = dict[str, list[Result]]


def theirs_of(built: Mapping[str, Pipeline], story: list[Batch]) -> Results:
    """What Kafka Streams makes of a story, pipeline by pipeline."""
    read = {name: topics_of(app_of({name: pipeline}).plan) for name, pipeline in built.items()}
    records = {name: [given for batch in story for given in batch if given.topic in read[name]] for name in built}
    return judge({name: pipeline.judged for name, pipeline in built.items()}, records)


def ours_of(spark: SparkSession, built: Mapping[str, Pipeline], grace_ms: int, story: list[Batch]) -> Results:
    """What we make of it: all pipelines in one app."""
    app = app_of(built, grace_ms)
    read = topics_of(app.plan)
    with app.test(spark) as test:
        for batch in story:
            feed(test, [given for given in batch if given.topic in read])
        return {name: [_result(record, pipeline) for record in test.read(name)] for name, pipeline in built.items()}


def feed(test: AppTest, batch: Batch) -> None:
    """Each topic's records at once, and all of them in one micro-batch."""
    by_topic: dict[str, list[Record]] = {}
    for given in batch:
        by_topic.setdefault(given.topic, []).append(record_of(given))
    for topic, records in by_topic.items():
        test.feed(topic, *records)
    test.run()


def record_of(given: Given) -> Record:
    key = None if given.key is None else given.key.encode()
    value = None if given.value is None else json.dumps(given.value).encode()
    return Record(key, value, _EPOCH + timedelta(milliseconds=given.at_ms))


def _result(record: Record, pipeline: Pipeline) -> Result:
    value = record.json
    rest = None if value is None else {name: part for name, part in value.items() if name not in pipeline.key}
    return Result(
        columns(_key(record.key, pipeline.key)), None if rest is None else columns(rest), ms(record.timestamp)
    )


def _key(key: bytes | None, names: tuple[str, ...]) -> dict[str, Any]:
    if len(names) == 1:
        return {names[0]: None if key is None else key.decode()}
    assert key is not None
    found = json.loads(key)
    return {
        name: ms(datetime.fromisoformat(found[name])) if name.startswith("window_") else found[name] for name in names
    }


def ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


@pytest.fixture(scope="module")
def in_time(spark: SparkSession) -> Callable[[str], tuple[list[Result], list[Result]]]:
    """What both make of a pipeline; those which run together are run when the first of them is asked for."""
    theirs = theirs_of({name: ALL[name] for names in TOGETHER for name in names}, batches())

    @cache
    def together(names: tuple[str, ...]) -> Results:
        return ours_of(spark, {name: ALL[name] for name in names}, GRACE_MS, batches())

    def asked(name: str) -> tuple[list[Result], list[Result]]:
        ours = together(next(names for names in TOGETHER if name in names))
        return ours[name], theirs[name]

    return asked


@pytest.mark.parametrize("name", [name for names in TOGETHER for name in names])
def test_results_are_those_of_kafka_streams(
    name: str, in_time: Callable[[str], tuple[list[Result], list[Result]]]
) -> None:
    ours, theirs = in_time(name)
    pipeline = ALL[name]
    if pipeline.is_stream:
        assert sorted(ours, key=repr) == sorted(_without_hasty(theirs), key=repr)
    elif pipeline.has_other_times:
        assert _values(final_table(ours), pipeline.size) == _values(final_table(theirs), pipeline.size)
    else:
        assert final_table(ours) == final_table(theirs)


def _values(table: dict[Columns, tuple[Columns, int]], size: str | None) -> dict[Columns, Columns]:
    """Without times, and without groups that are empty."""
    return {key: value for key, (value, _) in table.items() if (size, 0) not in value}


def _without_hasty(results: list[Result]) -> list[Result]:
    """Of a left or outer join, without the rows that Kafka Streams gives out alone before their partner has come."""
    pairs = [(result.key, part) for result in results for part in _sides(result) if len(_sides(result)) == 2]
    return [result for result in results if len(_sides(result)) == 2 or (result.key, _sides(result)[0]) not in pairs]


def _sides(result: Result) -> list[Columns]:
    """The columns of the order and of the payment, or those of one of them."""
    value = result.value or ()
    order, payment = (tuple(column for column in value if (column[0] == "paid") is paid) for paid in (False, True))
    return [side for side in (order, payment) if side]


def test_kafka_streams_gives_a_row_alone_and_then_with_its_partner_if_it_comes_after_its_window() -> None:
    """Whatever the grace is; here a row of a left or outer join comes out alone only if no partner can come."""
    left = {"operator": "join-streams", "how": "left", "before_ms": 5_000, "after_ms": 20_000, "grace_ms": GRACE_MS}
    rows = [order("ann", 50, 1), payment("ann", 50, 9)]
    stories = {"in its window": [order("bob", 70, 2), *rows], "after it": [order("bob", 70.001, 2), *rows]}
    found = judge(dict.fromkeys(stories, left), stories)
    assert {name: [_brief(result) for result in results] for name, results in found.items()} == {
        "in its window": ["ann amount=1 paid=9"],
        "after it": ["ann amount=1", "ann amount=1 paid=9"],
    }
    assert [_brief(result) for result in _without_hasty(found["after it"])] == ["ann amount=1 paid=9"]


# What is late depends on micro-batches, and Spark looks at the row alone where Kafka Streams looks at what it meets.
# Here is for each pipeline which rows of the final table, or which results of a join, only one of both has.
LATE: Final[dict[str, tuple[set[str], set[str]]]] = {
    "tumbling-final": ({"behind 300-360 n=1"}, set()),
    "session-final": ({"behind 305-325 n=1", "visits 100-138 n=2"}, {"visits 100-138 n=3"}),
    "join-streams-left": (set(), {"late amount=4", "late amount=16", "visits amount=8"}),
}


@pytest.fixture(scope="module")
def late(spark: SparkSession) -> tuple[Results, Results]:
    built = {name: pipeline for name, pipeline in pipelines(grace_ms=LATE_GRACE_MS).items() if name in LATE}
    return ours_of(spark, built, LATE_GRACE_MS, late_batches()), theirs_of(built, late_batches())


@pytest.mark.parametrize("name", LATE)
def test_of_late_rows_exactly_these_differ(name: str, late: tuple[Results, Results]) -> None:
    ours, theirs = ({_brief(result) for result in results[name]} for results in late)
    if not ALL[name].is_stream:
        ours, theirs = (
            {_brief(Result(key, *row)) for key, row in final_table(results[name]).items()} for results in late
        )
    assert (ours - theirs, theirs - ours) == LATE[name]


def _brief(result: Result) -> str:
    """`late 0-60 n=1`, or of a join `late amount=1 paid=2`."""
    key, value = dict(result.key), dict(result.value or ())
    if "window_start" not in key:
        return " ".join([key["user"], *(f"{name}={value[name]}" for name in ("amount", "paid") if name in value)])
    start, end = ((key[name] - BASE_MS) // 1000 for name in ("window_start", "window_end"))
    return f"{key['user']} {start}-{end} n={value['n']}"


def test_kafka_streams_counts_rows_without_a_value_in_windows_and_nowhere_else() -> None:
    """And so an honest comparison leaves them out before a window; here they are in no group, windows or not."""
    rows = [order("ann", 1, 5), gone("orders", "ann", 2)]
    windows: dict[str, Any] = {"operator": "count-windows", "size_ms": 60_000, "grace_ms": 0}
    cases = {"count": {"operator": "count"}, "windows": windows}
    counts = {name: dict(results[-1].value or ()) for name, results in judge(cases, dict.fromkeys(cases, rows)).items()}
    assert counts == {"count": {"n": 1}, "windows": {"n": 2}}
