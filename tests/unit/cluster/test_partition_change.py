"""The next state of a partition, beside what Apache Kafka's own controller makes of the same cases, byte by byte."""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from headrace.cluster.delta import merge
from headrace.cluster.image import EMPTY_IMAGE, NO_LEADER, Broker, Image, Partition
from headrace.cluster.metadata_records import decode_record, encode_record, record_version
from headrace.cluster.partition_change import Election, Surroundings, Wish, change_partition
from headrace.protocol.messages.metadata_records import PartitionChangeRecord
from tests.support.kafka_tools import KafkaTools

BROKERS = range(1, 7)
TOPIC_ID = struct.pack(">qq", 7, 7)
INDEX = 3
CASES = 6000


def directory(broker_id: int) -> bytes:
    return struct.pack(">qq", 1000 + broker_id, 1)


class Case(NamedTuple):
    metadata_version: int
    elr_enabled: bool
    min_insync_replicas: int
    partition: Partition
    alive: frozenset[int]
    wish: Wish

    def line(self) -> str:
        """The case as PartitionChanges.java reads it."""
        partition, wish = self.partition, self.wish
        fields = [
            str(self.metadata_version),
            str(int(self.elr_enabled)),
            str(self.min_insync_replicas),
            wish.election.name,
            *map(_ids, (partition.replicas, partition.isr)),
            str(partition.leader),
            *map(_ids, (partition.removing_replicas, partition.adding_replicas)),
            *map(_ids, (partition.elr, partition.last_known_elr)),
            str(int(partition.recovering)),
            _ids(sorted(self.alive)),
            *(_ids(each) for each in (wish.isr, wish.replicas, wish.removing_replicas, wish.adding_replicas)),
            "=" if wish.lost_data is None else str(wish.lost_data),
            "=" if wish.recovering is None else str(int(wish.recovering)),
        ]
        return " ".join(fields)

    def answer(self) -> PartitionChangeRecord | None:
        around = Surroundings(self.image(), self.min_insync_replicas, self.alive.__contains__)
        return change_partition(TOPIC_ID, INDEX, self.partition, self.wish, around)

    def image(self) -> Image:
        levels = {"metadata.version": self.metadata_version, "eligible.leader.replicas.version": int(self.elr_enabled)}
        brokers = {
            each: Broker(each, 0, bytes(16), (), (), None, False, False, (directory(each),), None, False)
            for each in BROKERS
        }
        return EMPTY_IMAGE._replace(features=levels, brokers=brokers)


def _ids(ids: Iterable[int] | None) -> str:
    return "=" if ids is None else ",".join(map(str, ids)) or "-"


def any_case(random: Random) -> Case:
    metadata_version = random.choice([11, 16, 20, 30, 30, 30])
    elr_enabled = metadata_version >= 23 and random.random() < 0.7
    replicas = random.sample(BROKERS, random.randint(1, 4))
    isr = random.sample(replicas, random.randint(0 if elr_enabled else 1, len(replicas)))
    leader = random.choice([*isr, *isr, NO_LEADER]) if isr else NO_LEADER
    rest = [each for each in replicas if each not in isr]
    elr = sorted(random.sample(rest, random.randint(0, len(rest)))) if elr_enabled else []
    last_known = [random.choice(replicas)] if elr_enabled and leader == NO_LEADER and random.random() < 0.8 else []
    adding = random.sample(replicas, random.randint(0, len(replicas) - 1)) if random.random() < 0.3 else []
    removing = [each for each in replicas if each not in adding and random.random() < 0.3] if adding else []
    partition = Partition(
        tuple(replicas),
        tuple(isr),
        leader,
        5,
        9,
        tuple(map(directory, replicas)),
        tuple(adding),
        tuple(removing),
        tuple(elr),
        tuple(last_known),
        recovering=random.random() < 0.2,
    )
    alive = frozenset(each for each in BROKERS if random.random() < 0.7)
    wish = _any_wish(random, partition)._replace(election=random.choice(list(Election)))
    if wish.recovering is not None:
        alive |= set(wish.isr or ())  # who reports, and whom it reports, is alive
    elif wish.isr is not None:
        alive -= set(partition.isr) - set(wish.isr)
    return Case(metadata_version, elr_enabled, random.randint(1, len(replicas)), partition, alive, wish)


