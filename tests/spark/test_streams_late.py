"""Records that come too late, with a real Spark: those in time are counted, the others are dead letters, each once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, Json, count, session, tumbling
from headrace.streams.compiler import running
from headrace.streams.compiler.app_test import AppTest
from headrace.streams.feeding import Record

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

BASE_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def header(record: Record, name: str) -> str | None:
    value = dict(record.headers).get(f"headrace.{name}")
    return None if value is None else value.decode()


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Iterator[AppTest]:
    app = App("late", "nowhere:1", grace="0s", dead_letters="dead", late="dead_letters", partitions=1)
    clicks = app.stream("clicks", value=Json("id long, user string"))
    tens = clicks.group_by("user").windowed(tumbling("10s"))
    tens.agg(n=count(), name="final").emit("final").to("final")
    tens.agg(n=count(), name="running").to("running")
    clicks.deduplicate("id", within="5s", name="once").to("once")
    clicks.group_by("user").windowed(session("10s")).agg(n=count(), name="visits").to("visits")
    with app.test(spark) as test:
        test.feed("clicks", {"id": 1, "user": "a"}, at=at(5))
        test.feed("clicks", {"id": 2, "user": "a"}, at=at(35))
        test.run()
        # Late; late but without a key, so in no group; and older than the watermark in a window that is open.
        test.feed("clicks", {"id": 3, "user": "a"}, {"id": 4, "user": None}, at=at(7))
        test.feed("clicks", {"id": 5, "user": "a"}, at=at(31))
        test.feed("clicks", {"id": 7, "user": "a"}, at=at(22))  # late by itself, and near to a session that is open
        test.run()
        test.feed("clicks", {"id": 6, "user": "a"}, at=at(100))
        test.run()
        yield test


def windows(records: list[Record]) -> list[tuple[str, int]]:
    return sorted((record.json["window_start"][14:19], record.json["n"]) for record in records)


def test_what_is_in_time_is_counted_and_what_is_late_is_not(ran: AppTest) -> None:
    assert windows(ran.read("final")) == [("00:00", 1), ("00:30", 2)]
    table = {row["window_start"][14:19]: row["n"] for row in ran.table("running").values()}
    assert table == {"00:00": 1, "00:30": 2, "01:40": 1}
    assert sorted(record.json["id"] for record in ran.read("once")) == [1, 2, 5, 6]


def test_late_records_are_dead_letters_of_each_operator_that_they_are_late_for(ran: AppTest) -> None:
    late = [(header(record, "operator"), record.json["id"]) for record in ran.read("dead")]
    assert sorted(late) == [
        *(("final", number) for number in (3, 7)),
        *(("once", number) for number in (3, 4, 7)),
        *(("running", number) for number in (3, 7)),
        ("visits", 3),
    ]


def test_what_is_near_to_an_open_session_is_not_late_for_it(ran: AppTest) -> None:
    visits = {(row["window_start"][14:19], row["window_end"][14:19], row["n"]) for row in ran.table("visits").values()}
    assert visits == {("00:05", "00:15", 1), ("00:22", "00:45", 3), ("01:40", "01:50", 1)}


def send(broker: headrace.Broker, topic: str, *rows: tuple[int, int]) -> None:
    with headrace.Producer(broker.address) as producer:
        for number, second in rows:
            value: dict[str, Any] = {"id": number, "user": "a"}
            producer.send(topic, key="k", value=json.dumps(value).encode(), timestamp=BASE_MS + second * 1_000)


def test_what_is_late_stays_late_over_restarts_and_is_counted(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    def app() -> App:
        made = App(
            "late-again",
            broker.address,
            state=tmp_path,
            partitions=2,
            grace="0s",
            dead_letters="late-again.dead",
            late="dead_letters",
        )
        clicks = made.stream("late-again-in", value=Json("id long, user string"))
        tens = clicks.group_by("user").windowed(tumbling("10s")).agg(n=count(), name="tens")
        tens.emit("final").to("late-again-out")
        return made

    send(broker, "late-again-in", (1, 5), (2, 35))
    app().catch_up(spark)
    send(broker, "late-again-in", (3, 6), (4, 36), (5, 100))
    progress = running.catch_up(app().deployment(), spark)
    app().catch_up(spark)
    out = headrace.arrow.read("late-again-out", broker.address).column("value").to_pylist()
    assert [json.loads(value)["n"] for value in out] == [1, 2]
    dead = headrace.arrow.read("late-again.dead", broker.address).column("value").to_pylist()
    assert [json.loads(value)["id"] for value in dead] == [3]
    assert sum(query.late for query in progress.queries) == 1


def test_windows_of_our_own_count_the_rows_that_they_drop(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = App("late-own", broker.address, state=tmp_path, partitions=1, grace="0s")
    clicks = app.stream("late-own-in", value=Json("id long, user string"))
    clicks.group_by("user").windowed(session("10s")).agg(n=count(), name="visits").to("late-own-out")
    send(broker, "late-own-in", (1, 5), (2, 35))
    app.catch_up(spark)
    send(broker, "late-own-in", (3, 6), (4, 36), (5, 7))
    progress = running.catch_up(app.deployment(), spark)
    assert [(query.query, query.late) for query in progress.queries] == [("visits", 2)]
