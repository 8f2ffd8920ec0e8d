"""Writes what really happens into the stories of tests/scenarios, for somebody to read and to judge."""

from pathlib import Path

from tests.support.scenario import read_stories
from tests.support.scenario_stages import STORIES, play_of


def rewrite(path: Path) -> None:
    text = path.read_text()
    head = text[: text.index("# ")] if text.startswith(";") else ""
    told = ["\n".join([f"# {story.title}", *play_of(path, story)]) for story in read_stories(path)]
    path.write_text(head + "\n".join(told) + "\n")


if __name__ == "__main__":
    for path in sorted(STORIES.glob("*.story")):
        rewrite(path)
