"""Operators with state of our own over groups, with a real Spark on the topics of a test: functions of the user's, all
windows, sessions with changes, groups of a table; and their state after a restart."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.streams import (
    App,
    Json,
    String,
    avg,
    col,
    collect,
    count,
    hopping,
    latest,
    session,
    sliding,
    sum_,
    tumbling,
)
from headrace.streams.compiler.app_test import AppTest
from headrace.streams.compiler.directory_topics import DirectoryTopics
from headrace.streams.compiler.folds import folded
from headrace.streams.compiler.running import compiled_queries, own_session, started
from headrace.streams.feeding import Record
from headrace.streams.plan import Grouping
from headrace.streams.queries import cut
from headrace.streams.rewrites import rewrite
from tests.support.streams_fold_functions import Row, add, add_bought, both, larger, nothing

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

_FOLDED = "n long, pages array<string>"


def folds_app() -> App:
    app = App("folds", "nowhere:1", grace="10s", partitions=1)  # a process less for each operator in Python
    clicks = app.stream("clicks", value=Json("user string, page string, n long"))
    bought = app.stream("bought", value=Json("user string, what string"))
    by_user = clicks.group_by("user")
    by_user.reduce(larger, name="largest").to("largest")
    by_user.windowed(tumbling("1m")).aggregate(nothing, add, _FOLDED, name="minutes").emit("final").to("minutes")
    by_user.windowed(hopping("1m", "30s")).reduce(larger, name="hops").to("hops")
    by_user.windowed(sliding("20s")).agg(n=count(), total=sum_(col.n), last=latest(col.page), name="near").to("near")
    by_user.windowed(session("20s")).agg(n=count(), pages=collect(col.page), name="visits").to("visits")
    sessions = by_user.windowed(session("20s"))
    sessions.aggregate(nothing, add, _FOLDED, merge=both, name="trips").emit("final").to("trips")
    joint = by_user.cogroup(add).cogroup(bought.group_by("user"), add_bought)
    joint.aggregate(nothing, _FOLDED, name="joint").to("joint")
    users = app.table("users", key=String("user"), value=Json("tier string, points long"))
    users.group_by("tier").agg(n=count(), points=sum_(col.points), mean=avg(col.points), name="tiers").to("tiers")
    return app


def click(user: str | None, page: str | None, n: int) -> Row:
    return {"user": user, "page": page, "n": n}


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def feed_first(test: AppTest) -> None:
    test.feed("clicks", click("ann", "a", 1), at=at(5))
    test.feed("clicks", click("ann", "b", 2), click("bob", "a", 7), at=at(30))
    test.feed("clicks", None, click(None, "c", 1), at=at(31))
    test.feed("bought", {"user": "ann", "what": "tea"}, at=at(12))
    test.feed("users", {"user": "ann", "tier": "gold", "points": 3}, at=at(1))
    test.feed("users", {"user": "bob", "tier": "gold", "points": 4}, at=at(2))
    test.run()


def feed_second(test: AppTest) -> None:
    """A row between two sessions, one that closes all windows, and one that is too late; a user changes the tier."""
    test.feed("clicks", click("ann", "c", 4), at=at(18))
    test.feed("clicks", click("bob", "z", 1), at=at(600))
    test.feed("users", {"user": "ann", "tier": "blue", "points": 5}, at=at(40))
    test.feed("users", None, key="bob", at=at(41))
    test.run()
    test.feed("clicks", click("bob", "late", 100), at=at(20))
    test.run()


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Iterator[AppTest]:
    with folds_app().test(spark) as test:
        feed_first(test)
        feed_second(test)
        yield test


def rows(test: AppTest, topic: str) -> list[Row]:
    return list(test.table(topic).values())


def by_window(test: AppTest, topic: str) -> dict[tuple[str, str, str], Row]:
    found = {}
    for row in rows(test, topic):
        key = (row.pop("user"), row.pop("window_start")[14:19], row.pop("window_end")[14:19])
        found[key] = row
    return found


def test_reduce_keeps_what_its_function_gives(ran: AppTest) -> None:
    assert {row["user"]: (row["page"], row["n"]) for row in rows(ran, "largest")} == {
        "ann": ("c", 4),
        "bob": ("late", 100),
    }


def test_a_fold_over_windows_is_given_once_when_it_is_over_and_takes_no_late_row(ran: AppTest) -> None:
    assert len(ran.read("minutes")) == 2
    assert by_window(ran, "minutes") == {
        ("ann", "00:00", "01:00"): {"n": 7, "pages": ["a", "b", "c"]},
        ("bob", "00:00", "01:00"): {"n": 7, "pages": ["a"]},
    }


def test_each_hopping_window_has_its_own_reduce(ran: AppTest) -> None:
    assert {key: row["n"] for key, row in by_window(ran, "hops").items()} == {
        ("ann", "59:30", "00:30"): 4,
        ("ann", "00:00", "01:00"): 4,
        ("ann", "00:30", "01:30"): 2,
        ("bob", "00:00", "01:00"): 7,
        ("bob", "00:30", "01:30"): 7,
        ("bob", "09:30", "10:30"): 1,
        ("bob", "10:00", "11:00"): 1,
    }


def test_sliding_windows_are_those_of_kafka_streams(ran: AppTest) -> None:
    """The row at 18 comes when the watermark is at 20: its left window is over, but others that have it are not."""
    near = by_window(ran, "near")
    ann = {key[1:]: (row["n"], row["total"], row["last"]) for key, row in near.items() if key[0] == "ann"}
    assert ann == {
        ("59:45", "00:05"): (1, 1, "a"),
        ("00:05", "00:25"): (1, 4, "c"),
        ("00:10", "00:30"): (2, 6, "b"),
        ("00:18", "00:38"): (1, 2, "b"),
    }


def test_sessions_that_grow_or_merge_delete_the_old_ones(ran: AppTest) -> None:
    assert by_window(ran, "visits") == {
        ("ann", "00:05", "00:50"): {"n": 3, "pages": ["a", "b", "c"]},
        ("bob", "00:30", "00:50"): {"n": 1, "pages": ["a"]},
        ("bob", "10:00", "10:20"): {"n": 1, "pages": ["z"]},
    }
    deleted = [record.key for record in ran.read("visits") if record.value is None]
    assert len(deleted) == 2, "the two sessions of ann that became one"


def test_final_sessions_of_functions_are_given_once(ran: AppTest) -> None:
    assert by_window(ran, "trips") == {
        ("ann", "00:05", "00:50"): {"n": 7, "pages": ["a", "b", "c"]},
        ("bob", "00:30", "00:50"): {"n": 7, "pages": ["a"]},
    }
    assert len(ran.read("trips")) == 2


def test_a_cogroup_folds_several_streams_into_one_table(ran: AppTest) -> None:
    found = {row["user"]: row for row in rows(ran, "joint")}
    assert found["ann"] == {"user": "ann", "n": 7, "pages": ["a", "TEA", "b", "c"]}
    assert found["bob"]["n"] == 108


def test_groups_of_a_table_lose_rows_that_move_and_stay_when_they_are_empty(ran: AppTest) -> None:
    assert {row["tier"]: (row["n"], row["points"], row["mean"]) for row in rows(ran, "tiers")} == {
        "gold": (0, 0, None),
        "blue": (1, 5, 5.0),
    }


def test_state_survives_a_restart_with_the_same_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """The second run is another one for the workers too: what they remember of the first is not asked for."""
    app = App("again", "nowhere:1", grace="10s")
    clicks = app.stream("clicks", value=Json("user string, page string, n long"))
    clicks.group_by("user").windowed(tumbling("1m")).aggregate(nothing, add, _FOLDED, name="minutes").emit("final").to(
        "minutes"
    )
    topics = DirectoryTopics(str(tmp_path / "topics"))

    def run(*rows: tuple[Row, int]) -> list[Any]:
        records = [Record(None, json.dumps(row).encode(), datetime.fromisoformat(at(second))) for row, second in rows]
        topics.append("clicks", records)
        plan = replace(app.plan, partitions=2)
        own = own_session(spark, 2)
        for compiled in compiled_queries(plan, cut(rewrite(plan)), own, topics):
            query = started(compiled, str(tmp_path / "state"), {"availableNow": True})
            assert query.awaitTermination(600)
        return [record.json for record in topics.records("minutes")]

    assert run((click("ann", "a", 1), 5), (click("bob", "x", 1), 6)) == []
    assert run((click("ann", "b", 2), 30)) == []
    made = run((click("ann", "c", 4), 300))
    assert {(row["user"], row["n"], *row["pages"]) for row in made} == {("ann", 3, "a", "b"), ("bob", 1, "x")}


def test_the_same_pipeline_over_a_batch_gives_every_window(spark: SparkSession) -> None:
    """As a replay runs it: all rows at once, and then the end of time."""
    rows = "SELECT 'ann' AS user, 'a' AS page, 1L AS n, timestamp_millis(5000) AS _time, false AS _deleted"
    df = spark.sql(f"{rows} UNION ALL SELECT 'ann', 'b', 2L, timestamp_millis(65000), false")
    app = App("batch", "nowhere:1")
    clicks = app.stream("clicks", value=Json("user string, page string, n long"))
    clicks.group_by("user").windowed(tumbling("1m")).aggregate(nothing, add, _FOLDED, name="minutes").emit("final").to(
        "x"
    )
    node = app.plan.node("minutes")
    assert isinstance(node, Grouping)
    made = folded([df], node, "append").collect()
    assert sorted((row["window_start"].minute, row["n"], row["pages"]) for row in made) == [
        (0, 1, ["a"]),
        (1, 2, ["b"]),
    ]
