"""Process in threads, commit in order."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.client.in_order import InOrder
from headrace.client.in_order_work import Done, OwnedPartition, Workers
from headrace.client.topic_partition import TopicPartition
from tests.support.both_brokers import eventually, unique
from tests.support.consuming import read

SECONDS = 120.0  # so long the machine may be busy; what needs it is broken


@given(st.sets(st.integers(0, 200), min_size=1), st.integers())
def test_the_position_is_the_offset_below_which_all_is_done(offsets: set[int], seed: int) -> None:
    begun = sorted(offsets)
    done = Done()
    tickets = {offset: done.begin(offset) for offset in begun}
    assert done.position is None
    finished: set[int] = set()
    for offset in Random(seed).sample(begun, len(begun)):
        done.finish(tickets[offset])
        finished.add(offset)
        open_ones = [each for each in begun if each not in finished]
        below = [each for each in begun if not open_ones or each < open_ones[0]]
        assert done.position == (below[-1] + 1 if below else None)


def test_a_position_that_is_set_back_is_where_it_goes_on() -> None:
    done = Done()
    before = {offset: done.begin(offset) for offset in range(10)}
    for offset in (0, 1, 2, 3, 5, 6):
        done.finish(before[offset])
    assert done.position == done.next == 4
    after = {offset: done.begin(offset) for offset in range(6, 8)}  # the log was cut at 6
    done.finish(after[6])
    assert done.position == done.next == 4
    done.finish(before[4])
    assert done.position == done.next == 6  # 7 is not done, and what was 7 before does not count
    for offset in (7, 8, 9):
        done.finish(before[offset])
    assert done.position == done.next == 7
    done.finish(after[7])
    assert done.position == done.next == 8
    assert len(done) == 0
    done.begin(2)
    assert done.position == done.next == 2


def record_of(offset: int, key: object) -> headrace.ConsumerRecord:
    return headrace.ConsumerRecord("orders", 0, offset, 0, key, None)


class Interrupted(threading.Condition):
    """Whenever somebody has let go of it, something else happens before that one goes on."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self._happens = happens

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[arg-type]
        self._happens()


@pytest.mark.parametrize("key", ["one", None, ["unhashable"]])
def test_each_record_is_worked_at_once_and_those_of_a_key_in_order(key: object) -> None:
    """Also those that come at the worst of moments: when a thread has done all that there was, and looks for more."""
    owned = OwnedPartition()
    seen: list[int] = []
    coming = threading.Lock()

    def one_more_comes() -> None:
        is_for_worker = threading.current_thread() is not threading.main_thread() and len(seen) < 100
        if is_for_worker and not len(owned.done) and coming.acquire(blocking=False):
            workers.begin(owned, record_of(len(seen) + 1, key))
            workers._pool.submit(list).result(SECONDS)  # the other thread has done all that it can
            coming.release()

    with Workers(lambda record: seen.append(record.offset), threads=2) as workers:
        workers.changed = Interrupted(one_more_comes)
        while len(seen) < 100:
            workers.begin(owned, record_of(len(seen) + 1, key))
            with workers.changed:
                assert workers.changed.wait_for(lambda: not owned.busy, SECONDS)
    assert seen == list(range(1, 101))
    assert owned.done.position == 101


def test_what_waits_for_a_thread_is_not_begun_when_its_partition_ends() -> None:
    owned, other = OwnedPartition(), OwnedPartition()
    has_begun, may_end = threading.Event(), threading.Event()
    seen: list[int] = []

    def work(record: headrace.ConsumerRecord) -> None:
        has_begun.set()
        assert may_end.wait(SECONDS)
        seen.append(record.offset)

    with Workers(work, threads=1) as workers:
        for offset in range(3):
            workers.begin(owned, record_of(offset, "a"))
        workers.begin(owned, record_of(3, "b"))
        workers.begin(other, record_of(4, "a"))
        assert has_begun.wait(SECONDS)
        workers.drop([owned])
        may_end.set()
        workers.end([owned])
    assert owned.done.position == owned.done.next == 1
    assert other.done.position == 5
    assert seen == [0, 4]


