"""kcat, as people use it on the command line. Debian brings it with a librdkafka years older than the latest one."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.clients_confluent import create_topic
from tests.support.clients_kcat import Kcat

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LINES = [f"line {n}" for n in range(200)]


@pytest.fixture
def empty(address: str, topic: str) -> str:
    """A topic of one partition."""
    return create_topic(address, topic)


@pytest.fixture
def filled(kcat: Kcat, address: str, empty: str) -> str:
    """A topic of one partition with the LINES in it."""
    produce(kcat, address, empty, LINES)
    return empty


def produce(kcat: Kcat, address: str, topic: str, lines: Sequence[str], *arguments: str) -> None:
    kcat.run(address, "-P", "-t", topic, "-p", "0", *arguments, send="\n".join(lines))


def consumed(kcat: Kcat, address: str, topic: str, *arguments: str) -> list[str]:
    """What is in partition 0, line by line, until its end; at which kcat waits no longer than it must."""
    impatient = ["-e", "-q", "-X", "fetch.wait.max.ms=5"]
    return kcat.run(address, "-C", "-t", topic, "-p", "0", *impatient, *arguments).splitlines()


def test_lines_are_produced_and_consumed(kcat: Kcat, address: str, filled: str) -> None:
    assert consumed(kcat, address, filled, "-o", "beginning") == LINES
    assert consumed(kcat, address, filled, "-o", "150") == LINES[150:]
    assert consumed(kcat, address, filled, "-o", "-5") == LINES[-5:]
    assert consumed(kcat, address, filled, "-o", "beginning", "-c", "3") == LINES[:3]
    assert consumed(kcat, address, filled, "-o", "end") == []
    for isolation in ("read_committed", "read_uncommitted"):
        assert consumed(kcat, address, filled, "-o", "beginning", "-X", f"isolation.level={isolation}") == LINES


@pytest.mark.parametrize("codec", CODECS)
def test_every_compression(kcat: Kcat, address: str, empty: str, codec: str) -> None:
    lines = [f"{n} {'and on ' * 30}" for n in range(300)]
    produce(kcat, address, empty, lines, "-z", codec, "-X", "linger.ms=50")
    assert consumed(kcat, address, empty, "-o", "beginning") == lines


def test_a_topic_is_created_by_the_first_line(kcat: Kcat, address: str, topic: str) -> None:
    produce(kcat, address, topic, LINES)
    assert consumed(kcat, address, topic, "-o", "beginning") == LINES


def test_keys_headers_and_nulls(kcat: Kcat, address: str, empty: str) -> None:
    headers = ["-H", "kind=test", "-H", "empty=", "-H", "null"]
    produce(kcat, address, empty, ["key:value", ":no key", "gone:"], "-K", ":", "-Z", *headers)
    rows = [json.loads(line) for line in consumed(kcat, address, empty, "-o", "beginning", "-J")]
    assert [(row["offset"], row["key"], row["payload"]) for row in rows] == [
        (0, "key", "value"),
        (1, None, "no key"),
        (2, "gone", None),
    ]
    assert {tuple(row["headers"]) for row in rows} == {("kind", "test", "empty", "", "null", None)}
    assert {(row["topic"], row["partition"], row["tstype"]) for row in rows} == {(empty, 0, "create")}


def test_offsets_are_asked_for_by_time(kcat: Kcat, address: str, filled: str) -> None:
    rows = [json.loads(line) for line in consumed(kcat, address, filled, "-o", "beginning", "-J")]
    middle_ms = rows[100]["ts"]
    first = next(row["offset"] for row in rows if row["ts"] >= middle_ms)

    def ask(when: int) -> str:
        return kcat.run(address, "-Q", "-t", f"{filled}:0:{when}").strip()

    assert ask(-2) == f"{filled} [0] offset 0"
    assert ask(-1) == f"{filled} [0] offset 200"
    assert ask(middle_ms) == f"{filled} [0] offset {first}"
    assert consumed(kcat, address, filled, "-o", f"s@{middle_ms}") == LINES[first:]
    assert consumed(kcat, address, filled, "-o", f"s@{rows[0]['ts']}", "-o", f"e@{middle_ms}") == LINES[:first]


def test_metadata_is_listed(kcat: Kcat, address: str, filled: str) -> None:
    found: dict[str, Any] = json.loads(kcat.run(address, "-L", "-J"))
    assert [(broker["id"], broker["name"]) for broker in found["brokers"]] == [(1, address)]
    assert found["controllerid"] == 1
    (mine,) = [each for each in found["topics"] if each["topic"] == filled]
    assert mine["partitions"] == [{"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}]


@pytest.mark.parametrize("settings", ["acks=0", "acks=1", "acks=all", "enable.idempotence=true"])
def test_every_kind_of_delivery(kcat: Kcat, address: str, empty: str, settings: str) -> None:
    # Batches of ten lines, many of them on their way at a time.
    produce(kcat, address, empty, LINES, "-X", settings, "-X", "batch.num.messages=10", "-X", "linger.ms=1")
    assert consumed(kcat, address, empty, "-o", "beginning") == LINES


def test_a_large_message_and_one_that_is_too_large(kcat: Kcat, address: str, empty: str) -> None:
    content = random.Random(1).randbytes(900_000).replace(b"\n", b" ")
    kcat.run(address, "-P", "-t", empty, "-p", "0", send=content)
    (size,) = consumed(kcat, address, empty, "-o", "beginning", "-f", "%S\n", "-X", "fetch.message.max.bytes=1000")
    assert size == "900000"
    refused = kcat.end(address, "-P", "-t", empty, "-p", "0", "-X", "message.max.bytes=5000000", send=content * 3)
    assert refused.returncode == 1
    assert "Message size too large" in refused.stderr


def test_a_topic_that_cannot_be_is_refused(kcat: Kcat, address: str) -> None:
    assert "Broker: Invalid topic" in kcat.run(address, "-L", "-t", "bad name")
    refused = kcat.end(address, "-P", "-t", "bad name", send="line")
    assert refused.returncode == 1
    # A line that was taken before kcat heard of the topic is refused by the broker, a later one by kcat itself.
    assert any(said in refused.stderr for said in ("Broker: Invalid topic", "Local: Unknown topic")), refused.stderr
