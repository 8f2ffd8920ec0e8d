"""Assignors and the hash of a group's topics, beside the classes of Apache Kafka on the same input."""

from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from headrace.coordinator.assignors import ASSIGNORS
from headrace.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from headrace.coordinator.topic_hashes import TopicHashes
from tests.support.group_images import image_of
from tests.support.group_parts import ask_kafka
from tests.support.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

GROUPS: Final = 400  # of each kind; every one is assigned several times, with members coming and going
ROUNDS: Final = 4


class GroupMaker:
    """A group of random size whose members come, go and change their minds."""

    def __init__(self, random: Random, *, assignor: str, is_homogeneous: bool) -> None:
        self._random = random
        self.assignor = assignor
        self.is_homogeneous = is_homogeneous
        # Where members want the same, Kafka goes through topics in the order of their hashes, which for small ids is
        # that of the ids; elsewhere it sorts them, as pairs of signed numbers.
        count = random.randint(1, 9)
        ids = [number.to_bytes(16, "big") if is_homogeneous else random.randbytes(16) for number in range(1, count + 1)]
        self.partition_counts = {topic_id: random.choice([1, 2, 3, 5, 8, 13, 40]) for topic_id in ids}
        self.members: dict[str, MemberSpec] = {}
        self._next = 0
        for _ in range(random.choice([1, 2, 3, 7, 20])):
            self._join()

    def spec(self) -> GroupSpec:
        return GroupSpec(dict(self.members), self.is_homogeneous, dict(self.partition_counts))

    def question(self) -> dict[str, Any]:
        return {
            "assignor": self.assignor,
            "homogeneous": self.is_homogeneous,
            "partitions": {topic_id.hex(): count for topic_id, count in self.partition_counts.items()},
            "members": {
                member_id: {
                    "instance": member.instance_id,
                    "topics": [topic_id.hex() for topic_id in member.topic_ids],
                    "assigned": shown(member.assigned),
                }
                for member_id, member in self.members.items()
            },
        }

    def move_on(self, assigned: dict[str, Assignment]) -> None:
        """Take the assignment over, then let something change."""
        for member_id, member in self.members.items():
            self.members[member_id] = member._replace(assigned=assigned.get(member_id, {}))
        random = self._random
        for _ in range(random.randint(1, 3)):
            change = random.random()
            if change < 0.4:
                self._join()
            elif change < 0.7 and len(self.members) > 1:
                del self.members[random.choice(list(self.members))]
            elif change < 0.85:
                self.partition_counts[random.choice(list(self.partition_counts))] += random.randint(1, 5)
            else:
                self._change_minds()

    def _join(self) -> None:
        self._next += 1
        name = f"{self._random.randrange(1 << 32):08x}-{self._next}"
        instance_id = f"instance-{self._random.randrange(1000)}" if self._random.random() < 0.3 else None
        self.members[name] = MemberSpec(instance_id, self._wishes(), {})

    def _wishes(self) -> tuple[bytes, ...]:
        if self.is_homogeneous and self.members:
            return tuple(next(iter(self.members.values())).topic_ids)
        ids = list(self.partition_counts)
        return tuple(sorted(self._random.sample(ids, self._random.randint(0, len(ids)))))

    def _change_minds(self) -> None:
        changing = list(self.members) if self.is_homogeneous else [self._random.choice(list(self.members))]
        ids = list(self.partition_counts)
        wishes = tuple(sorted(self._random.sample(ids, self._random.randint(0, len(ids)))))
        for member_id in changing:
            self.members[member_id] = self.members[member_id]._replace(topic_ids=wishes)


def shown(assignment: Assignment) -> dict[str, list[int]]:
    return {topic_id.hex(): list(partitions) for topic_id, partitions in assignment.items()}


@pytest.mark.parametrize("is_homogeneous", [True, False])
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_an_assignor_gives_what_kafkas_gives(
    kafka_tools: KafkaTools, tmp_path: Path, assignor: str, is_homogeneous: bool
) -> None:
    random = Random(f"{assignor} {is_homogeneous}")
    questions, ours = [], []
    for _ in range(GROUPS):
        maker = GroupMaker(random, assignor=assignor, is_homogeneous=is_homogeneous)
        for _ in range(ROUNDS):
            questions.append(maker.question())
            assigned = ASSIGNORS[assignor](maker.spec())
            ours.append({member_id: shown(assignment) for member_id, assignment in assigned.items()})
            maker.move_on(assigned)
    theirs = ask_kafka(kafka_tools, tmp_path, "assign", questions)
    for question, our, their in zip(questions, ours, theirs, strict=True):
        assert our == their, question


def test_the_hash_of_a_groups_topics_is_kafkas(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    random = Random("hashes")
    racks = [None, "a", "eu-west-1b", "rack with spaces", "é"]
    questions, ours = [], []
    for _ in range(200):
        brokers = {number: random.choice(racks) for number in range(4)}
        topics = {
            f"topic-{number}" + "x" * random.choice([0, 3, 60]): [
                random.sample(range(5), random.randint(1, 4)) for _ in range(random.choice([1, 2, 5, 40, 300]))
            ]
            for number in range(random.randint(0, 4))
        }
        image = image_of(topics, brokers)
        questions.append(
            {
                "topics": [
                    {
                        "name": topic.name,
                        "id": topic.topic_id.hex(),
                        "racks": [
                            [rack for replica in partition.replicas if (rack := brokers.get(replica)) is not None]
                            for partition in topic.partitions.values()
                        ],
                    }
                    for topic in image.topics.values()
                ]
            }
        )
        ours.append(TopicHashes(image).of_topics(topics))
    assert ours == ask_kafka(kafka_tools, tmp_path, "hash", questions)
    assert 0 in ours
    assert min(ours) < 0 < max(ours)
