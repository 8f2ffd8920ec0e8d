"""Stories about classic groups and offsets, without clocks and restarts: Apache Kafka answers and writes the same."""

from pathlib import Path

import pytest

from tests.support.scenario import Story, play, read_stories
from tests.support.scenario_groups import GROUP_VERBS
from tests.support.story_judge import JudgedDriver, JudgedStage, Kafka

pytestmark = pytest.mark.kafka

STORIES = Path(__file__).parent.parent / "scenarios"
FILES = ("classic_joining", "classic_leaving", "classic_static", "listing", "offsets", "offsets_transactions")
BEYOND = ("clock ", " stays ", "restart", "config ")
OTHERWISE = {  # what Kafka does
    "a join without protocols or type makes no group": "makes an empty group, and refuses",
    "of protocols with the same name the first counts": "never answers",
    "a member that joins twice leaves no answer behind": "never answers the first request",
    "a member that syncs twice leaves no answer behind": "never answers the first request",
    "whoever leaves while it waits for the assignment is answered, too": "never answers",
    "an offset of an older topic with the same name is none for those who ask by id": "would hear of the deletion",
    "what it wants when it is back counts at once, as it would after a restart": "counts it after a restart only",
}


def stories() -> list[object]:
    return [
        pytest.param(story, id=f"{name}: {story.title}")
        for name in FILES
        for story in read_stories(STORIES / f"{name}.story")
        if story.title not in OTHERWISE and not any(word in line for line in story.lines for word in BEYOND)
    ]


@pytest.fixture(scope="module")
def kafka(kafka_bootstrap: str) -> Kafka:
    return Kafka(kafka_bootstrap)


@pytest.mark.parametrize("story", stories())
def test_kafka_answers_and_writes_the_same(story: Story, kafka: Kafka) -> None:
    stage = JudgedStage(kafka)
    driver = stage.driver
    assert isinstance(driver, JudgedDriver)
    try:
        play(story, stage, GROUP_VERBS)
        driver.compare_records()
    finally:
        driver.close()
