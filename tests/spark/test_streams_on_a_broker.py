"""The operators that no other test runs on a broker, in one app.

Over topics of Apache Kafka some of each kind: without state, with Spark's state, with our own, and through topics of
the app's own. What they compute from the rows is no matter of the broker.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, Json, Stream, col, count, fn, hopping, session, sliding, sum_
from tests.support.both_brokers import ready, unique

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

BASE = datetime(2020, 1, 1, tzinfo=UTC)
RECORDS: tuple[tuple[str, str, int, dict[str, Any] | None], ...] = (  # topic, key, second, value
    ("users", "ann", 0, {"city": "Bonn"}),
    ("users", "bob", 0, {"city": "Oslo"}),
    ("users", "cid", 0, {"city": "Bonn"}),
    ("users", "eve", 0, {"city": "Bonn"}),
    ("users", "eve", 1, None),
    ("points", "ann", 0, {"points": 5}),
    ("points", "bob", 0, {"points": 7}),
    ("points", "cid", 0, {"points": 11}),
    ("points", "eve", 0, {"points": 13}),
    ("cities", "Bonn", 0, {"country": "DE"}),
    ("cities", "Oslo", 0, {"country": "NO"}),
    ("orders", "ann", 0, {"id": 1, "amount": 10, "tags": ["a", "b"]}),
    ("orders", "bob", 10, {"id": 2, "amount": 200, "tags": []}),
    ("orders", "ann", 15, {"id": 3, "amount": 30, "tags": ["a"]}),
    ("orders", "ann", 600, {"id": 4, "amount": 40, "tags": []}),
    ("payments", "ann", 5, {"order": 1, "paid": 10}),
    ("payments", "ann", 16, {"order": 3, "paid": 3}),
    ("payments", "bob", 600, {"order": 2, "paid": 200}),
    ("arrivals", "ann", 0, {"id": 5}),
)
READ = ("users", "points", "cities", "orders", "payments", "arrivals")
ON_EITHER = ("arrived", "halves", "cents", "tags", "of-ann", "of-bob", "rest", "hops", "countries")
ON_OURS = ("slides", "paid", "accounts")


def tags_of(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tag in order["tags"]:
        yield {"tag": tag, "id": order["id"]}


def larger(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return one if one["amount"] > other["amount"] else other


def add_order(so_far: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    return {"open": so_far["open"] + order["amount"]}


def add_payment(so_far: dict[str, Any], payment: dict[str, Any]) -> dict[str, Any]:
    return {"open": so_far["open"] - payment["paid"]}


def shop(name: str, bootstrap: str, state: Path, *, is_ours: bool) -> App:
    """All topics begin with its name."""
    app = App(name, bootstrap, state=state, grace="0s", partitions=1)
    orders = app.stream(f"{name}.orders", key="user", value=Json("id long, amount long, tags array<string>"))
    payments = app.stream(f"{name}.payments", key="user", value=Json("order long, paid long"))
    users = app.table(f"{name}.users", key="user", value=Json("city string"))
    points = app.table(f"{name}.points", key="user", value=Json("points long"))
    cities = app.table(f"{name}.cities", key="city", value=Json("country string"))
    app.stream(f"{name}.arrivals", value=Json("id long")).to(f"{name}.arrived")
    _without_state(orders, name)
    orders.group_by().windowed(hopping("20s", "10s")).agg(n=count(), name="hops").to(f"{name}.hops")
    # Two tables by key, a third by foreign key, and groups of what comes out.
    known = users.join(points).join(cities, on="city")
    known.group_by("country").agg(n=count(), points=sum_(col.points), name="groups").to(f"{name}.countries")
    if is_ours:
        _of_our_own(orders, payments, name)
    return app


def _without_state(orders: Stream, name: str) -> None:
    halves = orders.map(lambda row: {"id": row["id"], "half": row["amount"] // 2}, "id long, half long", key="id")
    halves.to(f"{name}.halves")
    cents = orders.map_values(lambda row: {"cents": row["amount"] * 100}, schema="cents long")
    cents.peek(len).to(f"{name}.cents")
    orders.flat_map(tags_of, "tag string, id long", key="tag").repartition(3).to(f"{name}.tags")
    parts = orders.branch(big=col.amount > 100, small=lambda row: row["amount"] < 20, default="rest")
    parts["big"].merge(parts["small"]).to(fn.concat(f"{name}.of-", col.user))
    parts["rest"].to_table().filter(col.amount < 40).to(f"{name}.rest")


def _of_our_own(orders: Stream, payments: Stream, name: str) -> None:
    orders.group_by().windowed(sliding("15s")).reduce(larger, name="slides").to(f"{name}.slides")
    # Partners within ten seconds, and then sessions of them.
    paid = orders.join(payments.select_key("order").select("paid"), on={"id": "order"}, within="10s")
    visits = paid.group_by("user").windowed(session("20s")).agg(n=count(), paid=sum_(col.paid), name="visits")
    visits.emit("final").to(f"{name}.paid")
    accounts = orders.group_by().cogroup(add_order).cogroup(payments.group_by(), add_payment)
    accounts.aggregate(lambda: {"open": 0}, "open long", name="accounts").to(f"{name}.accounts")


class Written(NamedTuple):
    key: bytes | None
    row: Any
    at: datetime


Topics = dict[str, list[Written]]


@pytest.fixture(scope="module")
def ours(spark: SparkSession, headrace_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Topics:
    """What each topic has got on a broker of ours."""
    return _run(spark, headrace_bootstrap, tmp_path_factory.mktemp("shop"), is_ours=True)


@pytest.fixture(scope="module")
def kafkas(spark: SparkSession, kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Topics:
    """The same on Apache Kafka."""
    return _run(spark, kafka_bootstrap, tmp_path_factory.mktemp("shop"), is_ours=False)


@pytest.fixture(params=["ours", pytest.param("kafkas", marks=pytest.mark.kafka)])
def written(request: pytest.FixtureRequest) -> Topics:
    found: Topics = request.getfixturevalue(request.param)
    return found


def _run(spark: SparkSession, bootstrap: str, state: Path, *, is_ours: bool) -> Topics:
    name = unique("shop")
    results = (*ON_EITHER, *ON_OURS) if is_ours else ON_EITHER
    with headrace.Admin(bootstrap) as admin:
        for topic in (*READ, *results):
            by_arrival = {"message.timestamp.type": "LogAppendTime"} if topic == "arrivals" else {}
            admin.create_topic(f"{name}.{topic}", 1, configs=by_arrival)
    for topic in (*READ, *results):
        ready(bootstrap, f"{name}.{topic}", 1)
    with headrace.Producer(bootstrap) as producer:
        for topic, key, second, value in RECORDS:
            data = None if value is None else json.dumps(value).encode()
            producer.send(f"{name}.{topic}", data, key, timestamp=int(BASE.timestamp() + second) * 1000)
    shop(name, bootstrap, state, is_ours=is_ours).catch_up(spark)
    return {topic: _records(bootstrap, f"{name}.{topic}") for topic in results}


def _records(bootstrap: str, topic: str) -> list[Written]:
    table = headrace.arrow.read(topic, bootstrap, isolation="read_committed")
    columns = (table.column(column).to_pylist() for column in ("key", "value", "timestamp"))
    return [Written(key, value and json.loads(value), at) for key, value, at in zip(*columns, strict=True)]


def test_row_by_row(written: Topics) -> None:
    assert [(key, row["half"]) for key, row, _ in written["halves"]] == [(b"1", 5), (b"2", 100), (b"3", 15), (b"4", 20)]
    cents = [(key, row["cents"]) for key, row, _ in written["cents"]]
    assert cents == [(b"ann", 1000), (b"bob", 20000), (b"ann", 3000), (b"ann", 4000)]
    assert sorted((key, row["id"]) for key, row, _ in written["tags"]) == [(b"a", 1), (b"a", 3), (b"b", 1)]
    assert [row["id"] for _, row, _ in written["of-ann"] + written["of-bob"]] == [1, 2]
    assert [(key, row and row["id"]) for key, row, _ in written["rest"]] == [(b"ann", 3), (b"ann", None)]
    assert written["of-bob"][0].at == BASE + timedelta(seconds=10)


def test_the_time_of_a_row_is_that_of_its_arrival_if_its_topic_says_so(written: Topics) -> None:
    ((_, row, at),) = written["arrived"]
    assert row["id"] == 5
    assert at > BASE + timedelta(days=365), "not the time that its producer has given it"


def test_hopping_windows(written: Topics) -> None:
    assert _windows_of(written["hops"], "n") == {
        *{("ann", -10_000, 1), ("ann", 0, 2), ("ann", 10_000, 1), ("ann", 590_000, 1), ("ann", 600_000, 1)},
        *{("bob", 0, 1), ("bob", 10_000, 1)},
    }


def test_sliding_windows_of_a_function(ours: Topics) -> None:
    assert _windows_of(ours["slides"], "id") == {
        *{("ann", -15_000, 1), ("ann", 0, 3), ("ann", 1, 3), ("ann", 585_000, 4)},
        ("bob", -5_000, 2),
    }


def test_a_join_of_streams_and_sessions_behind_it(ours: Topics) -> None:
    assert [(row["user"], row["n"], row["paid"]) for _, row, _ in ours["paid"]] == [("ann", 2, 13)]


def test_joins_of_tables_by_key_and_by_foreign_key_and_groups_of_them(written: Topics) -> None:
    assert {key: (row["n"], row["points"]) for key, row, _ in written["countries"]} == {b"DE": (2, 16), b"NO": (1, 7)}


def test_a_cogroup(ours: Topics) -> None:
    assert {key: row["open"] for key, row, _ in ours["accounts"]} == {b"ann": 67, b"bob": 0}


def _windows_of(records: list[Written], column: str) -> set[tuple[str, int, int]]:
    """User, begin of the window in milliseconds, and the column: the last of each key, without those that are gone."""
    last = {key: row for key, row, _ in records}
    return {
        (row["user"], (datetime.fromisoformat(row["window_start"]) - BASE) // timedelta(milliseconds=1), row[column])
        for row in last.values()
        if row is not None
    }
