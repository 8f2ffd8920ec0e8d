"""Apps over the topics of a real broker: exactly once over restarts, poison pills, plans that changed, cuts."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, CannotRunError, Json, PlanError, col, count, fn, sum_

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

DEADLINE_SECONDS = 300
ORDERS = "id long, user string, amount double"


def produce(broker: headrace.Broker, topic: str, rows: Sequence[dict[str, Any] | bytes]) -> None:
    with headrace.Producer(broker.address) as producer:
        for row in rows:
            if isinstance(row, bytes):
                producer.send(topic, value=row)
            else:
                producer.send(topic, key=row["user"], value=json.dumps(row).encode())


def consumed(broker: headrace.Broker, topic: str) -> list[Any]:
    """All committed values of a topic."""
    table = headrace.arrow.read(topic, broker.address)
    return [value and json.loads(value) for value in table.column("value").to_pylist()]


def orders(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": number, "user": f"u{number % 3}", "amount": float(number)} for number in range(start, stop)]


def test_each_run_goes_on_where_the_last_one_ended_and_writes_everything_once(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    def app() -> App:
        made = App("once", broker.address, state=tmp_path, dead_letters="once.dead", partitions=2)
        stream = made.stream("once-orders", value=Json(ORDERS))
        stream.filter(col.amount >= 5).select("id", who=fn.upper(col.user)).to("once-big")
        users = stream.group_by("user").agg(n=count(), total=sum_(col.amount), name="users")
        users.to("once-users")
        users.to_stream().group_by(many=col.n > 3).agg(updates=count(), name="sizes").to("once-sizes")
        return made

    produce(broker, "once-orders", [*orders(0, 10), b"poison"])
    app().catch_up(spark)
    assert consumed(broker, "once-big") == [{"id": n, "who": f"U{n % 3}"} for n in range(5, 10)]
    produce(broker, "once-orders", orders(10, 12))
    app().catch_up(spark)
    app().catch_up(spark)
    assert [row["id"] for row in consumed(broker, "once-big")] == [*range(5, 12)]
    latest = {row["user"]: (row["n"], row["total"]) for row in consumed(broker, "once-users")}
    assert latest == {"u0": (4, 18.0), "u1": (4, 22.0), "u2": (4, 26.0)}
    sizes = {row["many"]: row["updates"] for row in consumed(broker, "once-sizes")}
    assert sizes[True] + sizes[False] == len(consumed(broker, "once-users"))
    with headrace.Admin(broker.address) as admin:
        (offset,) = admin.list_group_offsets("once.source-1").values()
        assert offset.offset == 13
        topics = {name: headrace.ConfigResource("topic", name) for name in ("once.users", "once-users", "once-big")}
        configs = admin.describe_configs(topics.values())
        policies = {name: configs[topic]["cleanup.policy"].value for name, topic in topics.items()}
        assert policies == {"once.users": "compact", "once-users": "compact", "once-big": "delete"}
        dead = headrace.arrow.read("once.dead", broker.address)
    assert dead.column("value").to_pylist() == [b"poison"]


def test_an_app_runs_until_it_is_stopped(spark: SparkSession, broker: headrace.Broker, tmp_path: Path) -> None:
    app = App("live", broker.address, state=tmp_path, guarantee="at_least_once", partitions=2)
    app.stream("live-orders", value=Json(ORDERS)).filter(col.amount > 1).to("live-out")
    produce(broker, "live-orders", orders(0, 4))
    with app.start(spark) as running:
        wait_until(lambda: _count(broker, "live-out") == 2)
        produce(broker, "live-orders", orders(4, 6))
        wait_until(lambda: _count(broker, "live-out") == 4)
        assert not running.wait(timeout=0)
    assert running.wait(timeout=DEADLINE_SECONDS)
    assert not any(query.isActive for query in running.queries.values())


def _count(broker: headrace.Broker, topic: str) -> int:
    try:
        return len(consumed(broker, topic))
    except headrace.UnknownTopicError:
        return 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {DEADLINE_SECONDS} s"
        time.sleep(0.1)  # the condition is polled, with a deadline


def test_without_dead_letters_a_record_that_cannot_be_decoded_stops_the_app_and_is_named(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = App("strict", broker.address, state=tmp_path, partitions=2)
    app.stream("strict-orders", value=Json(ORDERS)).to("strict-out")
    produce(broker, "strict-orders", [*orders(0, 2), b"poison"])
    with pytest.raises(StreamingQueryException, match=r"offset 2 of strict-orders-0 cannot be decoded.*dead_letters="):
        app.catch_up(spark)
    assert _count(broker, "strict-out") == 0


def test_a_function_that_raises_stops_the_app_with_its_name_and_the_record(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = App("raising", broker.address, state=tmp_path, partitions=2)
    app.stream("raising-orders", value=Json(ORDERS)).filter(lambda row: 1 / row["id"] > 0, name="inverse").to(
        "raising-out"
    )
    produce(broker, "raising-orders", orders(0, 2))
    with pytest.raises(
        StreamingQueryException, match=r"inverse: <lambda>\(\) raised for the record at offset 0 of raising"
    ):
        app.catch_up(spark)


def test_what_cannot_be_run_is_refused_before_anything_happens(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = App("refused", broker.address, state=tmp_path / "state")
    users = app.global_table("refused-users", key="user", value=Json("tier string"))
    known = app.stream("refused-orders", value=Json(ORDERS)).join(users, on="user")
    known.group_by("tier", where=col._topic).agg(n=count(), name="tiers").to("refused-out")
    with pytest.raises(CannotRunError, match="tiers"):
        app.start(spark)
    with pytest.raises(CannotRunError, match="tiers"):
        app.test(spark)
    assert not (tmp_path / "state").exists()


def test_state_behind_a_global_table_sees_it_change_and_a_replay_gives_all_of_it_to_each_who_reads(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    def app() -> App:
        made = App("known", broker.address, state=tmp_path, partitions=2)
        users = made.global_table("known-users", key="user", value=Json("tier string"))
        known = made.stream("known-orders", value=Json(ORDERS)).join(users, on="user", name="known")
        known.group_by("tier").agg(n=count(), total=sum_(col.amount), name="tiers").to("known-tiers")
        known.deduplicate("id", within="1h", name="once").select("id", "tier").to("known-once")
        return made

    def move(**tiers: str) -> None:
        with headrace.Producer(broker.address) as producer:
            for user, tier in tiers.items():
                producer.send("known-users", key=user, value=json.dumps({"tier": tier}).encode())

    move(u0="gold", u1="tin")
    produce(broker, "known-orders", orders(0, 6))
    app().catch_up(spark)
    move(u1="gold", u2="tin")
    produce(broker, "known-orders", [*orders(6, 9), *orders(0, 3)])
    app().catch_up(spark)
    latest = {row["tier"]: (row["n"], row["total"]) for row in consumed(broker, "known-tiers")}
    assert latest == {"gold": (6, 0.0 + 3 + 6 + 7 + 0 + 1), "tin": (4, 1.0 + 4 + 8 + 2)}
    once = headrace.arrow.read("known-once", broker.address)
    rows = zip(once.column("key").to_pylist(), map(json.loads, once.column("value").to_pylist()), strict=True)
    assert sorted((row["id"], row["tier"], key) for key, row in rows) == [
        (0, "gold", b"u0"),
        (1, "tin", b"u1"),
        (2, "tin", b"u2"),
        (3, "gold", b"u0"),
        (4, "tin", b"u1"),
        (6, "gold", b"u0"),
        (7, "gold", b"u1"),
        (8, "tin", b"u2"),
    ]
    replayed = app().replay(spark=spark)
    assert sorted((record.json["tier"], record.json["n"]) for record in replayed["known-tiers"]) == [
        ("gold", 8),
        ("tin", 4),
    ]
    assert len(replayed["known-once"]) == 9


def test_a_plan_that_does_not_fit_the_state_is_refused(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    def app(key: str) -> App:
        made = App("changed", broker.address, state=tmp_path, partitions=2)
        made.stream("changed-orders", value=Json(ORDERS)).group_by(key).agg(n=count(), name="counts").to("changed-out")
        return made

    produce(broker, "changed-orders", orders(0, 3))
    app("user").catch_up(spark)
    with pytest.raises(PlanError, match=r"counts: keys was .*Reset the app"):
        app("id").catch_up(spark)
