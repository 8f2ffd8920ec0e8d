"""A topic is copied in transactions while copiers and the broker are killed: each record has one copy, all or none.

Copiers are processes that end by kill -9 at any moment and are started again, like the broker. A reader of what is
committed watches all the time, and must have seen exactly what is there in the end. HEADRACE_KILLS says how often
something is killed, and HEADRACE_KILL_SEED when; a test that fails tells its seed.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import headrace
from tests.support.broker_process import BrokerProcess
from tests.support.copier import GROUP, SOURCE, TARGET, CopierProcess
from tests.support.copies import Breach, Copy, by_partition, check
from tests.support.kills import KILLS, SEED, stay_a_moment
from tests.support.waiting import wait_until

COPIERS: Final = 3
PARTITIONS: Final = 4
BROKER_EVERY: Final = 4  # of so many kills one is the broker's
SECONDS: Final = 120.0  # only what hangs takes so long
BROKER: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "200",
}
PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "classic": {"session_timeout_ms": 2000, "heartbeat_interval_ms": 200},
    "consumer": {"group_protocol": "consumer"},
}
PLACES: Final = [headrace.TopicPartition(SOURCE, number) for number in range(PARTITIONS)]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_record_is_copied_once_whoever_is_killed(tmp_path: Path, protocol: str) -> None:
    random = Random(f"{SEED} {protocol}")
    log = tmp_path / "copiers.log"
    with BrokerProcess(tmp_path, configs=BROKER) as broker, ExitStack() as stack:
        with headrace.Admin(broker.bootstrap) as admin:
            admin.create_topic(SOURCE, partitions=PARTITIONS)
            admin.create_topic(TARGET, partitions=PARTITIONS)
        watcher = stack.enter_context(watching(broker.bootstrap))
        copiers = [
            CopierProcess(broker.bootstrap, f"copier-{number}", PROTOCOLS[protocol], log) for number in range(COPIERS)
        ]
        for copier in copiers:
            stack.callback(copier.kill)
            copier.start()
        with feeding(broker.bootstrap) as ends:
            for number in range(KILLS):
                watcher.wait_for(random.randrange(100))
                stay_a_moment(random.random() * 0.05)
                victim = broker if number % BROKER_EVERY == BROKER_EVERY - 1 else random.choice(copiers)
                victim.kill()
                victim.start()
        wait_until(lambda: committed(broker.bootstrap) == ends, f"the end; {log.read_text()}", seconds=SECONDS)
        for copier in copiers:
            copier.kill()
        seen = by_partition(read_committed(broker.bootstrap))
        count = sum(map(len, seen.values()))
        wait_until(lambda: len(watcher.seen) >= count, "what the watcher sees")
        broker.check_log()
    assert "Traceback" not in log.read_text(), log.read_text()
    told = f"{sum(ends.values())} records, {count} copies, {KILLS} kills, seed {SEED}"
    assert check(ends, seen, by_partition(watcher.seen)) == [], told
    print(told)


@contextmanager
def feeding(bootstrap: str) -> Iterator[dict[int, int]]:
    """Records for the source as long as the block runs; how many each partition has in the end."""
    is_over = threading.Event()
    ends = dict.fromkeys(range(PARTITIONS), 0)

    def feed() -> None:
        with headrace.Producer(bootstrap) as producer:
            for partition in cycle(ends):
                if is_over.wait(0.003):  # so slowly that copiers keep up
                    return
                producer.send(SOURCE, str(ends[partition]), partition=partition)
                ends[partition] += 1

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield ends
    finally:
        is_over.set()
        thread.join(SECONDS)
    assert not thread.is_alive(), "the source does not get its last records"


class Watcher:
    def __init__(self, consumer: headrace.Consumer) -> None:
        self._consumer = consumer
        self.seen: list[tuple[int, Copy]] = []

    def run(self) -> None:
        with suppress(headrace.WakeupError):
            for record in self._consumer:
                self.seen.append((record.partition, Copy.decode(record.value)))

    def wait_for(self, count: int) -> None:
        """So many more."""
        wanted = len(self.seen) + count
        wait_until(lambda: len(self.seen) >= wanted, f"{wanted} copies", seconds=SECONDS)


@contextmanager
def watching(bootstrap: str) -> Iterator[Watcher]:
    """A reader of what is committed in the target, from now on."""
    with headrace.Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([headrace.TopicPartition(TARGET, number) for number in range(PARTITIONS)])
        watcher = Watcher(consumer)
        thread = threading.Thread(target=watcher.run, daemon=True)
        thread.start()
        yield watcher
        consumer.wakeup()
        thread.join(SECONDS)
        assert not thread.is_alive()


def committed(bootstrap: str) -> dict[int, int]:
    """What the group has committed of the source."""
    with headrace.Consumer(bootstrap, group=GROUP) as consumer:
        found = consumer.committed(PLACES)
    return {place.partition: 0 if offset is None else offset.offset for place, offset in found.items()}


def read_committed(bootstrap: str) -> list[tuple[int, Copy]]:
    """All of the target, by a reader that was not there before."""
    found: list[tuple[int, Copy]] = []
    with headrace.Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        places = [headrace.TopicPartition(TARGET, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)

        def is_done() -> bool:
            found.extend((record.partition, Copy.decode(record.value)) for record in consumer.poll(0.1))
            return all(consumer.position(place) == ends[place] for place in places)

        wait_until(is_done, f"{ends}", seconds=SECONDS)
    return found


# The judge

GOOD: Final = [Copy(0, "a", 2, False), Copy(1, "a", 2, False), Copy(2, "b", 1, False)]


def breaches(copies: list[Copy], *, end: int = 3, before: list[Copy] | None = None) -> set[Breach]:
    return {found.breach for found in check({0: end}, {0: copies}, {0: copies if before is None else before})}


def test_a_good_copy_breaks_no_promise() -> None:
    assert breaches(GOOD) == set()
    assert [Copy.decode(copy.encode().encode()) for copy in GOOD] == GOOD


def test_bad_copies_are_found() -> None:
    assert breaches(GOOD, end=4) == {Breach.LOST}
    assert breaches([*GOOD, Copy(2, "c", 1, False)]) == {Breach.DOUBLED}
    assert breaches(GOOD, end=2) == {Breach.INVENTED}
    assert breaches([GOOD[1], GOOD[0], GOOD[2]]) == {Breach.REORDERED}
    assert breaches([*GOOD[:2], Copy(2, "b", 1, True)]) == {Breach.ABORTED}
    assert breaches([*GOOD[:2], Copy(2, "b", 2, False)]) == {Breach.HALF}
    assert breaches(GOOD, before=GOOD[:2]) == {Breach.UNSTEADY}
    assert breaches(GOOD[:2], end=2, before=GOOD) == {Breach.UNSTEADY}
