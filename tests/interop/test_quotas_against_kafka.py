"""Quotas: Apache Kafka's own managers and a running Apache Kafka say how long clients have to wait, and so do we.

Stories with random quotas, times and sizes are told to Kafka's classes on a clock that stands still, and to ours. Over
the wire those answers are compared which depend on nobody's speed: the first ones.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import headrace
from headrace.cluster.image import EMPTY_IMAGE
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_client_quotas as altering
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from headrace.server.clock import MovableClock
from headrace.server.quotas import Quotas
from headrace.server.quotas_entities import limits_of
from headrace.server.quotas_rates import Windows
from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import KafkaTools
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.kafka

DEFAULT = "<default>"
START_MS = 1_700_000_000_000
STORIES = 80
STEPS = 120
USERS = ("alice", "bob")
CLIENTS = ("app", "tool", "")
SETTLED_SECONDS = 120.0  # so long the machine may be busy; what needs it is broken


# Stories


def random_story(random: Random) -> dict[str, Any]:
    """Quotas of some of the eight levels, and then traffic and other limits for the same."""
    names: list[tuple[str | None, str | None]] = [
        (user, client)
        for user in ("alice", DEFAULT, None)
        for client in ("app", DEFAULT, None)
        if user is not None or client is not None
    ]
    entities = random.sample(names, random.randint(1, len(names)))
    steps = [quota_step(random, START_MS, entity) for entity in entities]
    now_ms = START_MS
    for _ in range(STEPS):
        now_ms += random.choice((0, 1, random.randint(0, 1500), random.randint(0, 15_000)))
        roll = random.random()
        if roll < 0.05:
            steps.append(quota_step(random, now_ms, random.choice(entities)))
            continue
        who = {"at": now_ms, "user": random.choice(USERS), "client": random.choice(CLIENTS)}
        if roll < 0.6:
            steps.append({"do": "produce", **who, "bytes": random.choice((100, random.randint(1, 30_000)))})
        else:
            partitions = [random.randint(0, 500) for _ in range(random.randint(1, 4))]
            steps.append({"do": "change", **who, "strict": random.random() < 0.5, "partitions": partitions})
    return {"windows": random.choice(((11, 1), (3, 2), (1, 1))), "steps": steps}


def quota_step(random: Random, now_ms: int, entity: tuple[str | None, str | None]) -> dict[str, Any]:
    limit = random.choice((1.0, 50.0, 1000.0, random.uniform(0.5, 2000)))
    return {"do": "quota", "at": now_ms, "user": entity[0], "client": entity[1], "limit": limit}


def our_answers(story: dict[str, Any]) -> list[Any]:
    number, seconds = story["windows"]
    clock = MovableClock(START_MS)
    windows = Windows(number, seconds * 1000)
    quotas = Quotas(clock, windows, windows)
    image = EMPTY_IMAGE
    answers: list[Any] = []
    for step in story["steps"]:
        clock.move(step["at"] - clock.now_ms())
        if step["do"] == "quota":
            image = image.apply(quota_records(step))
            quotas.apply(EMPTY_IMAGE, image)
            answers.append(None)
            continue
        limits = limits_of(image.client_quotas, user=step["user"], client_id=step["client"])
        if step["do"] == "produce":
            answers.append(0 if limits.produce is None else quotas.charge(limits.produce, step["bytes"]))
        elif limits.mutations is None:
            answers.append([[True] * len(step["partitions"]), 0])
        else:
            quota = quotas.mutations(limits.mutations, is_strict=step["strict"])
            answers.append([[quota(partitions) for partitions in step["partitions"]], quota.throttle_ms])
    return answers


def quota_records(step: dict[str, Any]) -> list[ClientQuotaRecord]:
    names = {"client-id": step["client"], "user": step["user"]}
    rows = [EntityData(kind, None if name == DEFAULT else name) for kind, name in names.items() if name is not None]
    return [ClientQuotaRecord(rows, key, step["limit"]) for key in ("producer_byte_rate", "controller_mutation_rate")]


def test_stories_end_as_they_end_with_kafkas_own_managers(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    stories = [random_story(Random(seed)) for seed in range(STORIES)]
    file = tmp_path / "stories.json"
    file.write_text("".join(json.dumps(story) + "\n" for story in stories))
    theirs = [json.loads(line) for line in kafka_tools.run("Quotas.java", str(file)).splitlines()]
    assert len(theirs) == STORIES
    for seed, (story, expected) in enumerate(zip(stories, theirs, strict=True)):
        answers = our_answers(story)
        for place, (step, ours, kafkas) in enumerate(zip(story["steps"], answers, expected, strict=True)):
            assert ours == kafkas, f"story {seed}, step {place}: {step}"
    # They are worth telling: somebody waits in most of them, and somebody does not.
    produced = [answer for answers in theirs for answer in answers if isinstance(answer, int)]
    assert STORIES * 10 < sum(map(bool, produced)) < len(produced) - STORIES * 10


# Over the wire


class Observer:
    """Asks one broker. Each request has a connection of its own: one that is throttled is not listened to."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))

    def ask(self, api: str, version: int, request: Any, client_id: str = "test") -> Any:
        with WireClient(self._address) as client:
            return client.ask(api, version, request, client_id=client_id)

    def create(self, client_id: str, version: int, *names: str, partitions: int = 1) -> Any:
        topics = [CreatableTopic(name, partitions, 1) for name in names]
        return self.ask("CreateTopics", version, CreateTopicsRequest(topics), client_id)

    def produce(self, client_id: str, size_bytes: int) -> tuple[ErrorCode, int]:
        """The code, and the throttle time."""
        batch = bytes(build_batch([NewRecord(START_MS, None, bytes(size_bytes))]))
        rows = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, batch)])]
        response = self.ask("Produce", 9, ProduceRequest(None, 1, 30_000, rows), client_id)
        return ErrorCode(response.responses[0].partition_responses[0].error_code), response.throttle_time_ms

    def fetch(self, client_id: str, *, epoch: int) -> Any:
        rows = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
        topics = [FetchTopic("orders", partitions=rows)]
        return self.ask("Fetch", 12, FetchRequest(session_epoch=epoch, topics=topics), client_id)

    def prepare(self) -> None:
        """A topic with a batch, and clients with quotas."""
        assert self.create("test", 7, "orders").topics[0].error_code == 0
        self._until(lambda: self.produce("test", 3000)[0] is ErrorCode.NONE)
        self._alter(
            ("little", "producer_byte_rate", 1000.0),
            ("much", "producer_byte_rate", 1000.0),
            ("reads", "consumer_byte_rate", 100.0),
            ("reads in a session", "consumer_byte_rate", 100.0),
            ("asks", "request_percentage", 1e-6),
            ("changes", "controller_mutation_rate", 1.0),
        )
        # A broker hears of changes in their order, but a moment after whoever made them.
        self._alter(("probes", "producer_byte_rate", 1.0))
        self._until(lambda: self.produce("probes", 1000)[1] > 0)

    def _alter(self, *rows: tuple[str, str, float]) -> None:
        entries = [
            altering.EntryData([altering.EntityData("client-id", name)], [altering.OpData(key, value)])
            for name, key, value in rows
        ]
        response = self.ask("AlterClientQuotas", 1, altering.AlterClientQuotasRequest(entries))
        assert [entry.error_code for entry in response.entries] == [0] * len(rows)

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLED_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "the broker does not hear of what its controller decided"


