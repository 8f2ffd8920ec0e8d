"""Which stories are played on which stage, and with which words: the name of a file tells."""

from pathlib import Path
from typing import Any

from tests.support.scenario import Story, play
from tests.support.scenario_consumers import CONSUMER_VERBS
from tests.support.scenario_groups import GROUP_VERBS, GroupStage
from tests.support.scenario_transactions import TRANSACTION_VERBS, TransactionStage

STORIES = Path(__file__).parent.parent / "scenarios"
VERBS = {**GROUP_VERBS, **CONSUMER_VERBS}  # of groups


def play_of(path: Path, story: Story) -> list[str]:
    """The lines of a story of this file, as it really happens."""
    stage: Any
    if path.stem.startswith("transactions_"):
        stage, verbs = TransactionStage(), TRANSACTION_VERBS
    else:
        stage, verbs = GroupStage(), VERBS
    return play(story, stage, verbs)
