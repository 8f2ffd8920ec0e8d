"""Processors of the user's, with a real Spark: state of each kind, times to live, timers in both times, restarts."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, Json, col, count, list_state, map_state, value_state
from headrace.streams.compiler.app_test import AppTest
from tests.support.streams_processors import counted, keep, remind, reminded, visit, visit_over

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

CLICKS = "page string, n long"


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


STATES = {
    "last": value_state("due timestamp, page struct<name string, tags array<string>>, day date"),
    "pages": list_state("page string"),
    "seen": map_state("page string", "n long"),
}


def clicks_app() -> App:
    # With one partition, there is a process less for each operator in Python.
    app = App("clicks", "nowhere:1", grace="0s", dead_letters="dead", partitions=1)
    clicks = app.stream("clicks", key="user", value=Json(CLICKS))
    visits = clicks.process(
        visit,
        "user string, what string, pages array<string>",
        state=STATES,
        timers="event",
        on_timer=visit_over,
        name="visits",
    )
    visits.to("visits")
    visits.filter(lambda row: row["what"] != "a 2" or 1 / 0, name="behind").to("behind")
    visits.filter(col.pages.is_not_null()).group_by("user").agg(visits=count(), name="number").to("number")
    return app


def pings_app() -> App:
    """What goes by the clock, beside something that does not."""
    app = App("pings", "nowhere:1", grace="0s", dead_letters="dead", partitions=1)
    app.stream("others", key="user", value=Json(CLICKS)).to("copies")
    pings = app.stream("pings", key="user", value=Json(CLICKS))
    pings.process(
        remind,
        "user string, what string",
        state={"once": value_state("yes boolean", ttl="2h")},
        timers="processing",
        on_timer=reminded,
        name="reminders",
    ).to("reminders")
    return app


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Iterator[AppTest]:
    with clicks_app().test(spark) as test:
        yield test


def whats(test: AppTest, topic: str) -> list[tuple[str, str]]:
    return [(row.json["user"], row.json["what"]) for row in test.read(topic)]


def test_state_and_timers_in_stream_time(ran: AppTest) -> None:
    ran.feed("clicks", {"page": "b"}, key="ann", at=at(20))
    ran.feed("clicks", {"page": "a"}, {"page": "bad"}, key="ann", at=at(10))
    ran.feed("clicks", {"page": "broken"}, key="bob", at=at(15))
    ran.run()
    assert sorted(whats(ran, "visits")) == [("ann", "a 1"), ("ann", "b 1"), ("bob", "broken 1")]
    ran.feed("clicks", {"page": "a"}, key="ann", at=at(40))
    ran.run()
    assert whats(ran, "visits") == [("ann", "a 2")]
    ran.feed("clicks", {"page": "a"}, key="cid", at=at(200))
    ran.run()
    first, over = ran.read("visits")
    assert first.json["what"] == "a 1"
    assert over.json == {"user": "ann", "what": "over after a on Thursday", "pages": ["a", "b", "a"]}
    assert over.timestamp == datetime(2026, 1, 1, 0, 1, 10, tzinfo=UTC)
    assert over.key == b"ann"


def test_what_a_processor_yields_can_be_grouped(ran: AppTest) -> None:
    assert {row["user"]: row["visits"] for row in ran.table("number").values()} == {"ann": 1}


def test_a_row_and_a_timer_for_which_a_function_raises_are_dead_letters(ran: AppTest) -> None:
    row, behind, timer = sorted(ran.read("dead"), key=lambda record: record.timestamp)
    assert (behind.key, behind.json) == (b"ann", {"user": "ann", "what": "a 2", "pages": None}), "no record, but a row"
    headers = dict(row.headers)
    assert (row.key, row.json["page"]) == (b"ann", "bad")
    assert headers["headrace.error"] == b"ValueError: bad page"
    assert headers["headrace.operator"] == b"visits"
    assert headers["headrace.function"] == b"tests.support.streams_processors.visit"
    assert (headers["headrace.topic"], headers["headrace.offset"]) == (b"clicks", b"2")
    headers = dict(timer.headers)
    assert (timer.key, timer.json) == (b"bob", {"user": "bob", "timer": "2026-01-01T00:00:45+00:00"})
    assert headers["headrace.error"] == b"RuntimeError: broken visit"
    assert headers["headrace.row"] == b"json"
    assert "headrace.topic" not in headers


@pytest.fixture
def by_clock(spark: SparkSession) -> Iterator[AppTest]:
    """For one test: a query that goes by the clock has a micro-batch to run at any time."""
    with pings_app().test(spark) as test:
        yield test


def test_timers_by_the_clock_and_times_to_live(by_clock: AppTest) -> None:
    by_clock.feed("others", {"page": "b"}, key="bob")
    by_clock.run()
    assert [row.json["page"] for row in by_clock.read("copies")] == ["b"], (
        "without a record, nobody waits for what goes by the clock"
    )
    by_clock.feed("pings", {"page": "a"}, key="ann")
    by_clock.run()
    by_clock.feed("pings", {"page": "a"}, key="ann")
    by_clock.run()
    assert whats(by_clock, "reminders") == [("ann", "new"), ("ann", "known")]
    by_clock.move_clock("59m")
    assert whats(by_clock, "reminders") == []
    by_clock.move_clock("2m")
    assert whats(by_clock, "reminders") == [("ann", "timer"), ("ann", "timer")]
    by_clock.feed("pings", {"page": "a"}, key="ann")
    by_clock.run()
    assert whats(by_clock, "reminders") == [("ann", "known")]
    by_clock.move_clock("3h")
    by_clock.feed("pings", {"page": "a"}, key="ann")
    by_clock.run()
    assert whats(by_clock, "reminders") == [("ann", "timer"), ("ann", "new")]


def produce(broker: headrace.Broker, topic: str, *numbers: int) -> None:
    with headrace.Producer(broker.address) as producer:
        for n in numbers:
            producer.send(topic, key="k", value=json.dumps({"n": n}).encode())


def totals(broker: headrace.Broker, topic: str) -> list[int]:
    return [json.loads(value)["n"] for value in headrace.arrow.read(topic, broker.address).column("value").to_pylist()]


@pytest.mark.parametrize("ttl", [None, "1h"])
def test_state_outlives_the_app(spark: SparkSession, broker: headrace.Broker, tmp_path: Path, ttl: str | None) -> None:
    """Also with a time to live, with which there always is a micro-batch more to run."""
    name = f"outlives-{ttl}"

    def app() -> App:
        made = App(name, broker.address, state=tmp_path, partitions=2)
        stream = made.stream(f"{name}-in", key="k", value=Json("n long"))
        stream.process(counted, "k string, n long", state={"n": value_state("n long", ttl=ttl)}, name="sum").to(
            f"{name}-out"
        )
        return made

    produce(broker, f"{name}-in", 1, 2)
    app().catch_up(spark)
    produce(broker, f"{name}-in", 3)
    app().catch_up(spark)
    app().catch_up(spark)
    assert totals(broker, f"{name}-out") == [1, 3, 6]


def test_without_dead_letters_a_processor_that_raises_stops_the_app(spark: SparkSession) -> None:
    app = App("raising", "nowhere:1", partitions=1)
    stream = app.stream("in", key="k", value=Json("n long"))
    stream.process(lambda row, context: 1 / row["n"], "k string", name="broken").to("out")
    with app.test(spark) as test:
        test.feed("in", {"n": 0}, key="a")
        with pytest.raises(
            StreamingQueryException, match=r"broken: <lambda>\(\) raised for the record at offset 0 of in-0"
        ):
            test.run()


def test_what_a_processor_keeps_and_gives_is_of_its_columns_type_or_its_row_is_dead(spark: SparkSession) -> None:
    app = App("fitting", "nowhere:1", dead_letters="dead", partitions=1)
    stream = app.stream("in", key="k", value=Json("n long"))
    state = {"total": value_state("x double")}
    stream.process(keep, "k string, n long, before double", state=state, name="kept").to("out")
    with app.test(spark) as test:
        test.feed("in", {"n": 1}, {"n": 2}, {"n": 3}, key="a")
        test.run()
        test.feed("in", {"n": 4}, key="a")
        test.run()
        # What the rows that failed would have kept is not there, and a whole number is a double where it must be.
        assert [(row.json["n"], row.json["before"]) for row in test.read("out")] == [(1, None), (4, 1.0)]
        errors = [dict(letter.headers)["headrace.error"] or b"" for letter in test.read("dead")]
        assert errors[0].startswith(b"ValueError: state 'total': 'two' does not fit column 'x': ")
        assert errors[1].startswith(
            b"ValueError: what it gave does not fit the schema: 'three' does not fit column 'n'"
        )