def observe(address: str) -> dict[str, Any]:
    """What a broker says to the first requests of clients with quotas, by what was asked."""
    broker = Observer(address)
    broker.prepare()
    seen: dict[str, Any] = {
        "little": broker.produce("little", 9000),
        "much": broker.produce("much", 50_000),
        "asks": broker.ask("DescribeCluster", 1, DescribeClusterRequest(), "asks").throttle_time_ms,
    }
    for client_id, epoch in (("reads", -1), ("reads in a session", 0)):
        response = broker.fetch(client_id, epoch=epoch)
        assert not response.responses
        seen[client_id] = (response.throttle_time_ms, response.error_code, response.session_id)
    changes = broker.create("changes", 7, "a", "b", "c", partitions=10)
    seen["changes"] = [row.error_code for row in changes.topics]
    assert 0 < changes.throttle_time_ms <= 9000
    changes = broker.create("changes", 5, "d", partitions=10)
    seen["changes in an old version"] = [row.error_code for row in changes.topics]
    assert 0 < changes.throttle_time_ms <= 19_000
    return seen


def test_the_first_answers_are_those_of_a_running_kafka(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    with headrace.Broker() as broker:
        ours = observe(broker.address)
    with ApacheKafka(tmp_path, kafka_tools) as kafka:
        theirs = observe(kafka.address)
    assert ours == theirs
    assert ours["asks"] == 1000
    assert ours["much"][1] > 40_000
