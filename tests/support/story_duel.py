"""A story is played twice, line by line: by a shard in this process, and by a real broker over the wire.

What both answer and write must be the same. The shard goes first; then it is known which answers to wait for at the
broker, and how many records. Ids that a coordinator makes up are replaced by the names of those who got them; times,
log lines, the words of error messages and what a broker says about the next heartbeat are left out; records that are
written at once, and partitions, are put in order.
"""

import re
from collections.abc import Iterable
from typing import Final

from tests.support.scenario import Story, Verb, happen, is_action
from tests.support.scenario_groups import GroupStage
from tests.support.story_broker import BrokerDriver
from tests.support.story_shard import ShardDriver
from tests.support.wire_client import WireClient

_ROW: Final = re.compile(r"[\w#.-]+-\d+[ =]")  # of an answer about a partition
_TIMES: Final = re.compile(r" (at|since|expires) (\+\d+ ms|unknown|never)|, next in \d+ ms")


def fight(story: Story, verbs: dict[str, Verb], configs: dict[str, str], client: WireClient, address: str) -> None:
    """Raises AssertionError at the first line after which they differ."""
    ours, theirs = GroupStage(), GroupStage()
    ours.configs.update(configs)
    shard = ShardDriver(ours.configs)
    broker = BrokerDriver(client, address)
    ours._driver = shard
    theirs._driver = broker  # type: ignore[assignment]
    names: dict[str, str] = {}
    try:
        for line in story.lines:
            if is_action(line) and not line.startswith("config "):
                translated = _translated(line, ours, theirs)
                our_lines = [*happen(line, ours, verbs), *happen("clock 0ms", ours, verbs)]  # and what is due at once
                broker.expect(*shard.followed())
                their_lines = [*happen(translated, theirs, verbs), *broker.rest(theirs)]
                _learn_names(names, ours, theirs)
                told, expected = _plain(names, their_lines), _plain(names, our_lines)
                assert told == expected, _difference(line, told, expected)
    finally:
        broker.clean_up()


def _translated(line: str, ours: GroupStage, theirs: GroupStage) -> str:
    """Ids that a story knows are those which our coordinator made up."""
    ids = {each.member_id: theirs.membership(*key).member_id for key, each in ours.memberships.items()}
    return re.sub(r"(?<= id=)\S+", lambda found: ids.get(found[0]) or found[0], line)


def _learn_names(names: dict[str, str], *stages: GroupStage) -> None:
    """By member id, of all that there ever were: the first who had it."""
    for stage in stages:
        for (actor, _), each in stage.memberships.items():
            if each.member_id not in ("", actor):
                names.setdefault(each.member_id, f"<{actor}>")


def _difference(line: str, theirs: list[str], ours: list[str]) -> str:
    only_theirs = [f"  Kafka: {each}" for each in theirs if each not in ours]
    only_ours = [f"  Headrace: {each}" for each in ours if each not in theirs]
    return "\n".join([line, *only_theirs, *only_ours])


def _plain(names: dict[str, str], lines: Iterable[str]) -> list[str]:
    plain = []
    for line in lines:
        text = _TIMES.sub("", re.sub(r"^\+\d+ ms ", "", line))
        if text.startswith("log "):
            continue
        for member_id in sorted(names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w.-]){re.escape(member_id)}(?![\w.-])", names[member_id], text)
        if not text.startswith("writes "):
            text = re.sub(r"members (.*)", lambda found: f"members {' '.join(sorted(found[1].split()))}", text)
            text = re.sub(r"([A-Z_]{3}): .*", r"\1", re.sub(r"\S+/\S+ assigns", "assigns", text))
            text = re.sub(r"(FENCED_INSTANCE_ID, member) \S+", r"\1", text)  # of one that was never told its id
            if text.startswith("-> ") and all(map(_ROW.match, rows := text[3:].split(", "))):
                text = f"-> {', '.join(sorted(rows))}"
        plain.append("; ".join(sorted(" ".join(_in_order(text.split(" "))).split("; "))))
    return sorted(plain)


def _in_order(words: list[str]) -> list[str]:
    """Runs of partitions, sorted."""
    done: list[str] = []
    run: list[str] = []
    for word in [*words, ""]:
        if re.fullmatch(r"[\w#.-]+-\d+(@\d+)?", word) and not word.startswith("<"):
            run.append(word)
        else:
            done += [*sorted(run), word]
            run = []
    return done[:-1]
