"""Apps that run, are set back, replayed, asked and left for plain Spark: with a real Spark and a real broker."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import headrace
from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.streams import App, Json, PlanError, col, count, sum_, tumbling
from headrace.streams.compiler.replaying_dead import replay_dead, resend
from headrace.streams.ranges import Target
from headrace.streams.resetting import carry_out, plan_reset, undo
from headrace.streams.state_directory import AlreadyRunningError, is_running

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

DEADLINE_SECONDS = 300
ORDERS = "id long, user string, amount double"
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def produce(broker: headrace.Broker, topic: str, rows: Sequence[dict[str, Any] | bytes]) -> None:
    """Row by row a second apart, from the first second of 2026 on by their ids."""
    with headrace.Producer(broker.address) as producer:
        for row in rows:
            if isinstance(row, bytes):
                producer.send(topic, value=row, partition=0)
            else:
                value, at = json.dumps(row).encode(), START_MS + row["id"] * 1000
                producer.send(topic, key=row["user"], value=value, timestamp=at, partition=0)


def consumed(broker: headrace.Broker, topic: str) -> list[Any]:
    table = headrace.arrow.read(topic, broker.address, isolation="read_committed")
    return [value and json.loads(value) for value in table.column("value").to_pylist()]


def orders(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": number, "user": f"u{number % 3}", "amount": float(number)} for number in range(start, stop)]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {DEADLINE_SECONDS} s"
        time.sleep(0.1)  # the condition is polled, with a deadline


def reset(app: App, target: Target) -> None:
    async def run() -> None:
        async with AsyncAdmin(app.bootstrap) as admin:
            await carry_out(admin, await plan_reset(admin, [app.plan], app.state, target))

    background.call(run())


def undone(app: App) -> None:
    async def run() -> None:
        async with AsyncAdmin(app.bootstrap) as admin:
            await undo(admin, app.name, app.state)

    background.call(run())


def cut_app(broker: headrace.Broker, name: str, state: Path) -> App:
    """A copy, a running count, and a count of its changes: three queries with a topic between two of them."""
    app = App(name, broker.address, state=state, partitions=1)
    stream = app.stream(f"{name}-in", value=Json(ORDERS))
    stream.select("id").to(f"{name}-copy")
    users = stream.group_by("user").agg(n=count(), total=sum_(col.amount), name="users")
    users.to(f"{name}-users")
    users.to_stream().group_by("user").agg(changes=count(), name="changes").to(f"{name}-changes")
    return app


def test_after_a_reset_everything_comes_again_from_there_and_an_undo_goes_on_as_if_nothing_had_been(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = cut_app(broker, "again", tmp_path)
    produce(broker, "again-in", orders(0, 6))
    app.catch_up(spark)

    reset(app, Target())
    undone(app)
    produce(broker, "again-in", orders(6, 8))
    app.catch_up(spark)
    assert [row["id"] for row in consumed(broker, "again-copy")] == [*range(8)], "exactly once, in spite of it all"
    assert {row["user"]: row["n"] for row in consumed(broker, "again-users")} == {"u0": 3, "u1": 3, "u2": 2}
    changes = {row["user"]: row["changes"] for row in consumed(broker, "again-changes")}
    assert changes == {"u0": 2, "u1": 2, "u2": 1}

    reset(app, Target())
    app.catch_up(spark)
    assert [row["id"] for row in consumed(broker, "again-copy")] == [*range(8), *range(8)]
    changes = {row["user"]: row["changes"] for row in consumed(broker, "again-changes")}
    assert changes == {"u0": 1, "u1": 1, "u2": 1}, "the topic between the queries was emptied, too"
    with pytest.raises(PlanError, match="cannot be undone any more"):
        undone(app)

    reset(app, Target(offset=6))
    app.catch_up(spark)
    assert [row["id"] for row in consumed(broker, "again-copy")][16:] == [6, 7]
    assert consumed(broker, "again-users")[-2:] == [
        {"user": "u0", "n": 1, "total": 6.0},
        {"user": "u1", "n": 1, "total": 7.0},
    ]
    produce(broker, "again-in", orders(8, 9))
    app.catch_up(spark)
    assert [row["id"] for row in consumed(broker, "again-copy")][16:] == [6, 7, 8]


def test_one_that_runs_tells_its_progress_answers_for_its_tables_and_is_left_alone(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = cut_app(broker, "live", tmp_path)
    produce(broker, "live-in", orders(0, 6))
    with app.start(spark) as running:
        *before, _ = running.queries.values()
        assert all(query.lastProgress is not None for query in before), "each has run when the next one is started"
        table = running.table("users")
        wait_until(lambda: len(table) == 3)
        assert table.get("u1") == {"user": "u1", "n": 2, "total": 5.0}
        produce(broker, "live-in", orders(6, 9))
        wait_until(lambda: (table.get("u1") or {})["n"] == 3)
        wait_until(lambda: [row["user"] for row in running.table("live-changes").range("u1")] == ["u1", "u2"])
        with pytest.raises(AlreadyRunningError, match="runs already"):
            app.start(spark)
        with pytest.raises(AlreadyRunningError, match="runs already"):
            reset(app, Target())
        wait_until(lambda: {query.query: query.rows for query in running.progress().queries}["users"] == 9)
        by_name = {query.query: query for query in running.progress().queries}
        assert by_name.keys() == {"source-1", "users", "changes"}
        assert (by_name["users"].lag, by_name["users"].state_rows) == (0, 3)
        assert by_name["users"].state_bytes > 0
        assert is_running(app.state)
    assert not is_running(app.state)
    written = json.loads((tmp_path / "@progress.json").read_text())
    assert {query["query"]: query["rows"] for query in written["queries"]}["users"] == 9
    with app.query("users") as view:
        assert len(view) == 3, "it need not run to be asked"


def test_a_part_of_the_topics_is_replayed_as_a_batch_and_nothing_is_changed(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = App("past", broker.address, state=tmp_path / "state", partitions=2, dead_letters="past.dead")
    stream = app.stream("past-in", value=Json(ORDERS))
    stream.filter(col.amount >= 1).select("id").to("past-copy")
    users = stream.group_by("user").agg(n=count(), name="users")
    users.to("past-users")
    users.to_stream().group_by("n").agg(m=count(), name="sizes").to("past-sizes")
    windows = stream.group_by("user").windowed(tumbling("10s"))
    windows.agg(n=count(), name="tens").emit("final").to("past-tens")
    stream.deduplicate("user", within="5s", name="rare").select("id").to("past-rare")
    produce(broker, "past-in", [*orders(0, 12), b"poison"])

    def values(found: Any, topic: str) -> list[Any]:
        return sorted((record.json for record in found.get(topic, [])), key=str)

    every = app.replay(spark=spark)
    assert [record.json["id"] for record in every["past-copy"]] == [*range(1, 12)]
    assert values(every, "past-users") == [{"user": f"u{number}", "n": 4} for number in range(3)]
    assert values(every, "past-sizes") == [{"n": 4, "m": 3}]
    assert [(row["user"], row["n"]) for row in values(every, "past-tens") if row["window_start"].endswith("10.000000Z")]
    assert sum(row["n"] for row in values(every, "past-tens")) == 12, "every window is closed by the end"
    assert [row["id"] for row in values(every, "past-rare")] == [0, 1, 2, 6, 7, 8]
    assert [record.value for record in every["past.dead"]] == [b"poison"]

    some = app.replay(2, {("past-in", 0): 5}, spark)
    assert [record.json["id"] for record in some["past-copy"]] == [2, 3, 4]
    since = app.replay(datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC), 12, spark=spark)
    assert [record.json["id"] for record in since["past-copy"]] == [9, 10, 11]
    with headrace.Admin(broker.address) as admin:
        assert [topic.name for topic in admin.list_topics() if topic.name.startswith("past")] == ["past-in"]
        assert not [group.id for group in admin.list_groups() if group.id.startswith("past")]
    assert not (tmp_path / "state").exists()


def test_a_replay_joins_streams_with_tables_that_are_older_than_the_range(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    app = App("joined", broker.address, state=tmp_path / "state", partitions=2)
    users = app.table("joined-users", key="user", value=Json("tier string"))
    stream = app.stream("joined-in", value=Json(ORDERS))
    stream.left_join(users, on="user").select("id", "tier").to("joined-out")
    produce(broker, "joined-in", orders(0, 6))
    with headrace.Producer(broker.address) as producer:
        for second, (user, tier) in enumerate([("u0", "gold"), ("u1", "tin"), ("u1", None)]):
            value = None if tier is None else json.dumps({"tier": tier}).encode()
            producer.send("joined-users", key=user, value=value, timestamp=START_MS + second * 1000)
    found = app.replay(3, spark=spark)
    rows = sorted((record.json["id"], record.json["tier"]) for record in found["joined-out"])
    assert rows == [(3, "gold"), (4, None), (5, None)]


def test_dead_letters_are_run_again_once_and_those_that_still_fail_stay_dead(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    def app(schema: str, *, stateful: bool = False) -> App:
        made = App("dying", broker.address, state=tmp_path, partitions=1, dead_letters="dying.dead")
        stream = made.stream("dying-in", value=Json(schema))
        stream.select("id").to("dying-out")
        if stateful:
            stream.group_by("id").agg(n=count()).to("dying-counts")
        return made

    produce(broker, "dying-in", [*orders(0, 2), b'{"id": "seven"}', b"poison"])
    strict, loose = app("id long, user string"), app("id string, user string")
    strict.catch_up(spark)
    assert [row["id"] for row in consumed(broker, "dying-out")] == [0, 1]
    done = replay_dead(loose.plan, broker.address, master="local[2]", spark=spark)
    assert done == (2, 2, 1)
    assert [row["id"] for row in consumed(broker, "dying-out")] == [0, 1, "seven"]
    dead = headrace.arrow.read("dying.dead", broker.address, isolation="read_committed")
    assert dead.column("value").to_pylist() == [b'{"id": "seven"}', b"poison", b"poison"]
    headers = {header["key"]: header["value"] for header in dead.column("headers").to_pylist()[-1]}
    assert (headers["headrace.topic"], headers["headrace.offset"]) == (b"dying-in", b"3")
    assert len(dead.column("headers").to_pylist()[-1]) == len(headers), (
        "what the first death has said is not said twice"
    )

    assert replay_dead(loose.plan, broker.address, master="local[2]", spark=spark) == (1, 1, 1), "only what is new"
    with pytest.raises(PlanError, match=r"keeps state \(aggregate-1\).*--resend"):
        replay_dead(app(ORDERS, stateful=True).plan, broker.address, master="local[2]", spark=spark)
    assert resend(loose.plan, broker.address) == (1, 1, 0)
    sent = headrace.arrow.read("dying-in", broker.address, isolation="read_committed").to_pylist()[-1]
    assert (sent["value"], sent["headers"]) == (b"poison", None)
    assert resend(loose.plan, broker.address) == (0, 0, 0)


def test_a_stream_leaves_for_plain_spark_and_a_data_frame_comes_back(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    out = App("leaving", broker.address, state=tmp_path / "out", partitions=1)
    produce(broker, "leaving-in", orders(0, 6))
    stream = out.stream("leaving-in", value=Json(ORDERS)).filter(col.amount > 1)
    frame = stream.to_df(spark)
    assert frame.isStreaming
    assert {"id", "user", "amount", "_time", "_offset"} <= set(frame.columns)
    plain = frame.select("id", "user", F.col("_time").alias("at"))

    back = App("coming", broker.address, state=tmp_path / "back", partitions=1)
    rows = back.from_df(plain, key="user", time="at", name="frame")
    assert rows.columns == {"user": "string", "id": "bigint", "at": "timestamp"}
    rows.to("coming-rows")
    rows.group_by().agg(n=count(), name="counts").to("coming-counts")
    back.catch_up(spark)
    produce(broker, "leaving-in", orders(6, 8))
    back.catch_up(spark)
    assert [row["id"] for row in consumed(broker, "coming-rows")] == [*range(2, 8)]
    assert {row["user"]: row["n"] for row in consumed(broker, "coming-counts")} == {"u0": 2, "u1": 2, "u2": 2}
    times = headrace.arrow.read("coming-rows", broker.address).column("timestamp").to_pylist()
    assert times[0] == datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)

    several = stream.group_by("user").agg(n=count(), name="a").to_stream().group_by("n").agg(m=count(), name="b")
    with pytest.raises(PlanError, match=r"b takes several queries of Spark \(a, b\)"):
        several.to_df(spark)
    with pytest.raises(PlanError, match="from_df takes a streaming DataFrame"):
        back.from_df(spark.range(3))
