"""Twenty members come and go: each record is processed, no partition has two owners, no commit goes back.

HEADRACE_STORM_LIVES says how often each of the twenty places is taken, and HEADRACE_STORM_SEED how the members behave;
a test that fails tells its seed. What was committed is read from the broker's own log, which has the order of it.
"""

import os
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import headrace
from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.internal_records import decode_coordinator_record
from headrace.protocol.messages.group_records import OffsetCommitKey
from tests.support.broker_process import BrokerProcess
from tests.support.group_histories import Breach, Did, Event, GroupHistory, check
from tests.support.storm_member import Life, StormMember
from tests.support.topic_reading import read_topic
from tests.support.waiting import wait_until

LIVES: Final = int(os.environ.get("HEADRACE_STORM_LIVES", "3"))
SEED: Final = os.environ.get("HEADRACE_STORM_SEED", "1")
PLACES: Final = 20
STATIC: Final = 3  # of them
PARTITIONS: Final = 24
TOPIC: Final = "work"
GROUP: Final = "storm"
SECONDS: Final = 240.0  # for all of it; only a group that hangs takes so long
# Those who stop without a word are noticed soon.
SESSION_MS: Final = 2000
HEARTBEAT_MS: Final = 100
BROKER: Final = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.assignment.interval.ms": "0",
}
CLASSIC: Final = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "classic, range": {**CLASSIC, "partition_assignment_strategy": ["range"]},
    "classic, cooperative": {**CLASSIC, "partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_storm_of_rebalances_loses_nothing_and_shares_nothing(tmp_path: Path, protocol: str) -> None:
    history = GroupHistory()
    configs = {"group": GROUP, "retry_backoff_ms": 10, **PROTOCOLS[protocol]}

    def a_life(number: int) -> Callable[[str], Life]:
        own = {"group_instance_id": f"static-{number}"} if number < STATIC else {}
        return lambda name: Life(name, broker.bootstrap, TOPIC, {**configs, **own}, history)

    with BrokerProcess(tmp_path, configs=BROKER) as broker:
        with headrace.Admin(broker.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        members = [
            StormMember(f"m{number}", a_life(number), Random(f"{SEED} {protocol} {number}"), lives=LIVES)
            for number in range(PLACES)
        ]
        for member in members:
            member.start()
        ends = produce_while(broker.bootstrap, members)
        for member in members:
            assert member.fault is None, (member.name, member.fault)
        finish(broker.bootstrap, configs, history, ends)
        commits = commits_of_group(broker.bootstrap)
        broker.check_log()
    lost = sum(event.did is Did.LOST for event in history.events)
    owned = sum(event.did is Did.OWNS for event in history.events)
    told = f"seed {SEED}; {sum(ends.values())} records, {len(commits)} commits, {owned} times owned, {lost} times lost"
    assert check(history.events, ends, commits) == [], told
    assert lost < owned / 2, told  # what was lost is not judged
    assert sum(member.crashes for member in members) > 0, told
    print(told)


def produce_while(bootstrap: str, members: list[StormMember]) -> dict[int, int]:
    """Records for all partitions as long as the members live; how many each partition got."""
    ends = dict.fromkeys(range(PARTITIONS), 0)
    places = cycle(ends)
    with headrace.Producer(bootstrap) as producer:

        def send_and_look() -> bool:
            partition = next(places)
            producer.send(TOPIC, str(ends[partition]), partition=partition)
            ends[partition] += 1
            return not any(member.is_alive() for member in members)

        wait_until(send_and_look, "the end of all members", seconds=SECONDS)
    return ends


def finish(bootstrap: str, configs: dict[str, Any], history: GroupHistory, ends: dict[int, int]) -> None:
    """One more member does what is left, where the others have committed."""
    last = Life("last", bootstrap, TOPIC, configs, history)
    places = [headrace.TopicPartition(TOPIC, number) for number in ends]

    def is_done() -> bool:
        return (
            not last.work()
            and last.consumer.assignment() == set(places)
            and all(last.consumer.position(place) == ends[place.partition] for place in places)
        )

    wait_until(is_done, "the end of the topic", seconds=SECONDS)
    last.end()


def commits_of_group(bootstrap: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for record in read_topic(bootstrap, "__consumer_offsets"):
        entry = decode_coordinator_record(GROUP_RECORDS, record.key, record.value)
        if isinstance(entry.key, OffsetCommitKey) and entry.value is not None:
            found.append((entry.key.partition, entry.value.offset))
    return found


# The judge


def good() -> list[Event]:
    """Two members, one after the other; the first does not commit its last record, so the second does it again."""
    return [
        Event(Did.OWNS, "a", 0),
        Event(Did.PROCESSED, "a", 0, 0),
        Event(Did.COMMITS, "a", 0, 1),
        Event(Did.PROCESSED, "a", 0, 1),
        Event(Did.GAVE_UP, "a", 0),
        Event(Did.OWNS, "b", 0),
        Event(Did.PROCESSED, "b", 0, 1),
        Event(Did.COMMITS, "b", 0, 2),
        Event(Did.IS_GONE, "b"),
    ]


def breaches(events: list[Event], *, end: int = 2, commits: tuple[int, ...] = (1, 2)) -> set[Breach]:
    return {violation.breach for violation in check(events, {0: end}, [(0, offset) for offset in commits])}


def test_a_good_history_breaks_no_promise() -> None:
    assert breaches(good()) == set()
    assert breaches(good(), commits=(1, 1, 2)) == set()


def test_a_record_that_nobody_processed_is_found() -> None:
    assert breaches(good(), end=3) == {Breach.UNPROCESSED}


def test_a_second_owner_is_found() -> None:
    events = good()
    events[4], events[5] = events[5], events[4]
    assert breaches(events) == {Breach.TWO_OWNERS}
    events = good()
    del events[4]
    assert breaches(events) == {Breach.TWO_OWNERS}
    events[4:4] = [Event(Did.IS_GONE, "a")]
    assert breaches(events) == set()


def test_a_member_that_was_thrown_out_does_not_count_as_a_second_owner() -> None:
    events = good()
    del events[4]
    assert breaches([*events, Event(Did.LOST, "a", 0)]) == set()
    again = [*events, Event(Did.LOST, "a", 0), Event(Did.OWNS, "c", 0), Event(Did.OWNS, "a", 0)]
    assert breaches(again) == {Breach.TWO_OWNERS}


def test_work_at_what_is_not_owned_is_found() -> None:
    events = good()
    events.insert(5, Event(Did.PROCESSED, "a", 0, 1))
    assert breaches(events) == {Breach.NOT_OWNED}


def test_a_commit_of_what_is_not_done_is_found() -> None:
    events = good()
    events[2] = Event(Did.COMMITS, "a", 0, 2)
    assert breaches(events) == {Breach.TOO_FAR}


def test_a_commit_that_goes_back_is_found() -> None:
    assert breaches(good(), commits=(2, 1, 2)) == {Breach.WENT_BACK}
