"""Assignors beside those of Kafka's client, on the same input: groups whose members come, go and change their minds."""

import base64
import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from headrace.client.assignors import Assignment, Assignor, Member, load_assignors
from headrace.client.group_protocol import read_assignment, read_subscription, write_subscription
from headrace.client.topic_partition import TopicPartition
from tests.support.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

GROUPS: Final = 60  # of each kind
ROUNDS: Final = 5  # of each group: what was assigned is what members own in the next one
RACKS: Final = ("a", "b", "c")


class GroupMaker:
    """A group of random size. What members say of themselves is made by our own code, and read by Kafka's."""

    def __init__(self, seed: int, assignor: Assignor, *, has_racks: bool, is_alike: bool) -> None:
        self._random = Random(seed)
        self._assignor = assignor
        self._has_racks = has_racks
        self._is_alike = is_alike
        self._generation = self._random.randrange(5)
        names = [f"topic-{number}" for number in range(self._random.randint(1, 6))]
        self._topics = {
            name: [self._replicas() for _ in range(self._random.choice([1, 2, 3, 7, 12]))] for name in names
        }
        self._same = self._wishes()
        self._members: dict[str, dict[str, Any]] = {}
        self._join(self._random.choice([1, 2, 3, 5, 14, 30]))

    def _replicas(self) -> list[str]:
        return self._random.sample(RACKS, self._random.randint(1, 2)) if self._has_racks else []

    def _wishes(self) -> list[str]:
        names = [*self._topics, "topic-that-does-not-exist"]
        return self._random.sample(names, self._random.randint(1, len(names)))

    def _join(self, count: int) -> None:
        for _ in range(count):
            has_rack = self._has_racks and self._random.random() < 0.9
            self._members[f"consumer-{self._random.randrange(1 << 48):x}"] = {
                "topics": self._same if self._is_alike else self._wishes(),
                "instance": f"i{self._random.randrange(10**6)}" if self._random.random() < 0.2 else None,
                "rack": self._random.choice(RACKS) if has_rack else None,
                "owned": [],
                "generation": -1,
            }

    def question(self) -> dict[str, Any]:
        members = {}
        for member_id, member in self._members.items():
            owned: list[TopicPartition] = member["owned"]
            generation: int = member["generation"]
            said = write_subscription(
                member["topics"],
                owned=owned if self._assignor.is_cooperative else (),
                generation=generation,
                rack=member["rack"],
                user_data=self._assignor.user_data(owned, generation) if generation >= 0 else None,
            )
            members[member_id] = {"instance": member["instance"], "subscription": base64.b64encode(said).decode()}
        return {"assignor": self._assignor.name, "topics": self._topics, "members": members}

    def move_on(self, assignment: Assignment) -> None:
        """Take the assignment over, then let something change."""
        random = self._random
        self._generation += 1
        for member_id, member in self._members.items():
            if random.random() < 0.9:  # some miss a rebalance, and claim what they had
                member["owned"], member["generation"] = assignment[member_id], self._generation
        for _ in range(random.randint(0, 2)):
            change = random.random()
            if change < 0.35:
                self._join(random.randint(1, 3))
            elif change < 0.7 and len(self._members) > 1:
                del self._members[random.choice(list(self._members))]
            elif change < 0.8:
                self._topics[random.choice(list(self._topics))] += [self._replicas() for _ in range(3)]
            elif change < 0.9:
                self._topics[f"new-{random.randrange(1000)}"] = [self._replicas() for _ in range(random.randint(1, 5))]
            else:
                self._same = self._wishes()
                for member in self._members.values():
                    if self._is_alike or random.random() < 0.5:
                        member["topics"] = self._same if self._is_alike else self._wishes()


def ours(question: dict[str, Any]) -> Assignment:
    (assignor,) = load_assignors([question["assignor"]])
    members = [
        member._replace(instance_id=question["members"][member_id]["instance"])
        for member_id, member in members_of(question).items()
    ]
    wanted = {topic for member in members for topic in member.topics}
    topics = {name: [frozenset(racks) for racks in each] for name, each in question["topics"].items() if name in wanted}
    return assignor.assign(topics, members)


def theirs(tools: KafkaTools, questions: list[dict[str, Any]], path: Path) -> list[Assignment | None]:
    path.write_text("".join(json.dumps(question) + "\n" for question in questions))
    answers = map(json.loads, tools.run("Assignors.java", str(path)).splitlines())
    return [
        answer and {member_id: read_assignment(base64.b64decode(said)) for member_id, said in answer.items()}
        for answer in answers
    ]


def in_order(assignment: Assignment) -> dict[str, list[TopicPartition]]:
    return {member_id: sorted(partitions) for member_id, partitions in sorted(assignment.items())}


def test_assignments_are_those_of_kafkas_client(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    assignors = load_assignors(["range", "roundrobin", "sticky", "cooperative-sticky"])
    groups = [
        GroupMaker(seed, assignor, has_racks=has_racks, is_alike=is_alike)
        for assignor in assignors
        for has_racks in (False, True)
        for is_alike in (False, True)
        for seed in range(GROUPS)
    ]
    failures = 0
    for _ in range(ROUNDS):
        questions = [group.question() for group in groups]
        answers = theirs(kafka_tools, questions, tmp_path / "groups")
        for group, question, expected in zip(groups, questions, answers, strict=True):
            found = ours(question)
            check_valid(found, question)
            if expected is None or not is_wanted(expected, question):
                failures += 1  # its sticky assignors have these two bugs, and ours has neither
            else:
                assert in_order(found) == in_order(expected), json.dumps(question)
            group.move_on(found)
    assert failures < ROUNDS * GROUPS / 4, failures


def members_of(question: dict[str, Any]) -> dict[str, Member]:
    return {
        member_id: read_subscription(member_id, None, base64.b64decode(member["subscription"]))
        for member_id, member in question["members"].items()
    }


def is_wanted(assignment: Assignment, question: dict[str, Any]) -> bool:
    """Nobody has what it does not want."""
    members = members_of(question)
    return all(
        partition.topic in members[member_id].topics
        for member_id, partitions in assignment.items()
        for partition in partitions
    )


def check_valid(assignment: Assignment, question: dict[str, Any]) -> None:
    """Everything is had once by somebody who wants it; except what is about to move."""
    assert is_wanted(assignment, question)
    members = members_of(question)
    had = [partition for partitions in assignment.values() for partition in partitions]
    assert len(had) == len(set(had))
    wanted = {topic for member in members.values() for topic in member.topics}
    everything = {
        TopicPartition(topic, number)
        for topic, partitions in question["topics"].items()
        if topic in wanted
        for number in range(len(partitions))
    }
    moving = {partition for member in members.values() for partition in member.owned}
    assert everything - set(had) <= (moving if question["assignor"] == "cooperative-sticky" else set())
