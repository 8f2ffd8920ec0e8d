"""Dead letters as the records that they were, and sent to their topics again; without Spark."""

from datetime import UTC, datetime
from typing import Any

import pytest

import headrace
from headrace.streams import App, Json, PlanError, col, count
from headrace.streams.compiler.replaying_dead import (
    Replayed,
    behind,
    check_replayable,
    letters,
    resend,
    waiting_letters,
)
from headrace.streams.dead_letters import Letter, letter_of
from tests.support.both_brokers import unique

AT_MS = 1_767_225_600_123


def said(app: str, **more: str) -> list[tuple[str, bytes]]:
    headers = {"app": app, "operator": "source-1", "topic": "orders", "partition": "1", "offset": "7", "error": "x"}
    return [(f"headrace.{name}", text.encode()) for name, text in (headers | more).items() if text]


def record(headers: list[tuple[str, bytes]]) -> dict[str, Any]:
    return {
        "key": b"k",
        "value": b"v",
        "headers": [{"key": name, "value": value} for name, value in headers],
        "timestamp": datetime.fromtimestamp(AT_MS / 1000, UTC),
    }


def test_a_letter_is_the_record_that_it_was() -> None:
    headers = [("trace", b"1"), *said("sales")]
    assert letter_of("sales", record(headers)) == Letter("source-1", "orders", 1, b"k", b"v", (("trace", b"1"),), AT_MS)


@pytest.mark.parametrize("headers", [[], said("other"), said("sales", topic=""), said("sales", partition="one")])
def test_what_is_no_letter_of_this_app(headers: list[tuple[str, bytes]]) -> None:
    assert letter_of("sales", record(headers)) is None


def the_app(name: str = "sales", bootstrap: str = "localhost:9092") -> App:
    app = App(name, bootstrap, dead_letters=f"{name}.dead")
    orders = app.stream(f"{name}-orders", value=Json("id long"))
    orders.to(f"{name}-copy")
    orders.filter(col.id > 1, name="big").map(lambda row: row, "id long", name="same").to(f"{name}-big")
    return app


def test_a_letter_goes_to_those_sinks_that_have_not_got_it() -> None:
    plan = the_app().plan
    assert [sink.topic for sink in behind(plan, "same").sinks] == ["sales-big"]
    assert [sink.topic for sink in behind(plan, "source-1").sinks] == ["sales-copy", "sales-big"]
    assert [sink.topic for sink in behind(plan, "of-before").sinks] == ["sales-copy", "sales-big"]


def test_what_cannot_be_replayed_is_refused() -> None:
    app = the_app()
    check_replayable(app.plan)
    app.stream("other", value=Json("id long")).group_by("id").agg(n=count(), name="counts").to("counts")
    with pytest.raises(PlanError, match=r"keeps state \(counts\).*--resend"):
        check_replayable(app.plan)
    with pytest.raises(PlanError, match="has no dead letters: give it dead_letters="):
        check_replayable(App("none", "localhost:9092").plan)


def test_letters_are_sent_to_their_partitions_again_once(bootstrap: str) -> None:
    name = unique("dead")
    plan, topic, dead = the_app(name, bootstrap).plan, f"{name}-orders", f"{name}.dead"
    assert waiting_letters(plan, bootstrap) == {}
    assert resend(plan, bootstrap) == Replayed(0, 0, 0)
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(topic, 2)
        admin.create_topic(dead, 1)
    with headrace.Producer(bootstrap) as producer:
        headers = [("trace", b"1"), *said(name, topic=topic)]
        producer.send(dead, b"v", b"k", headers=headers, timestamp=AT_MS).result()
        producer.send(dead, b"v", b"k", headers=said("other", topic=topic)).result()
    assert len(list(letters(plan, bootstrap, waiting_letters(plan, bootstrap)))) == 1
    assert resend(plan, bootstrap) == Replayed(1, 1, 0)
    assert resend(plan, bootstrap) == Replayed(0, 0, 0)
    (sent,) = headrace.arrow.read(topic, bootstrap, isolation="read_committed").to_pylist()
    assert (sent["key"], sent["value"], sent["partition"]) == (b"k", b"v", 1)
    assert sent["headers"] == [{"key": "trace", "value": b"1"}]
    assert sent["timestamp"].timestamp() == AT_MS / 1000
