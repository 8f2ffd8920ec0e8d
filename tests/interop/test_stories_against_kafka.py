"""The stories about groups of tests/scenarios, played by Apache Kafka as well: it answers and writes the same.

Left out are stories in which time passes, a coordinator starts again or configs of a broker matter; and those of which
it is known that Kafka tells them otherwise.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import KafkaTools
from tests.support.scenario import Story, read_stories
from tests.support.scenario_stages import STORIES, VERBS
from tests.support.story_broker import PATIENCE_SECONDS
from tests.support.story_duel import fight
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.kafka

FILES = (
    *("classic_joining", "classic_leaving", "classic_static"),
    *("consumer_joining", "consumer_static", "consumer_topics", "consumer_offsets", "migration"),
    *("listing", "offsets", "offsets_transactions"),
)
OTHERWISE = {  # what Kafka does
    "a join without protocols or type makes no group": "makes an empty group, and refuses",
    "of protocols with the same name the first counts": "never answers",
    "a member that joins twice leaves no answer behind": "never answers the first request",
    "a member that syncs twice leaves no answer behind": "never answers the first request",
    "whoever leaves while it waits for the assignment is answered, too": "never answers",
    "an offset of an older topic with the same name is none for those who ask by id": "would hear of the deletion",
    "what it wants when it is back counts at once, as it would after a restart": "counts it after a restart only",
}
CONFIGS = {"group.consumer.assignment.interval.ms": "0"}
SETTINGS = {**CONFIGS, "authorizer.class.name": "", "super.users": "", "offsets.topic.num.partitions": "1"}


def can_be_told(story: Story) -> bool:
    is_plain = all(line in _HARMLESS or not (line.startswith(_BEYOND) or " stays " in line) for line in story.lines)
    # With a subscription that nobody can read, Kafka throws in the middle of its decision, and the group hangs.
    return is_plain and story.title not in OTHERWISE and not any("on=?" in line for line in story.lines)


_HARMLESS = {"clock 0ms", "config group.consumer.assignment.interval.ms=0"}
_BEYOND = ("clock ", "restart", "config ", "group-config ")


def stories() -> list[object]:
    return [
        pytest.param(story, id=f"{name}: {story.title}")
        for name in FILES
        for story in read_stories(STORIES / f"{name}.story")
        if can_be_told(story)
    ]


@pytest.fixture(scope="module")
def kafka(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("kafka-for-stories")
    with ApacheKafka(directory, kafka_tools, settings=SETTINGS) as broker:
        yield broker.address


@pytest.fixture
def client(kafka: str) -> Iterator[WireClient]:
    host, _, port = kafka.rpartition(":")
    with closing(WireClient((host, int(port)))) as client:
        _await_coordinator(client)
        yield client


def _await_coordinator(client: WireClient) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        client.ask("FindCoordinator", 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["probe"]))
        joining = ConsumerGroupHeartbeatRequest("probe", "p", 0, None, None, 60_000, [], None, None, [])
        if not client.ask("ConsumerGroupHeartbeat", 1, joining).error_code:
            client.ask("ConsumerGroupHeartbeat", 1, ConsumerGroupHeartbeatRequest("probe", "p", -1))
            return
        assert time.monotonic() < deadline, "there is no coordinator"
        time.sleep(0.05)  # until it is there, with a deadline


@pytest.mark.parametrize("story", stories())
def test_apache_kafka_answers_and_writes_the_same(story: Story, client: WireClient, kafka: str) -> None:
    fight(story, VERBS, CONFIGS, client, kafka)