def _any_wish(random: Random, partition: Partition) -> Wish:
    kind = random.randrange(5)
    if kind == 0:  # a broker goes
        gone = random.choice(BROKERS)
        isr = [each for each in partition.isr if each != gone]
        return Wish(isr=isr, lost_data=gone if random.random() < 0.5 else None)
    if kind == 1 and partition.leader != NO_LEADER:  # the leader reports
        others = [each for each in partition.replicas if each != partition.leader and random.random() < 0.6]
        still = partition.recovering and not others and random.random() < 0.5
        return Wish(isr=[partition.leader, *others], recovering=still)
    if kind == 2:  # a reassignment begins
        target = random.sample(BROKERS, random.randint(1, 4))
        removing = sorted(set(partition.replicas) - set(target))
        adding = sorted(set(target) - set(partition.replicas))
        return Wish(replicas=[*target, *removing], removing_replicas=removing, adding_replicas=adding)
    if kind == 3 and partition.is_reassigning:  # and is given up
        replicas = [each for each in partition.replicas if each not in partition.adding_replicas]
        isr = [each for each in partition.isr if each not in partition.adding_replicas]
        return Wish(isr=isr or replicas[:1], replicas=replicas, removing_replicas=(), adding_replicas=())
    return Wish()  # an election


def _is_on_purpose(case: Case, theirs: PartitionChangeRecord) -> bool:
    """Where we differ: nobody is eligible, or remembered as last leader, who holds no replica, and -1 was no leader."""
    target = set(case.partition.replicas if theirs.replicas is None else theirs.replicas)
    elr = case.partition.elr if theirs.eligible_leader_replicas is None else theirs.eligible_leader_replicas
    return (
        not set(elr) <= target
        or not set(case.partition.last_known_elr) <= target
        or NO_LEADER in (theirs.last_known_elr or ())
    )


