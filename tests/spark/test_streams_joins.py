"""Joins of streams, with a real Spark on the topics of a test."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.streams import App, Json, col, count, sum_, tumbling
from headrace.streams.compiler.app_test import AppTest

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def joins_app() -> App:
    app = App("joins", "nowhere:1", grace="0s", partitions=1)  # half of the state for each join
    orders = app.stream("orders", value=Json("id long, item string"))
    payments = app.stream("payments", value=Json("id long, paid double"))
    renamed = payments.select(order=col.id, paid=col.paid)
    orders.join(payments, on="id", within="10s", name="inner").to("inner")
    orders.left_join(payments, on="id", within=("0s", "10s"), name="left").to("left")
    orders.outer_join(renamed, on={"id": "order"}, within="10s", name="outer").to("outer")
    joined = orders.join(payments, on="id", within="10s", name="for-totals")
    totals = joined.group_by("item").windowed(tumbling("1m")).agg(n=count(), paid=sum_(col.paid), name="totals")
    totals.emit("final").to("totals")
    return app


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Iterator[AppTest]:
    with joins_app().test(spark) as test:
        test.feed("orders", {"id": 1, "item": "a"}, {"id": 2, "item": "a"}, {"id": 3, "item": "b"}, None, at=at(20))
        test.feed("payments", {"id": 1, "paid": 5.0}, at=at(15))
        test.feed("payments", {"id": 2, "paid": 7.0}, at=at(30))
        test.run()
        test.feed("payments", {"id": 3, "paid": 9.0}, at=at(31))
        test.run()
        test.feed("orders", {"id": 90, "item": "z"}, at=at(600))
        test.feed("payments", {"id": 91, "paid": 0.0}, at=at(600))
        test.run()
        yield test


def rows(test: AppTest, topic: str, *columns: str) -> list[tuple[Any, ...]]:
    made = (record.json for record in test.read(topic))
    return sorted((tuple(row[column] for column in columns) for row in made), key=str)


def test_rows_with_equal_columns_within_the_time_are_joined_and_have_the_later_time(ran: AppTest) -> None:
    records = sorted(ran.read("inner"), key=lambda record: record.json["id"])
    assert [record.json for record in records] == [
        {"id": 1, "item": "a", "paid": 5.0},
        {"id": 2, "item": "a", "paid": 7.0},
    ]
    assert [record.timestamp for record in records] == [
        datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC),
        datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC),
    ]


def test_a_left_join_gives_rows_without_a_partner_when_their_time_is_over(ran: AppTest) -> None:
    assert rows(ran, "left", "id", "paid") == [(1, None), (2, 7.0), (3, None)]


def test_an_outer_join_gives_rows_of_both_sides(ran: AppTest) -> None:
    assert rows(ran, "outer", "id", "item", "order", "paid") == [
        (1, "a", 1, 5.0),
        (2, "a", 2, 7.0),
        (3, "b", None, None),
        (None, None, 3, 9.0),
    ]


def test_final_windows_may_follow_a_join_in_one_query(ran: AppTest) -> None:
    assert rows(ran, "totals", "item", "n", "paid") == [("a", 2, 12.0)]
