"""The stories about transactions of tests/scenarios, played by Apache Kafka as well: it answers and writes the same.

Left out are those that tests/support/story_transactions.py cannot tell, and those of which it is known that Kafka tells
them otherwise.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

import headrace
from tests.support.both_brokers import ready
from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import KafkaTools
from tests.support.scenario import Story, read_stories
from tests.support.scenario_stages import STORIES
from tests.support.story_transactions import can_be_told, fight
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.kafka

SETTINGS = {"authorizer.class.name": "", "super.users": "", "transaction.state.log.num.partitions": "1"}
OTHERWISE = {  # what Kafka does
    "the end of an older client is not taken for the own one by whoever had the epoch before": "takes it for a retry",
}
PARTITIONS = 4  # of each topic in the stories


def stories() -> list[object]:
    return [
        pytest.param(story, id=f"{path.stem}: {story.title}")
        for path in sorted(STORIES.glob("transactions_*.story"))
        for story in read_stories(path)
        if story.title not in OTHERWISE and can_be_told(story)
    ]


@pytest.fixture(scope="module")
def kafka(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka-for-stories"), kafka_tools, settings=SETTINGS) as broker:
        with headrace.Admin(broker.address) as admin:
            for topic in ("t", "u"):
                admin.create_topic(topic, partitions=PARTITIONS)
        for topic in ("t", "u"):
            ready(broker.address, topic, PARTITIONS)
        yield broker.address


@pytest.fixture
def client(kafka: str) -> Iterator[WireClient]:
    host, _, port = kafka.rpartition(":")
    with closing(WireClient((host, int(port)))) as client:
        yield client


@pytest.mark.parametrize("story", stories())
def test_apache_kafka_answers_and_writes_the_same(story: Story, client: WireClient) -> None:
    fight(story, client)
