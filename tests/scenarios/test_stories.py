"""Plays the stories of this directory; tests/support/scenario.py says how they are told."""

from pathlib import Path

import pytest

from tests.support.scenario import Story, play, read_stories
from tests.support.scenario_consumers import CONSUMER_VERBS
from tests.support.scenario_groups import GROUP_VERBS, GroupStage

HERE = Path(__file__).parent
VERBS = {**GROUP_VERBS, **CONSUMER_VERBS}


def stories() -> list[object]:
    return [
        pytest.param(story, id=f"{path.stem}: {story.title}")
        for path in sorted(HERE.glob("*.story"))
        for story in read_stories(path)
    ]


@pytest.mark.parametrize("story", stories())
def test_it_happens_as_the_story_tells(story: Story) -> None:
    assert play(story, GroupStage(), VERBS) == story.lines
