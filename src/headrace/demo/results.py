"""What the pipeline wrote, read from its topics as anybody would: committed records only; and how far it is."""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import headrace.arrow
from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.consumer import Consumer
from headrace.client.topic_partition import TopicPartition
from headrace.demo import topics
from headrace.demo.pipeline import app
from headrace.demo.truth import Cell, Outcome, Revenue
from headrace.streams import dead_letters
from headrace.streams.known_apps import lags, queries_of


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
        self._consumer.assign(
            [TopicPartition(topics.REVENUE, each) for each in range(topics.PARTITIONS[topics.REVENUE])]
        )
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

    def __init__(self, address: str) -> None:
        self._admin = AsyncAdmin(address)
        self._queries = queries_of(app.plan)

    def look(self) -> Position:
        return background.call(self._look())

    async def _look(self) -> Position:
        committed = await self._admin.list_group_offsets(topics.ORDERS_GROUP)
        checked = sum(each.offset for place, each in committed.items() if place.topic == topics.ORDERS)
        # The lag comes after that, so that orders which were checked in the meantime are not taken to be through.
        return Position(checked, sum((await lags(self._admin, app.name, self._queries)).values()))

    def is_in_transaction(self) -> bool:
        """Whether the query that reads orders is writing."""
        ongoing = background.call(self._admin.list_transactions(states=["Ongoing"]))
        return any(each.id == topics.ORDERS_GROUP for each in ongoing)

    def close(self) -> None:
        background.call(self._admin.close())


def _rows(topic: str, address: str, *columns: str) -> Iterator[dict[str, Any]]:
    for batch in headrace.arrow.scan(topic, address, columns=columns, isolation="read_committed"):
        yield from batch.to_pylist()


def _reason(error: str) -> str:
    """Without the class of what was raised, and without the columns that bytes do not fit."""
    return error.removeprefix("ValueError: ").partition(" that fits ")[0]


def _cell(value: bytes) -> tuple[Cell, Revenue]:
    """A change, as it stands in the topic."""
    change = json.loads(value)
    minute_ms = round(datetime.fromisoformat(change["window_start"]).timestamp() * 1000)
    return Cell(change["country"], minute_ms), Revenue(change["orders"], change["cents"])
