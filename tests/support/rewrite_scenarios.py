"""Writes what really happens into the stories of tests/scenarios, for somebody to read and to judge."""

from pathlib import Path

from tests.support.scenario import play, read_stories
from tests.support.scenario_consumers import CONSUMER_VERBS
from tests.support.scenario_groups import GROUP_VERBS, GroupStage

STORIES = Path(__file__).parent.parent / "scenarios"
VERBS = {**GROUP_VERBS, **CONSUMER_VERBS}


def rewrite(path: Path) -> None:
    text = path.read_text()
    head = text[: text.index("# ")] if text.startswith(";") else ""
    told = ["\n".join([f"# {story.title}", *play(story, GroupStage(), VERBS)]) for story in read_stories(path)]
    path.write_text(head + "\n".join(told) + "\n")


if __name__ == "__main__":
    for path in sorted(STORIES.glob("*.story")):
        rewrite(path)
