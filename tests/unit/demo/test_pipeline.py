"""The demo's pipeline as a plan, and what is read of its results; without Spark."""

import json

from headrace.demo import topics
from headrace.demo.pipeline import app
from headrace.demo.results import _cell, _reason
from headrace.demo.truth import BELOW_ZERO, NOT_JSON, Cell, Revenue
from headrace.streams.known_apps import queries_of
from headrace.streams.plan import Sink, Source


def test_it_reads_and_writes_the_topics_of_the_demo() -> None:
    nodes = app.plan.nodes()
    assert {topic for node in nodes if isinstance(node, Source) for topic in node.topics} == {
        topics.ORDERS,
        topics.USERS,
        topics.CHECKED,
    }
    assert {node.topic for node in nodes if isinstance(node, Sink)} == {topics.CHECKED, topics.CLEAN, topics.REVENUE}
    assert app.dead_letters == topics.DEAD


def test_the_query_that_is_watched_is_the_one_that_reads_orders_and_writes_dead_letters_in_the_same_transaction() -> (
    None
):
    readers = [query for query in queries_of(app.plan) if topics.ORDERS in {it.topics[0] for it in query.sources}]
    assert [f"{app.name}.{query.name}" for query in readers] == [topics.ORDERS_GROUP]
    assert {sink.topic for sink in readers[0].sinks} == {topics.CHECKED, topics.DEAD}


def test_the_reason_of_a_letter_is_what_was_said_without_its_class_and_its_columns() -> None:
    assert _reason("ValueError: amount not above zero") == BELOW_ZERO
    assert _reason("the value is not JSON that fits struct<id:string>") == NOT_JSON
    assert _reason("KeyError: 'cents'") == "KeyError: 'cents'"


def test_a_change_of_the_revenue_is_that_of_a_country_and_a_minute() -> None:
    row = {
        "country": "France",
        "window_start": "1970-01-01T00:02:00.000000Z",
        "window_end": "1970-01-01T00:03:00.000000Z",
        "orders": 3,
        "cents": 700,
    }
    assert _cell(json.dumps(row).encode()) == (Cell("France", 120_000), Revenue(3, 700))
