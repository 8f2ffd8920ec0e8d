"""What the pipeline wrote, read from its topics as anybody would: committed records only."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import headrace.arrow
from headrace.client.admin import Admin
from headrace.client.consumer import Consumer
from headrace.client.topic_partition import TopicPartition
from headrace.demo import topics
from headrace.demo.truth import Cell, Outcome, Revenue


def read_outcome(address: str) -> Outcome:
    outcome = Outcome()
    for row in _rows(topics.CLEAN, address, "value"):
        outcome.orders[json.loads(row["value"])["id"]] += 1
    for row in _rows(topics.DEAD, address, "value", "headers"):
        headers = {header["key"]: header["value"].decode() for header in row["headers"] or ()}
        outcome.letters[headers.get(topics.WHY_HEADER, ""), row["value"]] += 1
    outcome.revenue = dict(map(_cell, (row["value"] for row in _rows(topics.REVENUE, address, "value"))))
    return outcome


class RevenueSoFar:
    """The revenue as it is now: changes are consumed as they come, and the newest of a cell counts."""

    def __init__(self, address: str) -> None:
        self._consumer = Consumer(address, isolation_level="read_committed", auto_offset_reset="earliest")
        self._consumer.assign(_partitions(topics.REVENUE))
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


def _rows(topic: str, address: str, *columns: str) -> Iterator[dict[str, Any]]:
    for batch in headrace.arrow.scan(topic, address, columns=columns, isolation="read_committed"):
        yield from batch.to_pylist()


def progress_of(admin: Admin, app: str) -> tuple[int, int]:
    """How far a query has come in its topic, and where that ends."""
    partitions = _partitions(topics.INPUTS[app])
    ends = admin.list_offsets(dict.fromkeys(partitions, "latest"))
    committed = admin.list_group_offsets(app, partitions)
    return sum(each.offset for each in committed.values()), sum(each.offset for each in ends.values())


def is_in_transaction(admin: Admin, app: str) -> bool:
    return any(each.id == app for each in admin.list_transactions(states=["Ongoing"]))


def _partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(topics.PARTITIONS[topic])]


def _cell(value: bytes) -> tuple[Cell, Revenue]:
    """A change, as it stands in the topic."""
    change = json.loads(value)
    return Cell(change["country"], change["minute_ms"]), Revenue(change["orders"], change["cents"])