@pytest.fixture
def topic(bootstrap: str) -> str:
    """One partition with 40 records: k0 to k3 ten times each, in turn."""
    name = unique("orders")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name)
    with headrace.Producer(bootstrap) as producer:
        for number in range(40):
            producer.send(name, str(number), key=f"k{number % 4}")
    return name


@pytest.fixture
def make_consumer(bootstrap: str) -> Iterator[Callable[..., headrace.Consumer]]:
    with ExitStack() as stack:

        def make(**configs: Any) -> headrace.Consumer:
            settings = {"group_id": unique("g"), "enable_auto_commit": False, "auto_offset_reset": "earliest"}
            return stack.enter_context(headrace.Consumer(bootstrap, **{**settings, **configs}))

        yield make


@pytest.fixture
def consumer(make_consumer: Callable[..., headrace.Consumer]) -> headrace.Consumer:
    return make_consumer()


def committed(consumer: headrace.Consumer, topic: str) -> int | None:
    place = TopicPartition(topic, 0)
    found = consumer.committed([place])[place]
    return None if found is None else found.offset


def test_records_run_in_threads_those_of_a_key_in_their_order(consumer: headrace.Consumer, topic: str) -> None:
    lock = threading.Lock()
    seen: dict[bytes, list[int]] = {}
    at_once = threading.Barrier(4)  # passed only if all four keys are worked at at the same time

    def work(record: headrace.ConsumerRecord) -> None:
        if record.offset < 4:
            at_once.wait(SECONDS)
        with lock:
            seen.setdefault(record.key, []).append(int(record.value))
            if sum(map(len, seen.values())) == 40:
                pool.stop()

    pool = InOrder(consumer, work, topics=[topic], threads=4)
    pool.run()
    assert seen == {f"k{key}".encode(): list(range(key, 40, 4)) for key in range(4)}
    assert committed(consumer, topic) == 40


def test_nothing_above_a_record_that_is_not_done_is_committed(consumer: headrace.Consumer, topic: str) -> None:
    release = threading.Event()
    others = threading.Semaphore(0)

    def work(record: headrace.ConsumerRecord) -> None:
        if record.offset == 5:
            assert release.wait(SECONDS)
        others.release()

    pool = InOrder(consumer, work, topics=topic, threads=4, commit_seconds=0.01)
    running = threading.Thread(target=pool.run)
    running.start()
    for _ in range(30):  # all of the other keys, and the first of its own
        assert others.acquire(timeout=SECONDS)
    other = headrace.Consumer(consumer._core.settings.items("bootstrap.servers"), group=consumer.group_member.group_id)
    assert committed(other, topic) in (None, 1, 2, 3, 4, 5)
    release.set()
    for _ in range(10):
        assert others.acquire(timeout=SECONDS)
    pool.stop()
    running.join(SECONDS)
    assert committed(other, topic) == 40
    other.close()


def test_work_that_fails_ends_it_and_comes_again(consumer: headrace.Consumer, topic: str) -> None:
    def work(record: headrace.ConsumerRecord) -> None:
        if record.offset == 7:
            raise LookupError(record.offset)

    with pytest.raises(LookupError, match="7"):
        InOrder(consumer, work, topics=[topic], threads=1).run()
    done = committed(consumer, topic) or 0
    assert done <= 7
    assert consumer.position(TopicPartition(topic, 0)) == done
    assert [record.offset for record in read(consumer, 40 - done)] == list(range(done, 40))


class SetBack(headrace.Consumer):
    """After 30 records it goes back to offset 5, as after a truncation; `may_go_on` is set when some came again."""

    def __init__(self, *arguments: Any, **configs: Any) -> None:
        super().__init__(*arguments, max_poll_records=10, **configs)
        self.may_go_on = threading.Event()
        self._polled: list[int] = []

    def poll(self, *arguments: Any, **options: Any) -> list[headrace.ConsumerRecord]:
        if self._polled[30:]:
            self.may_go_on.set()
        elif self._polled[29:]:
            (place,) = self.assignment()
            self.seek(place, 5)
        records = super().poll(*arguments, **options)
        self._polled += [record.offset for record in records]
        return records


