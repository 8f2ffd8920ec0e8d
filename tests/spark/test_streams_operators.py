"""Operators that keep no state, with a real Spark on the topics of a test. The pipeline is run once for all."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from headrace.streams import App, Bytes, Json, Long, Own, String, col, fn, vectorized, when
from headrace.streams.compiler.app_test import AppTest

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.slow,
]  # the first queries of a session take a minute on two busy cores

AT = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


def decode_pair(raw: bytes) -> dict[str, Any]:
    left, right = raw.split(b":")
    return {"left": left.decode(), "right": int(right)}


def encode_pair(row: dict[str, Any]) -> bytes:
    return f"{row['right']}:{row['left']}".encode()


def orders_app() -> App:
    app = App("operators", "nowhere:1", dead_letters="dead")
    orders = app.stream("orders", value=Json("id long, country string, amount double, tags array<string>"), key="user")
    orders.to("copy")
    orders.filter((col.amount > 100) & ~col.country.isin("IT", "ES")).to("filtered")
    odd = when(col.id % 2 == 1, "odd").otherwise("even")
    size = (col.amount / 0).cast("string")
    selected = orders.select(
        "id", odd=odd, tag=col.tags[0], upper=fn.upper(col.country), nothing=size, topic=col._topic
    )
    selected.filter(col.odd == "odd").to("selected")
    orders.filter(lambda row: row["tags"] is not None and "x" in row["tags"]).to("by-function")
    orders.map_values(lambda row: {"twice": row["country"] * 2}, schema="twice string").to("mapped-values")
    orders.map(lambda row: {"k": row["id"], "v": row["amount"]}, "k long, v double", key="k").to("mapped")
    orders.flat_map(_each_tag, "tag string, id long", key="tag").to("tags", value=String("id"))
    orders.select_key("country", "id").to("two-keys", value=Json("amount double"))
    orders.select_key(n=col.id).to("long-key", key=Long("n"), value=Bytes("country"))
    parts = orders.branch(german=col.country == "DE", big=lambda row: row["amount"] > 100, default="rest")
    parts["german"].merge(parts["rest"]).to(fn.concat("to-", fn.lower(col.country)))
    parts["big"].repartition(3).to("big")
    rates = app.global_table("rates", key="country", value=Json("rate double"))
    orders.join(rates, on="country").select("id", value=col.amount * col.rate).to("rated")
    orders.left_join(rates, on="country").select("id", "rate").to("maybe-rated")
    users = app.table("users", key="name", value=Json("name string, age int"))
    users.filter(col.age >= 18).select(years=col.age).to("adults")
    users.check(col.age >= 18, "too young", name="adult").to("checked-users")
    users.map_values(lambda row: {"twice": 2 * row["age"]}, schema="twice long").to("twice-users")
    thrice = vectorized(lambda rows: {"thrice": pc.multiply(3, rows["age"]), "together": [len(rows)] * len(rows)})
    users.map_values(thrice, schema="thrice long, together long").to("thrice-users")
    users.filter(vectorized(lambda rows: pc.greater_equal(rows["age"], 18))).to("grown-users")
    users.to_stream().to("user-changes", value=Json("name string, age int"))
    pairs = app.stream("pairs", value=Own("left string, right long", decode_pair, encode_pair), time="left")
    pairs.to("turned", value=Own("left string, right long", decode_pair, encode_pair))
    app.stream("loose", value=Own("n long, x double", json.loads)).to("loose-copy")
    timed = app.stream("timed", value=Json("n long, at timestamp, log array<struct<on:date>>"), time="at")
    timed.map_values(lambda row: {"n": row["n"], "year": row["at"].year}, schema="n long, year long").to("years")
    return app


def _each_tag(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tag in row["tags"] or ():
        yield {"tag": tag, "id": row["id"]}


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Iterator[AppTest]:
    with orders_app().test(spark) as test:
        test.feed(
            "rates", {"country": "DE", "rate": 2.0}, {"country": "DE", "rate": 3.0}, {"country": "FR", "rate": 1.0}
        )
        test.feed("rates", None, key="FR")
        test.feed("orders", {"id": 1, "country": "DE", "amount": 200.0, "tags": ["x", "y"]}, key="a", at=AT)
        test.feed("orders", {"id": 2, "country": "FR", "amount": 300.0, "tags": []}, key="b", at=AT)
        test.feed("orders", {"id": 3, "country": "IT", "amount": 50.0}, key="a", at=AT)
        test.feed("orders", b"{", b'{"id": "one"}', b"", b"\xff", key="bad")
        test.feed("users", {"name": "ann", "age": 30}, {"name": "bob", "age": 10}, {"name": "ann", "age": 17}, at=AT)
        test.feed("users", None, key="bob", at=AT)
        test.feed("users", {"age": 5})
        test.feed("pairs", b"2026-01-01:1", b"none", b"later:2")
        test.feed("loose", b'{"n": 1, "x": 2}', b'{"n": "one", "x": 2}')
        test.feed("timed", {"n": 1, "at": 1_700_000_000}, {"n": 2, "at": 1_700_000_000_000})
        test.feed("timed", {"n": 3, "at": "9999-12-31T23:59:59.999999Z", "log": [{"on": "9999-12-31"}, None]})
        test.feed("timed", {"n": 4, "at": "2026-01-01T00:00:00Z", "log": [{"on": "+10000-01-01"}]})
        test.run()
        yield test


def values(test: AppTest, topic: str) -> list[Any]:
    return [record.json for record in test.read(topic)]


def test_a_stream_is_written_with_its_keys_times_and_all_columns(ran: AppTest) -> None:
    first, second, third = ran.read("copy")
    assert first.key == b"a"
    assert first.timestamp == AT
    assert first.json == {"user": "a", "id": 1, "country": "DE", "amount": 200.0, "tags": ["x", "y"]}
    assert second.json["tags"] == []
    assert third.json["tags"] is None


def test_filter_by_an_expression(ran: AppTest) -> None:
    assert [row["id"] for row in values(ran, "filtered")] == [1, 2]


def test_select_computes_and_what_cannot_be_computed_is_null(ran: AppTest) -> None:
    assert values(ran, "selected") == [
        {"user": "a", "id": 1, "odd": "odd", "tag": "x", "upper": "DE", "nothing": None, "topic": "orders"},
        {"user": "a", "id": 3, "odd": "odd", "tag": None, "upper": "IT", "nothing": None, "topic": "orders"},
    ]


def test_filter_by_a_function(ran: AppTest) -> None:
    assert [row["id"] for row in values(ran, "by-function")] == [1]


def test_map_values_keeps_the_key(ran: AppTest) -> None:
    assert [(record.key, record.json) for record in ran.read("mapped-values")] == [
        (b"a", {"user": "a", "twice": "DEDE"}),
        (b"b", {"user": "b", "twice": "FRFR"}),
        (b"a", {"user": "a", "twice": "ITIT"}),
    ]


def test_map_makes_another_key(ran: AppTest) -> None:
    assert [(record.key, record.json["v"]) for record in ran.read("mapped")] == [
        (b"1", 200.0),
        (b"2", 300.0),
        (b"3", 50.0),
    ]


def test_flat_map_makes_any_number_of_rows_and_a_string_serde_writes_text(ran: AppTest) -> None:
    assert [(record.key, record.text) for record in ran.read("tags")] == [(b"x", "1"), (b"y", "1")]


def test_a_key_of_two_columns_is_json_and_a_value_has_the_columns_of_its_serde(ran: AppTest) -> None:
    record = ran.read("two-keys")[0]
    assert record.key == b'{"country":"DE","id":1}'
    assert record.json == {"amount": 200.0}


def test_long_and_bytes_serdes_write(ran: AppTest) -> None:
    record = ran.read("long-key")[1]
    assert record.key == b"\0\0\0\0\0\0\0\x02"
    assert record.value == b"FR"


def test_branch_merge_and_a_topic_for_each_row(ran: AppTest) -> None:
    assert [row["id"] for row in values(ran, "to-de")] == [1]
    assert [row["id"] for row in values(ran, "to-it")] == [3]
    assert values(ran, "to-fr") == []
    assert [row["id"] for row in values(ran, "big")] == [2]


def test_a_global_table_has_the_last_value_of_each_key_without_tombstones(ran: AppTest) -> None:
    assert values(ran, "rated") == [{"user": "a", "id": 1, "value": 600.0}]
    assert [(row["id"], row["rate"]) for row in values(ran, "maybe-rated")] == [(1, 3.0), (2, None), (3, None)]


def test_a_table_is_filtered_by_deletions(ran: AppTest) -> None:
    assert [(record.key, record.json) for record in ran.read("adults")] == [
        (b"ann", {"name": "ann", "years": 30}),
        (b"bob", None),
        (b"ann", None),
        (b"bob", None),
    ]


def test_a_function_of_the_rows_of_a_table_is_not_asked_about_deletions(ran: AppTest) -> None:
    assert [(record.key, record.json and record.json["twice"]) for record in ran.read("twice-users")] == [
        (b"ann", 60),
        (b"bob", 20),
        (b"ann", 34),
        (b"bob", None),
    ]


def test_a_vectorized_function_gets_all_rows_at_once_and_no_deletions(ran: AppTest) -> None:
    assert [(record.key, record.json) for record in ran.read("thrice-users")] == [
        (b"ann", {"name": "ann", "thrice": 90, "together": 3}),
        (b"bob", {"name": "bob", "thrice": 30, "together": 3}),
        (b"ann", {"name": "ann", "thrice": 51, "together": 3}),
        (b"bob", None),
    ]
    assert [(record.key, record.json) for record in ran.read("grown-users")] == [
        (b"ann", {"name": "ann", "age": 30}),
        (b"bob", None),
        (b"ann", None),
        (b"bob", None),
    ]


def test_a_change_of_a_table_that_is_refused_leaves_the_row_as_it_was_and_deletions_pass(ran: AppTest) -> None:
    assert [(record.key, record.json) for record in ran.read("checked-users")] == [
        (b"ann", {"name": "ann", "age": 30}),
        (b"bob", None),
    ]


def test_the_changes_of_a_table_are_a_stream_with_tombstones(ran: AppTest) -> None:
    assert [(record.key, record.json and record.json["age"]) for record in ran.read("user-changes")] == [
        (b"ann", 30),
        (b"bob", 10),
        (b"ann", 17),
        (b"bob", None),
    ]


def test_serdes_of_ones_own_read_and_write(ran: AppTest) -> None:
    (record,) = ran.read("turned")
    assert record.value == b"1:2026-01-01"
    assert record.timestamp == datetime(2026, 1, 1, tzinfo=UTC)


def test_what_a_serde_of_ones_own_gives_is_of_its_columns_type_or_its_record_is_dead(ran: AppTest) -> None:
    assert values(ran, "loose-copy") == [{"n": 1, "x": 2.0}]
    (error,) = errors_of(ran, "loose")
    assert error.startswith("the value: what it gave does not fit the schema: ")


def test_a_time_that_python_has_not_is_the_fault_of_its_record(ran: AppTest) -> None:
    assert values(ran, "years") == [{"n": 1, "year": 2023}, {"n": 3, "year": 9999}]
    assert errors_of(ran, "timed") == [
        "the column at is beyond the years 1 to 9999",
        "the column log is beyond the years 1 to 9999",
    ]


def errors_of(test: AppTest, topic: str) -> list[str]:
    """What the dead letters of a topic say."""
    every = [dict(record.headers) for record in test._topics.records("dead")]
    return [(each["headrace.error"] or b"").decode() for each in every if each["headrace.topic"] == topic.encode()]


def test_what_cannot_be_decoded_goes_to_the_dead_letters_as_it_was(ran: AppTest) -> None:
    dead = ran.read("dead")
    orders = [record for record in dead if dict(record.headers)["headrace.topic"] == b"orders"]
    assert [record.value for record in orders] == [b"{", b'{"id": "one"}', b"", b"\xff"]
    assert {record.key for record in orders} == {b"bad"}
    headers = dict(orders[0].headers)
    assert b"not JSON that fits" in (headers.pop("headrace.error") or b"")
    assert headers.pop("headrace.failed-at")
    assert headers == {
        "headrace.app": b"operators",
        "headrace.operator": b"source-1",
        "headrace.topic": b"orders",
        "headrace.partition": b"0",
        "headrace.offset": b"3",
        "headrace.timestamp": b"2000-01-01T00:00:00.000000Z",
    }
    refused = [record for record in dead if dict(record.headers)["headrace.operator"] == b"adult"]
    assert [(record.json["name"], dict(record.headers)["headrace.error"]) for record in refused] == [
        ("bob", b"too young"),
        ("ann", b"too young"),
    ]
    errors = {record.value: dict(record.headers)["headrace.error"] for record in dead}
    assert b"ValueError: not enough values" in (errors[b"none"] or b"")
    assert errors[b"later:2"] == b"its time, left, is NULL"
    assert errors[b'{"age": 5}'] == b"it has no key, and in a table nothing can be without"
