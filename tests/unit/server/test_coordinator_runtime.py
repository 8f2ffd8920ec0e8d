"""The road around a shard, with a shard that remembers numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.cluster.image import Image
from headrace.cluster.snapshot import image_records
from headrace.coordinator.deadlines import Deadlines
from headrace.coordinator.result import Answer, Marking, Producer, Step, Ticket, answer
from headrace.log.config import UNLIMITED
from headrace.log.memory_fs import MemoryFileSystem
from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.text_hash import spread
from headrace.server import coordinator_place, coordinator_runtime
from headrace.server.clock import MovableClock
from headrace.server.coordinator_runtime import CoordinatorRuntime
from headrace.server.later import Later
from headrace.server.transaction_markers import TransactionMarkers
from tests.support.one_node import OneNode

TOPIC = "__consumer_offsets"
PARTITIONS = 3
OFFSET_COMMIT = next(each for each in GROUP_RECORDS.values() if each.name == "OffsetCommit")


class Numbers:
    """Keeps one number for each group. Who waits for a group hears of its next number."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.numbers: dict[str, int] = {}
        self.undecided: dict[int, list[tuple[str, int]]] = {}
        self.waiting: list[Ticket] = []
        self.deadlines: Deadlines[str] = Deadlines()

    def replay(self, record: CoordinatorRecord, *, producer_id: int = -1) -> None:
        number = record.value.offset if record.value is not None else 0
        if producer_id == -1:
            self.numbers[record.key.group] = number
        else:
            self.undecided.setdefault(producer_id, []).append((record.key.group, number))

    def replay_end(self, producer: Producer, *, committed: bool) -> None:
        for group, number in self.undecided.pop(producer.producer_id, []):
            if committed:
                self.numbers[group] = number

    def loaded(self, now_ms: int) -> None:
        if "overdue" in self.numbers:
            self.deadlines.set("overdue", now_ms - 1)

    @property
    def next_deadline_ms(self) -> int | None:
        return self.deadlines.next_ms

    def tick(self, now_ms: int) -> Iterator[Step]:
        while (group := self.deadlines.pop_due(now_ms)) is not None:
            yield Step((number_of(group, -1),))

    def clock_set(self, by_ms: int) -> None:
        self.deadlines.shift(by_ms)

    def image_changed(self, image: Image, now_ms: int) -> Iterator[Step]:
        self.image = image
        yield from ()

    # Decisions

    def set(self, group: str, number: int, ticket: Ticket, producer: Producer | None = None) -> Step:
        waiting, self.waiting = self.waiting, []
        told = [Answer(each, number) for each in waiting]
        return Step((number_of(group, number),), (Answer(ticket, number), *told), producer)

    def wait(self, ticket: Ticket) -> Step:
        self.waiting.append(ticket)
        return Step()


def number_of(group: str, number: int) -> CoordinatorRecord:
    return CoordinatorRecord(OFFSET_COMMIT, OffsetCommitKey(group, "t", 0), 3, OffsetCommitValue(number))


class Place:
    """A node, and the runtime on it."""

    def __init__(self, fs: MemoryFileSystem | None = None, *, flush_messages: str = str(UNLIMITED)) -> None:
        self.node = OneNode(fs)
        self.node.create_topic(TOPIC, PARTITIONS, cleanup_policy="compact", flush_messages=flush_messages)
        self.marked: list[tuple[Marking, int]] = []
        self.runtime = self.new_runtime()

    def new_runtime(self) -> CoordinatorRuntime[Numbers]:
        runtime = CoordinatorRuntime(
            TOPIC,
            GROUP_RECORDS,
            Numbers,
            self.node.partitions,
            self.node.clock,
            lambda marking, epoch, _: self.marked.append((marking, epoch)),
        )
        runtime.start(self.node.controller.image)
        self.node.controller.subscribe(runtime.image_changed)
        return runtime

    def set(self, group: str, number: int, **options: Any) -> "int | ErrorCode | Later[int | ErrorCode]":
        return self.runtime.submit(group, lambda shard, ticket: shard.set(group, number, ticket), refused, **options)

    def wait(self, group: str) -> "Later[int | ErrorCode]":
        waiting = self.runtime.submit(group, lambda shard, ticket: shard.wait(ticket), refused)
        assert isinstance(waiting, Later)
        return waiting

    def get(self, group: str) -> "Later[int | ErrorCode | None]":
        return self.runtime.look(group, lambda shard: shard.numbers.get(group), refused)


