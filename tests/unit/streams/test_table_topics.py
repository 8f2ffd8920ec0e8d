from datetime import UTC, datetime
from decimal import Decimal

import pytest

from headrace.streams import App, Json, Long, Own, PlanError, String, col, count, sum_, tumbling
from headrace.streams.table_topics import (
    from_text,
    is_changelog,
    key_of,
    refuse_bound,
    row_of,
    table_topic,
    table_topics,
)


def the_app() -> App:
    app = App("sales", "localhost:9092")
    orders = app.stream("orders", value=Json("id long, country string, city string, amount double"))
    users = app.table("users", key=Long("user"), value=Json("tier string, since timestamp, photo binary"))
    users.filter(col.tier == "gold", name="gold").to("gold-users")
    per_city = orders.group_by("country", "city").agg(n=count(), name="cities")
    per_city.to("per-city")
    orders.group_by("id").agg(total=sum_(col.amount), name="totals").to("totals", value=String("total"))
    changes = orders.group_by("country").agg(n=count(), name="inner").to_stream()
    changes.group_by("n").agg(m=count(), name="sizes").filter(col.m > 1, name="many").to("sizes-out")
    orders.group_by("country").windowed(tumbling("1m")).agg(n=count(), name="minutes").to("per-minute")
    orders.filter(col.amount > 1).to("big")
    return app


def test_tables_are_found_where_they_are_written_read_or_kept_between_queries() -> None:
    found = {name: table.topic for name, table in table_topics(the_app().plan).items()}
    assert found == {
        "gold": "gold-users",
        "cities": "per-city",
        "totals": "totals",
        "many": "sizes-out",
        "minutes": "per-minute",
        "inner": "sales.inner",
        "source-2": "users",
    }
    assert table_topic(the_app().plan, "per-city").name == "cities"


def test_a_table_without_windows_is_kept_whole_by_a_compacted_topic_if_its_key_is_that_of_the_records() -> None:
    app = the_app()
    gold = app.table("more-users", key="user", value=Json("user string, tier string"))
    gold.to("as-json", key=Json())
    gold.to("by-itself", key="user")
    gold.to("by-something-else", key="tier")
    gold.to("by-a-function", key=Own("user string", encode=lambda row: row["user"].encode()))
    found = {sink.topic: is_changelog(sink) for sink in app.plan.sinks}
    assert found == {
        **dict.fromkeys(("gold-users", "per-city", "totals", "sizes-out", "as-json", "by-itself"), True),
        **dict.fromkeys(("per-minute", "big", "by-something-else", "by-a-function"), False),
    }


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sizes", r"is in no topic: write it to one with \.to\(topic\)"),
        ("big", "'big' is a stream"),
        ("source-1", "'source-1' is a stream"),
        ("citys", "has no table 'citys'. Did you mean 'cities'?"),
        ("zzz", r"The tables are: .*cities \(topic per-city\)"),
    ],
)
def test_what_is_no_table_is_told_with_what_there_is(name: str, sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        table_topic(the_app().plan, name)


def test_rows_of_a_table_in_the_types_of_python() -> None:
    plan = the_app().plan
    value = b'{"tier":"gold","since":"2026-01-01T00:00:00.000000Z","photo":"AAE="}'
    row = row_of(table_topic(plan, "users"), (-7).to_bytes(8, "big", signed=True), value)
    assert row == {"user": -7, "tier": "gold", "since": datetime(2026, 1, 1, tzinfo=UTC), "photo": b"\x00\x01"}
    row = row_of(table_topic(plan, "cities"), b'{"country":"DE","city":"Ulm"}', b'{"country":"DE","city":"Ulm","n":3}')
    assert row == {"country": "DE", "city": "Ulm", "n": 3}
    row = row_of(table_topic(plan, "totals"), b"12", b"1.5")
    assert row is not None
    assert (row["id"], float(row["total"])) == (12, 1.5)


def test_a_record_that_cannot_be_decoded_is_no_row() -> None:
    table = table_topic(the_app().plan, "cities")
    assert row_of(table, b"{}", b"poison") is None
    assert row_of(table, b"poison", b"{}") is None
    assert row_of(table, b"{}", b"[1]") is None


def test_windows_are_a_part_of_the_key_that_is_asked_for_in_its_own_way() -> None:
    minutes = table_topic(the_app().plan, "minutes")
    assert (minutes.group, minutes.is_windowed) == (("country",), True)
    assert not table_topic(the_app().plan, "cities").is_windowed


def test_keys_whose_bytes_are_known_without_looking_at_records() -> None:
    plan = the_app().plan
    assert key_of(table_topic(plan, "inner"), ("DE",)) is None, "a topic between queries has JSON objects as keys"
    assert key_of(table_topic(plan, "totals"), (12,)) == b"12"
    assert key_of(table_topic(plan, "users"), (-7,)) == (-7).to_bytes(8, "big", signed=True)
    assert key_of(table_topic(plan, "cities"), ("DE", "Ulm")) is None
    assert key_of(table_topic(plan, "minutes"), ("DE",)) is None


def test_a_bound_can_be_compared_with_the_values_of_its_column() -> None:
    columns = "n int, x decimal(9,2), s string, b binary, t boolean, d date, at timestamp, l array<int>"
    app = App("it", "localhost:9092")
    app.table("users", key="n", value=Json(columns)).filter(col.n > 0).to("out")
    table = table_topic(app.plan, "users")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    good = {"n": (1, 1.5), "x": (1, Decimal(1)), "s": ("",), "b": (b"",), "t": (True,), "d": (at.date(),), "at": (at,)}
    for column, bounds in good.items():
        for bound in (*bounds, None):
            refuse_bound(table, column, bound)
    for column, bound in (
        ("n", "1"),
        ("x", "1"),
        ("s", 1),
        ("b", ""),
        ("t", 1),
        ("d", at),
        ("at", at.date()),
        ("at", 1),
    ):
        with pytest.raises(PlanError, match=f"is no bound of {column}: in the table 'source-1' it is "):
            refuse_bound(table, column, bound)
    with pytest.raises(PlanError, match="has no time zone: give a datetime with one"):
        refuse_bound(table, "at", at.replace(tzinfo=None))
    refuse_bound(table, "l", "anything")


def test_values_from_a_command_line() -> None:
    assert from_text("7", "bigint") == 7
    assert from_text("7", "string") == "7"
    assert from_text("7", None) == "7"
    assert from_text("1.5", "double") == 1.5
    assert from_text("true", "boolean") is True
    assert from_text("2026-01-01", "timestamp") == datetime(2026, 1, 1, tzinfo=UTC)
    for text, kind in (("x", "int"), ("x", "double"), ("x", "boolean"), ("x", "timestamp")):
        with pytest.raises(ValueError, match="x"):
            from_text(text, kind)
