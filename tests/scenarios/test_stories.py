"""Plays the stories of this directory; tests/support/scenario.py says how they are told."""

from pathlib import Path

import pytest

from tests.support.scenario import Story, read_stories
from tests.support.scenario_stages import STORIES, play_of


def stories() -> list[object]:
    return [
        pytest.param(path, story, id=f"{path.stem}: {story.title}")
        for path in sorted(STORIES.glob("*.story"))
        for story in read_stories(path)
    ]


@pytest.mark.parametrize(("path", "story"), stories())
def test_it_happens_as_the_story_tells(path: Path, story: Story) -> None:
    assert play_of(path, story) == story.lines
