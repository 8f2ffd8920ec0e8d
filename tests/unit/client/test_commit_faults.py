"""Commits on a broker that fails: tried again, in their order, and never over a newer one."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace.client.consumer import Consumer
from tests.support.faulty_broker import PLACE, broker_with_orders, committed, member_of_group, poll_until


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with broker_with_orders() as made:
        yield made


@pytest.fixture
def member(broker: headrace.Broker) -> Iterator[Consumer]:
    with member_of_group(broker) as consumer:
        yield consumer


@pytest.mark.parametrize(
    "error", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "REQUEST_TIMED_OUT"]
)
def test_a_commit_is_tried_again(broker: headrace.Broker, member: Consumer, error: str) -> None:
    with broker.faults.answer("OffsetCommit", error=error, times=3) as fault:
        member.commit({PLACE: 5})
        assert fault.hits == 3
    assert committed(member) == 5


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_survives_a_lost_connection(broker: headrace.Broker, member: Consumer, when: Any) -> None:
    with broker.faults.drop("OffsetCommit", when=when, times=2) as fault:
        member.commit({PLACE: 5})
        assert fault.hits == 2
    assert committed(member) == 5


def test_a_commit_that_fails_again_and_again_says_so_in_the_end(broker: headrace.Broker, member: Consumer) -> None:
    with (
        broker.faults.answer("OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS"),
        pytest.raises(headrace.RequestTimedOutError, match=r"not committed in time.*\d+ requests in 0\.\d s"),
    ):
        member.commit({PLACE: 5}, timeout=0.2)


def test_a_commit_that_is_tried_again_does_not_overwrite_a_newer_one(broker: headrace.Broker, member: Consumer) -> None:
    written: list[int] = []

    def note(request: Any) -> bool:
        offset = request.topics[0].partitions[0].committed_offset
        if len(written) >= 3:
            return False
        written.append(offset)
        return True

    done: list[tuple[int, Any]] = []
    with broker.faults.answer("OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", matching=note) as fault:
        for offset in (5, 6, 7, 8):
            member.commit_async(
                {PLACE: offset}, on_done=lambda offsets, error: done.append((offsets[PLACE].offset, error))
            )
        poll_until(lambda: len(done) == 4, member)
        assert fault.hits == 3
    assert [offset for offset, _ in done] == [5, 6, 7, 8]
    assert [error for _, error in done] == [None] * 4
    assert written == sorted(written)
    assert committed(member) == 8


def test_commits_of_many_threads_come_in_the_order_in_which_they_were_asked_for(
    broker: headrace.Broker, member: Consumer
) -> None:
    lock = threading.Lock()
    last = 0

    def work() -> None:
        nonlocal last
        for _ in range(50):
            with lock:
                last += 1
                member.commit_async({PLACE: last})

    threads = [threading.Thread(target=work) for _ in range(4)]
    with broker.faults.drop("OffsetCommit", when="after", times=3):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        member.commit({PLACE: last + 1})
    assert committed(member) == last + 1


def test_offsets_that_are_too_long_are_refused_one_by_one(broker: headrace.Broker, member: Consumer) -> None:
    with pytest.raises(
        headrace.KafkaError, match=r"offset of orders-0 was not committed: .* \[OFFSET_METADATA_TOO_LARGE"
    ):
        member.commit({PLACE: headrace.OffsetAndMetadata(5, metadata="x" * 5000)})


def test_what_no_request_can_carry_is_refused_and_the_next_commit_goes(member: Consumer) -> None:
    with pytest.raises(headrace.KafkaError, match="a string of 40000 bytes"):
        member.commit({PLACE: headrace.OffsetAndMetadata(5, metadata="x" * 40_000)})
    told: list[Any] = []
    member.commit_async(
        {PLACE: headrace.OffsetAndMetadata(5, metadata="x" * 40_000)}, on_done=lambda *each: told.append(each)
    )
    poll_until(lambda: bool(told), member)
    assert isinstance(told[0][1], headrace.KafkaError)
    member.commit({PLACE: 6})
    assert committed(member) == 6


@pytest.mark.parametrize(("offset", "kind"), [(-1, ValueError), (1 << 63, ValueError), ("5", TypeError)])
def test_an_offset_that_no_record_can_have_is_not_committed(
    member: Consumer, offset: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        member.commit({PLACE: offset})
    assert committed(member) is None


def test_what_is_done_is_committed_before_other_partitions_are_assigned(broker: headrace.Broker) -> None:
    with headrace.Consumer(broker.address, group="other", auto_offset_reset="earliest") as consumer:
        consumer.assign([PLACE])
        found: list[headrace.ConsumerRecord] = []
        while len(found) < 10:
            found += consumer.poll(1.0)
        assert consumer.poll() == []
        consumer.assign([])
        assert committed(consumer) == 10