def too_large(_: Numbers, ticket: Ticket) -> Step:
    """What no log takes: more than max.message.bytes."""
    return Step(tuple(number_of(str(each) * 10_000, 1) for each in range(200)), (Answer(ticket, 1),))


def unspeakable(_: Numbers, ticket: Ticket) -> Step:
    return Step((number_of("a" * 40_000, 1),), (Answer(ticket, 1),))


def refused(code: ErrorCode) -> Any:
    return code


def value(later: Any) -> Any:
    if not isinstance(later, Later):
        return later
    values: list[Any] = []
    later.then(values.append)
    assert values, "it is not there yet"
    return values[0]


def test_a_decision_is_written_replayed_and_answered() -> None:
    place = Place()
    assert value(place.set("a", 5)) == 5
    assert value(place.get("a")) == 5
    log = place.node.partition(TOPIC, spread("a", PARTITIONS)).log
    assert log.log_end_offset == 1


def test_an_answer_may_belong_to_an_earlier_request() -> None:
    place = Place()
    waiting = place.wait("a")
    assert not waiting.is_settled
    place.set("a", 7)
    assert value(waiting) == 7


def test_a_new_shard_is_the_replay_of_the_log() -> None:
    place = Place()
    for group in "abcdef":
        place.set(group, ord(group))
    place.set("a", 1)
    place.runtime = place.new_runtime()
    assert [value(place.get(group)) for group in "abcdefg"] == [1, *map(ord, "bcdef"), None]


def test_without_the_topic_there_is_no_coordinator() -> None:
    node = OneNode()
    runtime = CoordinatorRuntime(TOPIC, GROUP_RECORDS, Numbers, node.partitions, node.clock)
    runtime.start(node.controller.image)
    assert value(runtime.look("a", lambda shard: 1, refused)) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_answers_and_reads_wait_until_the_write_is_committed() -> None:
    place = Place(flush_messages="1")
    written = place.set("a", 5)
    read = place.get("a")
    assert isinstance(written, Later)
    assert not written.is_settled
    assert not read.is_settled
    place.node.worker.step()
    assert value(written) == 5
    assert value(read) == 5


