"""Fetch sessions: what is told and when, epochs, who gets a slot, and what idle partitions cost."""

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.server.fetch_sessions import FetchSessions, update
from headrace.server.waiters import Watch
from tests.support.log_batches import a_batch
from tests.support.one_node import NOW_MS, Answer, OneNode

BATCH_BYTES = len(a_batch(b"x" * 1000))
TWO_MINUTES_MS = 120_000


class Consumer:
    """A client that keeps a session as Kafka's do: the epoch grows with every answer."""

    def __init__(self, node: OneNode, *, version: int = 12, topic: str = "t") -> None:
        self.node = node
        self.version = version
        self.topic = topic
        self.session_id = 0
        self.epoch = 0

    def send(
        self, *offsets: tuple[int, int], forget: tuple[int, ...] = (), max_wait_ms: int = 0, **fields: Any
    ) -> Answer:
        by_id = self.version >= 13
        name = "" if by_id else self.topic
        topic_id = self.node.controller.image.topic_ids[self.topic] if by_id else bytes(16)
        rows = [FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20) for index, offset in offsets]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(name, topic_id, rows)] if rows else [],
            forgotten_topics_data=[ForgottenTopic(name, topic_id, forget)] if forget else [],
        )._replace(**fields)
        return self.node.send("Fetch", self.version, request)

    def poll(self, *offsets: tuple[int, int], **how: Any) -> dict[int, tuple[ErrorCode, int]]:
        """What is told, by partition: the error, and the number of batches of 1000 bytes."""
        response = self.send(*offsets, **how).response
        assert response.error_code == 0, ErrorCode(response.error_code)
        self.session_id = response.session_id
        self.epoch += 1
        return told(response)


