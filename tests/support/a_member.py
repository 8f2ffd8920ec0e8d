"""A member of a group by confluent-kafka, which owns all partitions of its topic."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka

from tests.support.both_brokers import eventually


@contextmanager
def a_member(bootstrap: str, group: str, topic: str, **configs: Any) -> Iterator[confluent_kafka.Consumer]:
    """Configs by their names with underscores."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    member = confluent_kafka.Consumer({**settings, **dotted})
    member.subscribe([topic])
    try:
        eventually(lambda: member.poll(0.05) is None and bool(member.assignment()))
        yield member
    finally:
        member.close()