@pytest.mark.kafka
def test_partitions_change_as_they_do_in_apache_kafka(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    random = Random(20260)
    cases = [any_case(random) for _ in range(CASES)]
    lines = tmp_path / "cases.txt"
    lines.write_text("".join(f"{case.line()}\n" for case in cases))
    program = Path(__file__).with_name("PartitionChanges.java")
    answers = kafka_tools.run(str(program), str(lines)).splitlines()
    assert len(answers) == CASES
    on_purpose = 0
    for case, answer in zip(cases, answers, strict=True):
        ours = case.answer()
        encoded = "none" if ours is None else encode_record(ours, record_version(ours, case.metadata_version)).hex()
        if encoded != answer:
            theirs = PartitionChangeRecord() if answer == "none" else decode_record(bytes.fromhex(answer))
            assert isinstance(theirs, PartitionChangeRecord)
            assert _is_on_purpose(case, theirs), f"{case}\nours   {ours}\ntheirs {theirs}"
            on_purpose += 1
    assert on_purpose < CASES / 20


def test_any_change_leaves_a_partition_that_makes_sense() -> None:
    random = Random(4711)
    for _ in range(3000):
        case = any_case(random)
        record = case.answer()
        if record is None:
            continue
        after = merge(case.partition, record)
        replicas = set(after.replicas)
        assert set(after.isr) <= replicas, case
        assert set(after.elr) <= replicas - set(after.isr), case
        assert len(after.directories) == len(after.replicas), case
        assert after.leader_epoch >= 5, case
        assert after.partition_epoch == 10, case
        if after.leader not in (NO_LEADER, case.partition.leader):
            assert after.leader in case.alive, case
            assert after.leader in after.isr, case
        if after.recovering and not case.partition.recovering and case.wish.recovering is None:
            assert after.isr == (after.leader,), case


def elected(partition: Partition, wish: Wish, alive: Sequence[int], **changes: int) -> Partition:
    case = Case(30, bool(changes.get("elr", 1)), changes.get("min_isr", 2), partition, frozenset(alive), wish)
    record = case.answer()
    return partition if record is None else merge(partition, record)


THREE = Partition((1, 2, 3), (1, 2, 3), 1, 5, 9, (directory(1), directory(2), directory(3)))


def test_who_leaves_a_small_isr_stays_eligible_and_leads_again_from_there() -> None:
    only_one = elected(THREE, Wish(isr=[1]), [1])
    assert (only_one.leader, only_one.isr, only_one.elr) == (1, (1,), (2, 3))
    nobody = elected(only_one, Wish(isr=[]), [])
    assert (nobody.leader, nobody.isr, nobody.elr, nobody.last_known_elr) == (NO_LEADER, (), (1, 2, 3), (1,))
    back = elected(nobody, Wish(), [3])
    assert (back.leader, back.isr, back.elr, back.recovering) == (3, (3,), (1, 2), False)
    assert back.last_known_elr == ()


def test_a_replica_that_lost_data_is_not_eligible_and_the_last_leader_comes_back_recovering() -> None:
    alone = THREE._replace(isr=(1,))
    gone = elected(alone, Wish(isr=[], lost_data=1), [])
    assert (gone.leader, gone.isr, gone.elr, gone.last_known_elr) == (NO_LEADER, (), (), (1,))
    still = elected(gone, Wish(), [2, 3])
    assert still.leader == NO_LEADER
    back = elected(gone, Wish(), [1, 2, 3])
    assert (back.leader, back.isr, back.recovering) == (1, (1,), True)


def test_without_elr_the_last_isr_stays_and_one_of_it_must_come_back() -> None:
    gone = elected(THREE._replace(isr=(1,)), Wish(isr=[]), [], elr=0)
    assert (gone.leader, gone.isr) == (NO_LEADER, (1,))
    assert elected(gone, Wish(), [2, 3], elr=0).leader == NO_LEADER
    unclean = elected(gone, Wish(election=Election.UNCLEAN), [2, 3], elr=0)
    assert (unclean.leader, unclean.isr, unclean.recovering) == (2, (2,), True)
    clean = elected(gone, Wish(), [1], elr=0)
    assert (clean.leader, clean.isr, clean.recovering) == (1, (1,), False)


def test_a_reassignment_ends_when_all_that_were_added_are_in_sync() -> None:
    begun = elected(
        THREE, Wish(replicas=[4, 5, 1, 2, 3], adding_replicas=[4, 5], removing_replicas=[2, 3]), [1, 2, 3, 4, 5]
    )
    assert begun.is_reassigning
    assert begun.leader_epoch == 5
    half = elected(begun, Wish(isr=[1, 2, 3, 4]), [1, 2, 3, 4, 5])
    assert half.is_reassigning
    done = elected(half, Wish(isr=[1, 2, 3, 4, 5]), [1, 2, 3, 4, 5])
    assert (done.replicas, done.isr, done.is_reassigning) == ((4, 5, 1), (1, 4, 5), False)
    assert (done.leader, done.leader_epoch) == (1, 6)
    assert done.directories == (directory(4), directory(5), directory(1))


def test_a_leader_that_is_reassigned_away_hands_over() -> None:
    begun = elected(THREE, Wish(replicas=[2, 3, 4, 1], adding_replicas=[4], removing_replicas=[1]), [1, 2, 3, 4])
    done = elected(begun, Wish(isr=[1, 2, 3, 4]), [1, 2, 3, 4])
    assert (done.leader, done.leader_epoch, done.replicas) == (2, 6, (2, 3, 4))
