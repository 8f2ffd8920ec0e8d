"""Joins with tables, with a real Spark: all of them in one app on topics of a test, and over restarts on a broker."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, Json, col, count, tumbling
from headrace.streams.compiler.app_test import AppTest

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def joins_app() -> App:
    app = App("table-joins", "nowhere:1", grace="0s", partitions=1)  # a process less for each operator in Python
    orders = app.stream("orders", value=Json("id long, user string"))
    users = app.table("users", key="user", value=Json("tier string"))
    orders.join(users, on="user", name="known").to("known")
    orders.left_join(users, on="user", name="every").to("every")
    tiers = orders.join(users, on="user", name="for-tiers").group_by("tier")
    tiers.windowed(tumbling("1m")).agg(n=count(), name="per-tier").emit("final").to("per-tier")

    limits = app.table("limits", key="who", value=Json("most long"))
    noble = users.filter(col.tier != "tin")
    noble.join(limits, name="both").to("both")
    noble.left_join(limits, name="left").to("left")
    noble.outer_join(limits, name="either").to("either")
    counts = orders.group_by("user").agg(n=count(), name="counts")
    users.join(counts, name="busy").select("n").to("busy")

    baskets = app.table("baskets", key=Json("basket int"), value=Json("item string"))
    items = app.table("items", key="item", value=Json("price double"))
    baskets.join(items, on="item", name="priced").to("priced")
    baskets.left_join(items, on="item", name="maybe-priced").to("maybe-priced")
    return app


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Iterator[AppTest]:
    """Everything fed before the first run is one micro-batch of each query."""
    with joins_app().test(spark) as test:
        test.feed("orders", {"id": 1, "user": "ann"}, at=at(5))
        test.feed("orders", {"id": 2, "user": "ann"}, at=at(10))
        test.feed("orders", {"id": 3, "user": "zed"}, {"id": 4, "user": None}, None, at=at(15))
        test.feed("orders", {"id": 5, "user": "ann"}, at=at(30))
        test.feed("users", {"user": "ann", "tier": "gold"}, {"user": "bob", "tier": "tin"}, at=at(10))
        test.feed("users", {"user": "ann", "tier": "lead"}, at=at(20))
        test.feed("limits", {"who": "ann", "most": 5}, {"who": "bob", "most": 6}, {"who": "carl", "most": 7}, at=at(40))
        test.feed("baskets", *({"basket": n, "item": item} for n, item in enumerate(["pen", "ink", None])), at=at(1))
        test.feed("items", {"item": "pen", "price": 1.5}, {"item": "cap", "price": 9.0}, at=at(2))
        test.run()
        test.feed("users", None, key="ann", at=at(50))
        test.feed("users", {"user": "bob", "tier": "gold"}, at=at(50))
        test.feed("items", {"item": "ink", "price": 4.0}, {"item": "pen", "price": 2.0}, at=at(50))
        test.feed("orders", {"id": 6, "user": "ann"}, {"id": 7, "user": "bob"}, at=at(55))
        test.run()
        test.feed("baskets", {"basket": 0, "item": "ink"}, {"basket": 2, "item": "cap"}, at=at(55))
        test.feed("orders", {"id": 8, "user": "bob"}, at=at(600))
        test.run()
        test.feed("items", None, key="ink", at=at(60))
        test.feed("baskets", None, key={"basket": 2}, at=at(60))
        test.run()
        yield test


def rows(test: AppTest, topic: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(record.json[column] for column in columns) for record in test.read(topic))


def table(test: AppTest, topic: str, *columns: str) -> dict[bytes | None, tuple[Any, ...]]:
    return {key: tuple(row[column] for column in columns) for key, row in test.table(topic).items()}


def deleted(test: AppTest, topic: str) -> list[bytes]:
    return sorted(record.key for record in test.read(topic) if record.value is None and record.key is not None)


def test_a_row_of_a_stream_gets_the_tables_row_as_it_is_at_that_time(ran: AppTest) -> None:
    records = sorted(ran.read("known"), key=lambda record: record.json["id"])
    assert [(record.json["id"], record.json["tier"]) for record in records] == [
        (2, "gold"),
        (5, "lead"),
        (7, "gold"),
        (8, "gold"),
    ]
    assert records[0].timestamp == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


def test_a_left_join_with_a_table_gives_every_row_with_a_value(ran: AppTest) -> None:
    assert rows(ran, "every", "id", "tier") == [
        (1, None),
        (2, "gold"),
        (3, None),
        (4, None),
        (5, "lead"),
        (6, None),
        (7, "gold"),
        (8, "gold"),
    ]


def test_final_windows_may_follow_a_join_with_a_table_in_one_query(ran: AppTest) -> None:
    found = rows(ran, "per-tier", "tier", "n")
    assert found == [("gold", 2), ("lead", 1)]


def test_two_tables_are_joined_by_their_keys_and_follow_what_a_filter_deletes(ran: AppTest) -> None:
    assert table(ran, "both", "user", "tier", "who", "most") == {b"bob": ("bob", "gold", "bob", 6)}
    assert table(ran, "left", "user", "tier", "most") == {b"bob": ("bob", "gold", 6)}
    assert table(ran, "either", "user", "tier", "most") == {
        b"ann": ("ann", None, 5),
        b"bob": ("bob", "gold", 6),
        b"carl": ("carl", None, 7),
    }
    assert deleted(ran, "both") == deleted(ran, "left") == [b"ann"]
    assert deleted(ran, "either") == []


def test_a_table_can_be_joined_with_a_running_aggregate(ran: AppTest) -> None:
    assert table(ran, "busy", "user", "n") == {b"bob": ("bob", 2)}
    assert deleted(ran, "busy") == [b"ann"]


def test_a_table_is_joined_by_a_column_that_names_a_key_of_the_other(ran: AppTest) -> None:
    assert table(ran, "priced", "item", "price") == {}
    changes = [
        (record.key, record.json and (record.json["item"], record.json["price"])) for record in ran.read("priced")
    ]
    assert sorted(change for key, change in changes if key == b"0" and change) == [
        ("ink", 4.0),
        ("pen", 1.5),
        ("pen", 2.0),
    ]
    assert sorted(str(key) for key, change in changes if change is None) == ["b'0'", "b'1'", "b'2'"]


def test_a_left_join_by_a_foreign_key_gives_every_row_of_the_left_table(ran: AppTest) -> None:
    assert table(ran, "maybe-priced", "item", "price") == {b"0": ("ink", None), b"1": ("ink", None)}
    assert deleted(ran, "maybe-priced") == [b"2"]


def test_what_a_join_knows_survives_a_restart(spark: SparkSession, broker: headrace.Broker, tmp_path: Path) -> None:
    def app() -> App:
        made = App("kept-joins", broker.address, state=tmp_path, partitions=2)
        orders = made.stream("kept-orders", key="id", value=Json("user string"))
        users = made.table("kept-users", key="user", value=Json("tier string"))
        tiers = made.table("kept-tiers", key="tier", value=Json("discount int"))
        orders.join(users, on="user", name="known").to("kept-known")
        users.join(tiers, on="tier", name="discounts").to("kept-discounts")
        return made

    users = {f"u{number}": {"tier": f"t{number % 3}"} for number in range(50)}
    with headrace.Producer(broker.address) as producer:
        for user, value in users.items():
            producer.send("kept-users", key=user, value=json.dumps(value).encode())
        producer.send("kept-orders", key="early", value=b'{"user": "nobody"}')
        producer.send("kept-tiers", key="t0", value=b'{"discount": 1}')
    app().catch_up(spark)
    assert len(_consumed(broker, "kept-discounts")) == 17
    with headrace.Producer(broker.address) as producer:
        for user in users:
            producer.send("kept-orders", key=f"order-{user}", value=json.dumps({"user": user}).encode())
        producer.send("kept-tiers", key="t1", value=b'{"discount": 2}')
    app().catch_up(spark)
    app().catch_up(spark)
    known = _consumed(broker, "kept-known")
    assert sorted(key for key, _ in known) == sorted(f"order-{user}".encode() for user in users)
    assert all(row["tier"] == users[row["user"]]["tier"] for _, row in known)
    discounts = _consumed(broker, "kept-discounts")
    assert len(discounts) == 17 + 17
    assert {row["tier"]: row["discount"] for _, row in discounts} == {"t0": 1, "t1": 2}


def _consumed(broker: headrace.Broker, topic: str) -> list[tuple[bytes, Any]]:
    read = headrace.arrow.read(topic, broker.address)
    keys, values = read.column("key").to_pylist(), read.column("value").to_pylist()
    return [(key, value and json.loads(value)) for key, value in zip(keys, values, strict=True)]