def test_a_position_that_is_set_back_while_records_are_worked_at_ends_nothing(bootstrap: str, topic: str) -> None:
    lock = threading.Lock()
    seen: dict[int, list[int]] = {key: [] for key in range(4)}

    def work(record: headrace.ConsumerRecord) -> None:
        if record.offset == 3:
            assert consumer.may_go_on.wait(SECONDS)
        with lock:
            seen[record.offset % 4].append(record.offset)
            if sum(map(len, seen.values())) == 65:
                in_order.stop()

    with SetBack(bootstrap, group=unique("g"), enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        in_order = InOrder(consumer, work, topics=[topic], threads=4, commit_seconds=0.01)
        in_order.run()
        assert seen == {
            key: [offset for offset in (*range(30), *range(5, 40)) if offset % 4 == key] for key in range(4)
        }
        assert committed(consumer, topic) == 40


def test_only_so_many_are_begun_before_the_first_of_them_is_done(
    make_consumer: Callable[..., headrace.Consumer], topic: str
) -> None:
    consumer = make_consumer(max_poll_records=5)
    release = threading.Event()
    lock = threading.Lock()
    seen: list[int] = []

    def work(record: headrace.ConsumerRecord) -> None:
        if record.offset == 1:
            assert release.wait(SECONDS)
        with lock:
            seen.append(record.offset)
            if len(seen) == 40:
                in_order.stop()

    in_order = InOrder(consumer, work, topics=[topic], threads=4, max_pending=5)
    running = threading.Thread(target=in_order.run)
    running.start()
    eventually(lambda: bool(consumer.paused()))
    assert len(seen) < 10
    assert max(seen, default=0) < 10
    release.set()
    running.join(SECONDS)
    assert sorted(seen) == list(range(40))
    assert committed(consumer, topic) == 40
    assert not consumer.paused()


def test_a_partition_that_goes_is_committed_up_to_what_is_done(bootstrap: str) -> None:
    name, group = unique("two"), unique("g")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    with headrace.Producer(bootstrap) as producer:
        for number in range(200):
            producer.send(name, str(number), partition=number % 2)
    seen: list[tuple[int, int]] = []
    has_begun, may_go_on = threading.Event(), threading.Event()
    pools: list[InOrder] = []

    def work(record: headrace.ConsumerRecord) -> None:
        if record.offset == 20:
            has_begun.set()
            assert may_go_on.wait(SECONDS)
        seen.append((record.partition, record.offset))
        if len(set(seen)) == 200:
            for pool in pools:
                pool.stop()

    configs: dict[str, Any] = {
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
    }
    with (
        headrace.Consumer(bootstrap, group=group, **configs) as first,
        headrace.Consumer(bootstrap, group=group, **configs) as second,
    ):
        pools.append(InOrder(first, work, topics=[name], threads=3))
        threads = [threading.Thread(target=pools[0].run)]
        threads[0].start()
        assert has_begun.wait(SECONDS)
        pools.append(InOrder(second, work, topics=[name], threads=3))
        threads.append(threading.Thread(target=pools[1].run))
        threads[1].start()
        may_go_on.set()
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive()
        places = [TopicPartition(name, number) for number in range(2)]
        assert first.committed(places) == dict.fromkeys(places, headrace.OffsetAndMetadata(100))
    assert set(seen) == {(partition, offset) for partition in range(2) for offset in range(100)}


def test_a_consumer_that_commits_by_itself_is_refused(bootstrap: str) -> None:
    with (
        headrace.Consumer(bootstrap, group=unique("g")) as automatic,
        pytest.raises(ValueError, match="set enable_auto_commit=False"),
    ):
        InOrder(automatic, print)
