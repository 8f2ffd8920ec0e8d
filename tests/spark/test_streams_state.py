"""Operators with state, with a real Spark on the topics of a test: aggregates, windows, late rows, cuts."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.streams import (
    App,
    Json,
    avg,
    col,
    collect,
    count,
    first,
    hopping,
    latest,
    max_,
    min_,
    session,
    sum_,
    tumbling,
)
from headrace.streams.compiler.app_test import AppTest

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def clicks_app() -> App:
    app = App("state", "nowhere:1", grace="10s")
    clicks = app.stream("clicks", value=Json("user string, page string, n long"))
    by_user = clicks.group_by("user")
    running = by_user.agg(
        n=count(),
        pages=count(col.page),
        total=sum_(col.n),
        low=min_(col.n),
        high=max_(col.n),
        mean=avg(col.n),
        all=collect(col.n),
        first=first(col.page),
        last=latest(col.page),
        name="running",
    )
    running.to("running")
    running.filter(col.n >= 3).to("busy")
    running.to_stream().group_by("n").agg(updates=count(), name="sizes").to("sizes")
    by_user.windowed(tumbling("1m")).agg(n=count(), name="minutes").emit("final").to("minutes")
    by_user.windowed(hopping("1m", "30s")).agg(n=count(), name="hops").to("hops")
    by_user.windowed(session("20s")).agg(n=count(), name="visits").emit("final").to("visits")
    clicks.deduplicate("page", within="1m", name="once").to("once")
    finals = by_user.windowed(tumbling("10s")).agg(n=count(), name="tens").emit("final").to_stream()
    finals.group_by("user").windowed(tumbling("1m")).agg(total=sum_(col.n), name="best").emit("final").to("best")
    return app


def click(user: str | None, page: str | None, n: int) -> dict[str, Any]:
    return {"user": user, "page": page, "n": n}


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Iterator[AppTest]:
    """Some rows; one that is late, but within the grace; one that closes all windows; and one that is too late."""
    with clicks_app().test(spark) as test:
        test.feed("clicks", click("ann", "a", 1), at=at(5))
        test.feed("clicks", click("ann", "b", 2), click("bob", "a", 7), at=at(30))
        test.feed("clicks", None, click(None, "c", 1), at=at(31))
        test.run()
        test.feed("clicks", click("ann", None, 3), at=at(65))
        test.feed("clicks", click("ann", "c", 4), at=at(58))
        test.feed("clicks", click("bob", "z", 1), at=at(600))
        test.run()
        test.feed("clicks", click("bob", "late", 1), at=at(20))
        test.run()
        yield test


def windows(test: AppTest, topic: str, column: str = "n") -> list[tuple[str, str, str, int]]:
    """Rows of a windowed table in order: user, minute and second of both ends, value."""
    rows = [record.json for record in test.read(topic)]
    return sorted((row["user"], row["window_start"][14:19], row["window_end"][14:19], row[column]) for row in rows)


def test_running_aggregates_of_each_group_leave_out_rows_without_key_or_value(ran: AppTest) -> None:
    table = ran.table("running")
    assert table.keys() == {b"ann", b"bob"}
    ann = table[b"ann"]
    assert sorted(ann.pop("all")) == [1, 2, 3, 4]
    assert ann == {
        "user": "ann",
        "n": 4,
        "pages": 3,
        "total": 10,
        "low": 1,
        "high": 4,
        "mean": 2.5,
        "first": "a",
        "last": None,
    }


def test_each_micro_batch_updates_the_groups_that_it_touches(ran: AppTest) -> None:
    assert [(record.key, record.json["n"]) for record in ran.read("running") if record.key == b"ann"] == [
        (b"ann", 2),
        (b"ann", 4),
    ]


def test_a_table_behind_an_aggregate_is_filtered_by_deletions(ran: AppTest) -> None:
    assert ran.table("busy").keys() == {b"ann", b"bob"}
    assert [record.json and record.json["n"] for record in ran.read("busy") if record.key == b"ann"] == [None, 4]


def test_an_aggregate_of_a_running_aggregate_goes_through_a_topic(ran: AppTest) -> None:
    updates = [record.json["n"] for record in ran.read("state.running")]
    assert len(updates) == 5
    expected = {n: updates.count(n) for n in set(updates)}
    assert {row["n"]: row["updates"] for row in ran.table("sizes").values()} == expected


def test_final_windows_come_once_when_nothing_can_come_for_them_and_count_what_was_late_within_the_grace(
    ran: AppTest,
) -> None:
    assert windows(ran, "minutes") == [
        ("ann", "00:00", "01:00", 3),
        ("ann", "01:00", "02:00", 1),
        ("bob", "00:00", "01:00", 1),
    ]


def test_hopping_windows_overlap_and_give_changes(ran: AppTest) -> None:
    table = ran.table("hops").values()
    rows = sorted((row["user"], row["window_start"][14:19], row["n"]) for row in table)
    assert rows == [
        ("ann", "00:00", 3),
        ("ann", "00:30", 3),
        ("ann", "01:00", 1),
        ("ann", "59:30", 1),
        ("bob", "00:00", 1),
        ("bob", "00:30", 1),
        ("bob", "09:30", 1),
        ("bob", "10:00", 1),
    ]


def test_sessions_are_rows_with_smaller_gaps_in_whatever_order_they_came(ran: AppTest) -> None:
    assert windows(ran, "visits") == [
        ("ann", "00:05", "00:25", 1),
        ("ann", "00:30", "00:50", 1),
        ("ann", "00:58", "01:25", 2),
        ("bob", "00:30", "00:50", 1),
    ]


def test_of_rows_with_equal_columns_the_first_is_kept(ran: AppTest) -> None:
    assert sorted(str(record.json and record.json["page"]) for record in ran.read("once")) == [
        "None",
        "a",
        "b",
        "c",
        "z",
    ]


def test_final_windows_of_final_windows_run_in_one_query(ran: AppTest) -> None:
    assert windows(ran, "best", "total") == [
        ("ann", "00:00", "01:00", 3),
        ("ann", "01:00", "02:00", 1),
        ("bob", "00:00", "01:00", 1),
    ]


def test_a_deduplication_behind_a_join_remembers_rows_for_as_long_as_it_says(spark: SparkSession) -> None:
    app = App("once", "nowhere:1", grace="0s", partitions=1)
    orders = app.stream("orders", value=Json("id long, user string"))
    paid = orders.join(app.stream("payments", value=Json("id long, cents long")), on="id", within="10s", name="paid")
    paid.deduplicate("user", within="1h", name="once").to("once")
    with app.test(spark) as test:
        for number, second in enumerate((0, 300, 600)):
            test.feed("orders", {"id": number, "user": "ann"}, at=at(second))
            test.feed("payments", {"id": number, "cents": 1}, at=at(second))
            test.run()
        assert [record.json["id"] for record in test.read("once")] == [0]


def test_null_is_equal_to_null_for_a_deduplication_and_tombstones_can_go_past_it(spark: SparkSession) -> None:
    app = App("nulls", "nowhere:1", grace="0s", partitions=1)
    orders = app.stream("orders", value=Json("id long, n long"), key="user")
    orders.deduplicate("id", within="1h", name="by-id").to("by-id")
    orders.deduplicate("user", "id", within="1h", name="by-both").to("by-both")
    parts = orders.branch(known=col.id.is_not_null(), default="others")
    parts["known"].deduplicate("id", within="1h", name="known").merge(parts["others"]).to("past")
    with app.test(spark) as test:
        for key in ("a", "b"):
            test.feed("orders", {"id": 1, "n": 1}, None, key=key, at=at(0))
            test.feed("orders", {"n": 1}, key=key, at=at(1))
        test.run()
        found = {topic: test.read(topic) for topic in ("by-id", "by-both", "past")}
    kinds = {topic: sorted((record.key, record.value is None) for record in made) for topic, made in found.items()}
    assert len(kinds["by-id"]) == 2, "of id 1, and of all that have none"
    assert [key for key, _ in kinds["by-both"]] == [b"a", b"a", b"b", b"b"]
    assert [key for key, is_tombstone in kinds["past"] if is_tombstone] == [b"a", b"b"]
    assert len(kinds["past"]) == 1 + 2 + 2


def test_what_comes_from_an_operator_with_state_merges_with_what_does_not(spark: SparkSession) -> None:
    app = App("merging", "nowhere:1", grace="0s", partitions=1, dead_letters="dead")
    orders = app.stream("orders", value=Json("id long, n long"), key="user")
    first = orders.filter(col.n > 0).deduplicate("id", within="1h", name="once")
    first.merge(orders.filter(col.n <= 0)).map_values(lambda row: {"x": 6 // row["n"]}, schema="x long").to("merged")
    counts = orders.group_by("user").agg(n=count(), name="counts").to_stream()
    counts.merge(orders.select("user", "n")).to("all-counts")
    with app.test(spark) as test:
        test.feed(
            "orders", {"id": 1, "n": 1}, {"id": 1, "n": 2}, {"id": 1, "n": 0}, {"id": 1, "n": -1}, key="a", at=at(0)
        )
        test.run()
        assert sorted(record.json["x"] for record in test.read("merged")) == [-6, 6]
        assert [record.json["n"] for record in test.read("dead")] == [0]
        assert sorted(record.json["n"] for record in test.read("all-counts")) == [-1, 0, 1, 2, 4]


def test_windows_behind_a_deduplication_close_by_the_grace(spark: SparkSession) -> None:
    app = App("closing", "nowhere:1", grace="0s", partitions=1)
    once = app.stream("clicks", value=Json("user string, n long")).deduplicate("n", within="1h", name="once")
    once.group_by("user").windowed(tumbling("1m")).agg(n=count(), name="minutes").emit("final").to("minutes")
    with app.test(spark) as test:
        for number, second in enumerate((0, 1, 90, 180)):
            test.feed("clicks", {"user": "ann", "n": number % 3}, at=at(second))
            test.run()
        assert windows(test, "minutes") == [("ann", "00:00", "01:00", 2)]


def test_a_session_of_somebody_elses_keeps_its_settings_and_the_app_has_its_own(spark: SparkSession) -> None:
    """As a plain session has them, of a program that runs in Berlin, where the clock shows one hour twice."""
    plain = {
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
        ),
    }
    before = {name: spark.conf.get(name) for name in plain}
    app = App("elsewhere", "nowhere:1", partitions=1)
    stream = app.stream("in", value=Json("n long, at timestamp"))
    stream.group_by("at").reduce(lambda one, other: {**one, "n": one["n"] + other["n"]}).to("out")
    try:
        for name, value in plain.items():
            spark.conf.set(name, value)
        with app.test(spark) as test:
            test.feed("in", {"n": 1, "at": "2025-10-26T00:30:00Z"}, {"n": 2, "at": "2025-10-26T01:30:00Z"})
            test.feed("in", {"n": 4, "at": "2025-10-26T01:30:00"})
            test.run()
            assert sorted((row.json["at"][11:16], row.json["n"]) for row in test.read("out")) == [
                ("00:30", 1),
                ("01:30", 6),
            ]
        assert {name: spark.conf.get(name) for name in plain} == plain
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
