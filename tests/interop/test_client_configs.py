"""Our clients' configs beside those of Kafka's Java clients: names, types, defaults, importance.

Each difference that we chose is listed here by name, with its reason; one that is listed and does not exist fails, too.
"""

from typing import NamedTuple

import pytest

from headrace.client.admin_configs import ADMIN_CONFIGS
from headrace.client.consumer_configs import CONSUMER_CONFIGS
from headrace.client.foreign_configs import REFUSED, WITHOUT_EFFECT
from headrace.client.producer_configs import PRODUCER_CONFIGS
from headrace.cluster.config_types import ConfigTable, format_value
from tests.support.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

TABLES: dict[str, ConfigTable] = {
    "producer": PRODUCER_CONFIGS,
    "consumer": CONSUMER_CONFIGS,
    "admin": ADMIN_CONFIGS,
}
OTHER_DEFAULTS = {
    "batch.size": "64 KB: what a batch costs in Python, whatever is in it, is much more than in Java",
    "send.buffer.bytes": "the kernel's own tuning is faster than a fixed size",
    "receive.buffer.bytes": "the kernel's own tuning is faster than a fixed size",
    "sasl.mechanism": "Kafka's default is Kerberos, which Headrace does not have",
    "ssl.keystore.type": "Python reads PEM, and not Java's JKS",
    "ssl.truststore.type": "Python reads PEM, and not Java's JKS",
    "partition.assignment.strategy": "assignors go by their names in the protocol, not by Java classes",
    "share.acquire.mode": "written as it is documented: Kafka's own default is in capitals",
    "key.serializer": "bytes need none; Kafka has no default",
    "value.serializer": "bytes need none; Kafka has no default",
    "key.deserializer": "bytes need none; Kafka has no default",
    "value.deserializer": "bytes need none; Kafka has no default",
    "bootstrap.servers": "it must be given, and is checked for that; Kafka has no default, except for admin clients",
}
OTHER_IMPORTANCE = {
    "client.id": "one table of common configs; Kafka's differ between clients",
}


class Declared(NamedTuple):
    client: str
    name: str
    type: str
    default: str
    importance: str


@pytest.fixture(scope="module")
def declared(kafka_tools: KafkaTools) -> list[Declared]:
    lines = kafka_tools.run("ClientConfigs.java").splitlines()
    return [Declared(*line.split("\t")) for line in lines]


def test_all_names_of_kafka_are_known_and_no_others(declared: list[Declared]) -> None:
    foreign = WITHOUT_EFFECT.keys() | REFUSED.keys()
    for client, table in TABLES.items():
        theirs = {row.name for row in declared if row.client == client}
        assert set(table) == theirs - foreign
    assert foreign <= {row.name for row in declared}
    assert not WITHOUT_EFFECT.keys() & REFUSED.keys()


def test_types_defaults_and_importance_are_kafkas(declared: list[Declared]) -> None:
    differing: dict[str, set[str]] = {"type": set(), "default": set(), "importance": set()}
    for row in declared:
        key = TABLES[row.client].get(row.name)
        if key is None:
            continue
        if key.type.name != row.type:
            differing["type"].add(row.name)
        if str(format_value(key.default)).replace("None", "null") != row.default:
            differing["default"].add(row.name)
        if key.importance.value != row.importance.lower():
            differing["importance"].add(row.name)
    assert differing == {"type": set(), "default": set(OTHER_DEFAULTS), "importance": set(OTHER_IMPORTANCE)}