def test_who_waits_is_sent_away_when_the_partition_moves() -> None:
    place = Place()
    place.set("a", 5)
    waiting = place.wait("a")
    place.node.delete_topic(TOPIC)
    assert value(waiting) is ErrorCode.NOT_COORDINATOR
    assert value(place.get("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_failed_write_sends_everybody_away_and_the_next_request_loads_again() -> None:
    fs = MemoryFileSystem()
    place = Place(fs)
    place.set("a", 5)
    waiting = place.wait("a")
    big = place.runtime.submit(
        "a",
        too_large,
        refused,
    )
    assert value(big) is ErrorCode.NOT_COORDINATOR
    assert value(waiting) is ErrorCode.NOT_COORDINATOR
    assert value(place.get("a")) == 5


def test_a_light_decision_that_cannot_be_written_is_refused_alone() -> None:
    place = Place()
    waiting = place.wait("a")
    big = place.runtime.submit(
        "a",
        too_large,
        refused,
        is_light=True,
    )
    assert value(big) is ErrorCode.MESSAGE_TOO_LARGE
    long = place.runtime.submit("a", unspeakable, refused, is_light=True)
    assert value(long) is ErrorCode.INVALID_REQUEST
    assert not waiting.is_settled


def test_a_long_log_is_loaded_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    for number in range(10):
        place.set("a", number)
    monkeypatch.setattr(coordinator_place, "_RECORDS_AT_ONCE", 4)
    place.runtime = place.new_runtime()
    assert value(place.get("a")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    place.node.clock.move(0)
    assert value(place.get("a")) == 9


# While a shard is loading


def half_loaded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new runtime, whose shard of the group has more to load."""
    monkeypatch.setattr(coordinator_place, "_RECORDS_AT_ONCE", 1)
    place.runtime = place.new_runtime()
    assert value(place.get("a")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_metadata_that_changes_while_a_shard_is_loading_reaches_it_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    for number in range(3):
        place.set("a", number)
    half_loaded(place, monkeypatch)
    place.node.create_topic("new")
    place.node.clock.move(0)
    image = value(place.runtime.look("a", lambda shard: shard.image, refused))
    assert image is place.node.controller.image


def test_a_transaction_that_ends_while_a_shard_is_loading_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    producer = Producer(7, 0)
    value(place.runtime.submit("a", lambda shard, ticket: shard.set("a", 5, ticket, producer), refused))
    place.set("a", 1)
    half_loaded(place, monkeypatch)
    marking = Marking("t", producer, committed=True, partitions=frozenset({(TOPIC, spread("a", PARTITIONS))}))
    markers = TransactionMarkers(
        place.node.partitions,
        place.node.clock,
        lambda index, producer, committed: place.runtime.end_transaction(index, producer, committed=committed),
    )
    assert value(markers.write_all(marking, 0)) is None
    place.node.clock.move(0)
    assert value(place.get("a")) == 5


def test_what_is_loaded_and_not_committed_yet_is_not_told() -> None:
    place = Place(flush_messages="1")
    place.set("a", 5)
    place.runtime = place.new_runtime()
    read = place.get("a")
    assert not read.is_settled
    place.node.worker.step()
    assert value(read) == 5


# Time, markers, transactions


def test_deadlines_come_at_their_time() -> None:
    place = Place()

    def arm(shard: Numbers, ticket: Ticket) -> Step:
        shard.deadlines.set("a", place.node.clock.now_ms() + 100)
        return answer(ticket, 0)

    value(place.runtime.submit("a", arm, refused))
    place.node.clock.move(99)
    assert value(place.get("a")) is None
    place.node.clock.move(1)
    assert value(place.get("a")) == -1


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("is_asked", [False, True])
def test_deadlines_come_at_their_time_though_the_clock_is_set(by_ms: int, is_asked: bool) -> None:
    place = Place()
    clock = place.node.clock

    def arm(group: str, delay_ms: int) -> None:
        def decide(shard: Numbers, ticket: Ticket) -> Step:
            shard.deadlines.set(group, clock.now_ms() + delay_ms)
            return answer(ticket, 0)

        place.runtime.submit("a", decide, refused)

    def left() -> Any:
        return value(
            place.runtime.look("a", lambda shard: {each for each in "abc" if each in shard.deadlines}, refused)
        )

    arm("a", 10_000)
    arm("b", 15_000)
    clock.move(5_000)
    clock.set(by_ms)
    if is_asked:
        arm("c", 10_000)
    clock.move(4_999)
    assert left() >= {"a", "b"}
    clock.move(1)
    assert left() == ({"b", "c"} if is_asked else {"b"})
    clock.move(5_000)
    assert left() == set()


def test_deadlines_come_though_a_write_failed_and_nobody_asks_any_more() -> None:
    place = Place()
    place.set("overdue", 5)
    place.runtime.submit("overdue", too_large, refused)
    log = place.node.partition(TOPIC, spread("overdue", PARTITIONS)).log
    assert log.log_end_offset == 1
    place.node.clock.move(coordinator_runtime.LOAD_AGAIN_MS)
    assert log.log_end_offset == 2
    assert value(place.get("overdue")) == -1


def test_a_shard_that_goes_while_it_carries_something_out_decides_nothing_more() -> None:
    place = Place()
    value(place.set("a", 1))
    seen = []

    def fail(marking: Marking, epoch: int, is_wanted: Callable[[], bool]) -> None:
        """What is done about the first marker fails to be written, and brings the shard down."""
        place.runtime.advance("a", lambda _: too_large(_, 0))
        seen.append(is_wanted())

    def two_steps(now_ms: int) -> Iterator[Step]:
        shard.deadlines.pop_due(now_ms)
        yield Step(markings=(Marking("t", Producer(7, 0), committed=True, partitions=frozenset()),))
        yield Step((number_of("a", 2),))

    def arm(shard: Numbers, ticket: Ticket) -> Step:
        shard.deadlines.set("a", place.node.clock.now_ms() + 1)
        return answer(ticket, shard)

    shard = value(place.runtime.submit("a", arm, refused))
    shard.tick = two_steps
    place.runtime.on_marking = fail
    place.node.clock.move(1)
    assert seen == [False]
    assert value(place.get("a")) == 1
    assert place.node.partition(TOPIC, spread("a", PARTITIONS)).log.log_end_offset == 1


def test_after_a_stop_no_log_is_opened_any_more() -> None:
    fs = MemoryFileSystem()
    before = OneNode(fs)
    before.create_topic(TOPIC, PARTITIONS)
    before.logs.close()
    node = OneNode(fs)
    node.controller.write(*image_records(before.controller.image))
    assert len(node.logs.opened) == 0
    runtime = CoordinatorRuntime(TOPIC, GROUP_RECORDS, Numbers, node.partitions, node.clock)
    runtime.start(node.controller.image)
    assert len(node.logs.opened) == 1  # the others follow between requests
    runtime.stop()
    node.clock.move(coordinator_runtime.LOAD_AGAIN_MS)
    assert value(runtime.look("a", lambda shard: 1, refused)) is ErrorCode.NOT_COORDINATOR
    assert len(node.logs.opened) == 1


def test_markers_are_ordered_when_what_they_rest_on_is_committed() -> None:
    place = Place(flush_messages="1")
    marking = Marking("t", Producer(7, 0), committed=True, partitions=frozenset({("x", 0)}))
    place.runtime.advance("a", lambda _: Step((number_of("a", 1),), markings=(marking,)))
    assert place.marked == []
    place.node.worker.step()
    assert place.marked == [(marking, 0)]


def test_who_ends_a_transaction_is_answered_before_its_markers_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    soon: list[Callable[[], None]] = []
    monkeypatch.setattr(MovableClock, "call_soon", lambda _, callback: soon.append(callback))
    marking = Marking("t", Producer(7, 0), committed=True, partitions=frozenset({("x", 0)}))

    def end(_: Numbers, ticket: Ticket) -> Step:
        return Step((number_of("a", 1),), (Answer(ticket, 1),), markings=(marking,))

    assert place.runtime.submit("a", end, refused) == 1
    assert place.marked == []
    (order,) = soon
    order()
    assert place.marked == [(marking, 0)]


def test_what_was_due_while_nobody_was_there_happens_after_loading() -> None:
    place = Place()
    place.set("overdue", 5)
    place.runtime = place.new_runtime()
    assert value(place.get("overdue")) == -1


def test_what_is_written_in_a_transaction_counts_when_it_ends() -> None:
    place = Place()
    producer = Producer(7, 0)
    value(place.runtime.submit("a", lambda shard, ticket: shard.set("a", 5, ticket, producer), refused))
    assert value(place.get("a")) is None
    place.runtime.end_transaction(spread("a", PARTITIONS), producer, committed=True)
    assert value(place.get("a")) == 5


def test_every_shard_can_be_asked() -> None:
    place = Place()
    for group in "abcdef":
        place.set(group, 1)
    found = [value(later) for later in place.runtime.look_everywhere(lambda shard: sorted(shard.numbers), refused)]
    assert sorted(group for groups in found for group in groups) == list("abcdef")
    assert len(found) == PARTITIONS
