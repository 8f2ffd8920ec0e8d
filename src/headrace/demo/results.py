"""What the pipeline wrote, read from its topics as anybody would: committed records only; and how far it is."""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import headrace.arrow
from headrace.client.admin import Admin
from headrace.client.consumer import Consumer
from headrace.client.topic_partition import TopicPartition
from headrace.demo import topics
from headrace.demo.pipeline import app, users
from headrace.demo.truth import Cell, Outcome, Revenue
from headrace.streams import dead_letters
from headrace.streams.known_apps import queries_of


def read_outcome(address: str) -> Outcome:
    outcome = Outcome()
    for row in _rows(topics.CLEAN, address, "value"):
        outcome.orders[json.loads(row["value"])["id"]] += 1
    for row in _rows(topics.DEAD, address, "value", "headers"):
        headers = {header["key"]: header["value"].decode() for header in row["headers"] or ()}
        outcome.letters[_reason(headers.get(dead_letters.ERROR, "")), row["value"]] += 1
    outcome.revenue = dict(map(_cell, (row["value"] for row in _rows(topics.REVENUE, address, "value"))))
    return outcome


class RevenueSoFar:
    """The revenue as it is now: changes are consumed as they come, and the newest of a cell counts."""

    def __init__(self, address: str) -> None:
        self._consumer = Consumer(address, isolation_level="read_committed", auto_offset_reset="earliest")
        self._consumer.assign(_partitions(topics.REVENUE, topics.PARTITIONS))
        self._cells: dict[Cell, Revenue] = {}

    def cents(self) -> dict[str, int]:
        """By country."""
        while records := self._consumer.poll(0):
            self._cells.update(_cell(record.value) for record in records)
        sums: defaultdict[str, int] = defaultdict(int)
        for cell, revenue in self._cells.items():
            sums[cell.country] += revenue.cents
        return sums

    def close(self) -> None:
        self._consumer.close()


class Position(NamedTuple):
    """`checked` orders are through the first query; `lag` is how many records wait, of all queries."""

    checked: int
    lag: int


class Watch:
    """How far the pipeline is, by what its groups have committed, as any lag tool would say it."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        # Writers come before readers: what moves on from one to the next between two looks is seen twice, never missed.
        self._reads = {
            f"{app.name}.{query.name}": [source.topics[0] for source in query.sources if source.name != users.name]
            for query in queries_of(app.plan)
        }

    def look(self) -> Position:
        there = {topic.name: topic.partitions for topic in self._admin.list_topics()}
        checked = lag = 0
        for group, names in self._reads.items():
            places = [place for name in names if name in there for place in _partitions(name, there)]
            ends = self._admin.list_offsets(dict.fromkeys(places, "latest"))
            done = {place: each.offset for place, each in self._admin.list_group_offsets(group, places).items()}
            lag += sum(each.offset - done.get(place, 0) for place, each in ends.items())
            if group == topics.ORDERS_GROUP:
                checked = sum(offset for place, offset in done.items() if place.topic == topics.ORDERS)
        return Position(checked, lag)


def is_in_transaction(admin: Admin, group: str) -> bool:
    return any(each.id == group for each in admin.list_transactions(states=["Ongoing"]))


def _rows(topic: str, address: str, *columns: str) -> Iterator[dict[str, Any]]:
    for batch in headrace.arrow.scan(topic, address, columns=columns, isolation="read_committed"):
        yield from batch.to_pylist()


def _partitions(topic: str, partitions: dict[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions[topic])]


def _reason(error: str) -> str:
    """Without the class of what was raised, and without the columns that bytes do not fit."""
    return error.removeprefix("ValueError: ").partition(" that fits ")[0]


def _cell(value: bytes) -> tuple[Cell, Revenue]:
    """A change, as it stands in the topic."""
    change = json.loads(value)
    minute_ms = round(datetime.fromisoformat(change["window_start"]).timestamp() * 1000)
    return Cell(change["country"], minute_ms), Revenue(change["orders"], change["cents"])