def told(response: Any) -> dict[int, tuple[ErrorCode, int]]:
    return {
        row.partition_index: (ErrorCode(row.error_code), len(row.records) // BATCH_BYTES)
        for topic in response.responses
        for row in topic.partitions
    }


def append(node: OneNode, index: int = 0, *, topic: str = "t") -> None:
    node.partition(topic, index).append(a_batch(b"x" * 1000), acks=1, now_ms=NOW_MS)


NOTHING = (ErrorCode.NONE, 0)
ONE = (ErrorCode.NONE, 1)


@pytest.fixture
def node() -> OneNode:
    node = OneNode()
    node.create_topic("t", partitions=4)
    return node


@pytest.fixture(params=[7, 12, 13, 18])
def consumer(node: OneNode, request: pytest.FixtureRequest) -> Consumer:
    return Consumer(node, version=request.param)


def test_the_first_answer_tells_about_all_and_later_ones_about_news(node: OneNode, consumer: Consumer) -> None:
    append(node, 1)
    assert consumer.poll((0, 0), (1, 0), (2, 0)) == {0: NOTHING, 1: ONE, 2: NOTHING}
    assert consumer.session_id > 0
    assert consumer.poll((1, 1)) == {}
    append(node, 2)
    assert consumer.poll() == {2: ONE}
    assert consumer.poll((2, 1)) == {}


def test_records_that_were_not_taken_yet_come_again(node: OneNode, consumer: Consumer) -> None:
    append(node)
    assert consumer.poll((0, 0)) == {0: ONE}
    assert consumer.poll() == {0: ONE}
    assert consumer.poll((0, 1)) == {}
    assert consumer.poll((0, 0)) == {0: ONE}


def test_partitions_come_and_go(node: OneNode, consumer: Consumer) -> None:
    consumer.poll((0, 0))
    assert consumer.poll((1, 0)) == {1: NOTHING}
    append(node, 0)
    append(node, 1)
    assert consumer.poll(forget=(0,)) == {1: ONE}
    append(node, 0)
    assert consumer.poll((1, 1)) == {}
    assert not node.partition("t", 0).watchers


def test_a_higher_log_start_is_news(node: OneNode, consumer: Consumer) -> None:
    append(node)
    consumer.poll((0, 1))
    assert consumer.poll() == {}
    node.partition("t").advance_log_start(1)
    assert consumer.poll() == {0: NOTHING}
    assert consumer.poll() == {}


def test_an_error_is_told_every_time_and_its_end_once(node: OneNode) -> None:
    consumer = Consumer(node, topic="later")
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert consumer.poll((0, 0)) == {0: unknown}
    assert consumer.poll() == {0: unknown}
    node.create_topic("later")
    assert consumer.poll() == {0: NOTHING}
    assert consumer.poll() == {}
    append(node, topic="later")
    assert consumer.poll() == {0: ONE}


def test_a_topic_that_is_deleted_and_made_again_is_read_by_name_from_the_new_one(node: OneNode) -> None:
    consumer = Consumer(node)
    consumer.poll((0, 0))
    consumer.poll()
    node.delete_topic("t")
    assert consumer.poll() == {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}
    node.create_topic("t")
    append(node)
    assert consumer.poll() == {0: ONE}


def test_news_wake_a_parked_poll_and_tell_only_about_themselves(node: OneNode, consumer: Consumer) -> None:
    consumer.poll((0, 0), (1, 0), (2, 0))
    answer = consumer.send(max_wait_ms=500)
    assert not answer.is_there
    append(node, 1)
    assert told(answer.response) == {1: ONE}


def test_when_time_is_up_an_idle_poll_tells_nothing(node: OneNode, consumer: Consumer) -> None:
    consumer.poll((0, 0), (1, 0))
    answer = consumer.send(max_wait_ms=500)
    node.clock.move(500)
    assert told(answer.response) == {}
    assert answer.response.session_id == consumer.session_id


def test_news_between_polls_are_not_lost(node: OneNode, consumer: Consumer) -> None:
    consumer.poll((0, 0), (1, 0))
    consumer.poll()
    append(node, 0)
    append(node, 1)
    append(node, 1)
    assert consumer.poll() == {0: ONE, 1: (ErrorCode.NONE, 2)}


def test_what_the_limit_leaves_out_comes_first_the_next_time(node: OneNode, consumer: Consumer) -> None:
    for index in range(3):
        append(node, index)
    consumer.poll((0, 0), (1, 0), (2, 0), max_bytes=1)
    seen = [next(iter(consumer.poll(max_bytes=1))) for _ in range(6)]
    assert sorted(seen[:3]) == sorted(seen[3:]) == [0, 1, 2]


def test_a_batch_that_did_not_fit_into_the_room_that_was_left_comes_later(node: OneNode, consumer: Consumer) -> None:
    for index in range(3):
        append(node, index)
    room = BATCH_BYTES + 10
    assert consumer.poll((0, 0), (1, 0), (2, 0), max_bytes=room) == {0: ONE, 1: NOTHING, 2: NOTHING}
    assert consumer.poll((0, 1), max_bytes=room) == {1: ONE}
    assert consumer.poll((1, 1), max_bytes=room) == {2: ONE}
    assert consumer.poll((2, 1), max_bytes=room) == {}


class TestEpochs:
    def code(self, answer: Answer) -> ErrorCode:
        assert answer.response.session_id == 0
        assert not answer.response.responses
        return ErrorCode(answer.response.error_code)

    def test_a_session_that_nobody_knows(self, node: OneNode) -> None:
        consumer = Consumer(node)
        assert self.code(consumer.send(session_id=5, session_epoch=1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_an_epoch_that_is_not_the_next_one(self, node: OneNode) -> None:
        consumer = Consumer(node)
        consumer.poll((0, 0))
        for epoch in (2, 5):
            answer = consumer.send(session_epoch=epoch)
            assert self.code(answer) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert consumer.poll() == {}

    def test_names_in_a_session_of_ids_and_the_other_way_round(self, node: OneNode) -> None:
        consumer = Consumer(node, version=13)
        consumer.poll((0, 0))
        consumer.version = 12
        assert self.code(consumer.send()) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def test_epoch_0_begins_anew_and_ends_the_old_session(self, node: OneNode) -> None:
        consumer = Consumer(node)
        consumer.poll((0, 0))
        old = consumer.session_id
        consumer.epoch = 0
        assert consumer.poll((1, 0)) == {1: NOTHING}
        assert consumer.session_id != old
        assert len(node.fetch_sessions) == 1

    def test_epoch_minus_1_ends_a_session(self, node: OneNode) -> None:
        consumer = Consumer(node)
        consumer.poll((0, 0))
        consumer.poll()
        answer = consumer.send(session_epoch=-1, max_wait_ms=500)
        assert (answer.response.error_code, answer.response.session_id) == (0, 0)
        assert len(node.fetch_sessions) == 0
        assert not node.partition("t").watchers

    def test_forgetting_everything_ends_a_session(self, node: OneNode) -> None:
        consumer = Consumer(node)
        consumer.poll((0, 0))
        answer = consumer.send(forget=(0,), max_wait_ms=500)
        assert (answer.response.error_code, answer.response.session_id) == (0, 0)
        assert len(node.fetch_sessions) == 0

    def test_the_epoch_after_the_largest_is_1(self, node: OneNode) -> None:
        sessions = FetchSessions()
        session = sessions.begin(Watch(), has_ids=False, is_follower=False, now_ms=0)
        assert session is not None
        session.watch.add("t", 0)
        session.epoch = (1 << 31) - 1
        request = FetchRequest(session_id=session.session_id, session_epoch=session.epoch)
        assert sessions.find(request, has_ids=False, now_ms=0) is session
        assert session.epoch == 1

    def test_a_second_request_refuses_the_one_that_waits(self, node: OneNode) -> None:
        consumer = Consumer(node)
        consumer.poll((0, 0))
        first = consumer.send(max_wait_ms=500)
        consumer.epoch += 1
        second = consumer.send(max_wait_ms=500)
        assert self.code(first) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        append(node)
        assert told(second.response) == {0: ONE}
        node.clock.move(1000)


class TestSlots:
    def begin(self, sessions: FetchSessions, partitions: int, now_ms: int, *, is_follower: bool = False) -> int | None:
        watch = Watch()
        rows = [FetchPartition(index) for index in range(partitions)]
        update(watch, FetchRequest(topics=[FetchTopic("t", partitions=rows)]), has_ids=False)
        session = sessions.begin(watch, has_ids=False, is_follower=is_follower, now_ms=now_ms)
        return None if session is None else session.session_id

    def is_alive(self, sessions: FetchSessions, session_id: int | None, epoch: int, now_ms: int) -> bool:
        request = FetchRequest(session_id=session_id or 0, session_epoch=epoch)
        return not isinstance(sessions.find(request, has_ids=False, now_ms=now_ms), ErrorCode)

    def test_who_gets_no_slot_reads_without_a_session(self) -> None:
        node = OneNode(slots=1)
        node.create_topic("t", partitions=2)
        first, second = Consumer(node), Consumer(node)
        first.poll((0, 0))
        append(node)
        assert second.poll((0, 0), (1, 0)) == {0: ONE, 1: NOTHING}
        assert second.session_id == 0
        assert first.poll() == {0: ONE}

    def test_a_session_unused_for_two_minutes_gives_its_slot(self) -> None:
        sessions = FetchSessions(slots=2)
        used, unused = self.begin(sessions, 1, 0), self.begin(sessions, 100, 0)
        assert self.is_alive(sessions, used, 1, TWO_MINUTES_MS)
        assert self.begin(sessions, 1, TWO_MINUTES_MS + 1) is not None
        assert self.is_alive(sessions, used, 2, TWO_MINUTES_MS + 1)
        assert not self.is_alive(sessions, unused, 1, TWO_MINUTES_MS + 1)

    def test_a_larger_session_takes_the_slot_of_an_old_smaller_one(self) -> None:
        sessions = FetchSessions(slots=2)
        small, large = self.begin(sessions, 2, 0), self.begin(sessions, 9, 0)
        for session_id in (small, large):
            assert self.is_alive(sessions, session_id, 1, TWO_MINUTES_MS)
        assert self.begin(sessions, 2, TWO_MINUTES_MS + 1) is None
        assert self.begin(sessions, 3, TWO_MINUTES_MS + 1) is not None
        assert not self.is_alive(sessions, small, 2, TWO_MINUTES_MS + 1)
        assert self.is_alive(sessions, large, 2, TWO_MINUTES_MS + 1)

    def test_a_young_session_keeps_its_slot(self) -> None:
        sessions = FetchSessions(slots=1)
        self.begin(sessions, 1, 0)
        assert self.begin(sessions, 100, TWO_MINUTES_MS) is None

    def test_a_follower_takes_the_slot_of_any_consumer(self) -> None:
        sessions = FetchSessions(slots=1)
        self.begin(sessions, 100, 0)
        assert self.begin(sessions, 1, 0, is_follower=True) is not None
        assert self.begin(sessions, 100, 0) is None

    def test_without_slots_there_are_no_sessions(self) -> None:
        assert self.begin(FetchSessions(slots=0), 1, 0) is None


def test_a_session_whose_client_is_gone_costs_an_append_nothing(node: OneNode) -> None:
    consumer = Consumer(node)
    consumer.poll((0, 0))
    consumer.poll()
    assert node.partition("t").watchers
    append(node)
    assert not node.partition("t").watchers


def test_an_idle_poll_looks_at_no_partition() -> None:
    node = OneNode()
    node.create_topic("t", partitions=200)
    consumer = Consumer(node)
    consumer.poll(*((index, 0) for index in range(200)))
    consumer.poll()
    looked_at = []
    find = node.partitions.leader

    class Counting:
        def leader(self, topic: str | bytes, index: int) -> Any:
            looked_at.append(index)
            return find(topic, index)

    node.context.partitions = Counting()  # type: ignore[assignment]
    assert consumer.poll() == {}
    assert looked_at == []
    append(node, 17)
    assert consumer.poll() == {17: ONE}
    assert set(looked_at) == {17}
