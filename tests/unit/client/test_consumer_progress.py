"""How far the user is, in one partition after another: handed out, taken, done with."""

import asyncio
import threading
from collections.abc import Collection

import pytest

from headrace.client.consumer_inbox import Fetched, Inbox
from headrace.client.consumer_progress import HandedOut, Progress
from headrace.client.consumer_record import ConsumerRecord, Origin
from headrace.client.errors import WrongStateError
from headrace.client.group_rebalances import Rebalances
from headrace.client.group_watch import UserWatch
from headrace.client.subscriptions import NO_EPOCH, PartitionState, Place, Stage, Subscriptions
from headrace.client.topic_partition import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def at(offset: int, partition: TopicPartition = A) -> PartitionState:
    state = PartitionState(partition)
    state.jump(Place(offset, 1))
    return state


def records(state: PartitionState, *offsets: int) -> list[ConsumerRecord]:
    return [ConsumerRecord(*state.partition, offset, 0, None, None, None, Origin(1)) for offset in offsets]


def handed(progress: Progress, state: PartitionState, *offsets: int, end: int | None = None) -> HandedOut:
    out = HandedOut(state, state.era, records(state, *offsets), Place(offsets[-1] + 1 if end is None else end, 1))
    progress.hand_out(out)
    return out


def iterated(progress: Progress, state: PartitionState, *offsets: int, taken: int) -> HandedOut:
    out = handed(progress, state, *offsets)
    out.iterator = iter(out.records)
    for _ in range(taken):
        next(out.iterator)
    return out


def offsets_of(progress: Progress, state: PartitionState) -> tuple[int, int]:
    position, done = progress.position(state), progress.done(state)
    assert position is not None
    assert done is not None
    return position.offset, done.offset


def test_what_a_poll_returned_is_done_with_when_the_user_comes_back() -> None:
    progress, state = Progress(), at(5)
    handed(progress, state, 5, 7, end=9)  # an offset behind the last record that holds none
    assert offsets_of(progress, state) == (9, 5)
    progress.finish()
    assert offsets_of(progress, state) == (9, 9)


def test_an_iteration_is_done_up_to_the_record_before_the_last_that_was_taken() -> None:
    progress, state = Progress(), at(0)
    iterated(progress, state, 0, 1, 4, taken=0)
    assert offsets_of(progress, state) == (0, 0)
    progress = Progress()
    state = at(0)
    out = iterated(progress, state, 0, 1, 4, taken=2)
    assert offsets_of(progress, state) == (2, 1)
    assert progress.leftover is out
    progress.finish()  # it was left, and polled
    assert offsets_of(progress, state) == (2, 2)
    assert progress.leftover is out


def test_who_gives_up_gets_what_was_in_hand_again() -> None:
    progress, state, other = Progress(), at(0), at(0, B)
    handed(progress, state, 0, 1)
    handed(progress, state, 2, 3)
    iterated(progress, other, 0, 1, 2, taken=2)
    progress.abandon()
    assert offsets_of(progress, state) == (0, 0)
    assert offsets_of(progress, other) == (1, 1)


def test_an_iteration_over_what_is_stopped_ends_where_it_is() -> None:
    progress, state, other = Progress(), at(0), at(0, B)
    out = iterated(progress, state, 0, 1, 2, taken=1)
    assert not progress.shorten()
    state.is_stopped = True
    assert progress.shorten()
    assert out.iterator is not None
    assert list(out.iterator) == []
    assert offsets_of(progress, state)[0] == 1
    assert offsets_of(progress, iterated(progress, other, 0, taken=1).state) == (1, 0)


def test_what_has_jumped_does_not_count_any_more() -> None:
    progress, state = Progress(), at(0)
    out = iterated(progress, state, 0, 1, 2, taken=1)
    state.jump(Place(10, 1))
    progress.cut()
    assert out.iterator is not None
    assert list(out.iterator) == []
    assert progress.leftover is None
    progress.finish()
    assert offsets_of(progress, state) == (10, 10)


def test_what_the_user_works_at_is_not_done_when_the_partition_is_fetched_again() -> None:
    progress, state = Progress(), at(0)
    handed(progress, state, 0, 1)
    state.refetch(Place(2, 1))
    assert offsets_of(progress, state) == (2, 0)
    progress.finish()
    assert offsets_of(progress, state) == (2, 2)


def test_partitions_that_stay_after_all_are_read_on_and_what_the_user_works_at_is_not_done() -> None:
    """A member that leaves, since its user is stuck with records, must not commit them while it does."""
    inbox, progress, subscriptions = Inbox(on_room=lambda: None), Progress(), Subscriptions()
    subscriptions.assign([A])
    state = subscriptions.state(A)
    state.jump(Place(0))

    async def commit(_: Collection[TopicPartition]) -> None:
        raise AssertionError("the user has not come back")

    async def story() -> None:
        rebalances = Rebalances(subscriptions, inbox, progress, commit=commit, on_changed=lambda: None)
        revoking = asyncio.create_task(rebalances.revoke([A]))
        await asyncio.sleep(0)
        assert state.is_stopped
        revoking.cancel()
        await asyncio.wait([revoking])

    handed(progress, state, 0, 1)
    asyncio.run(story())
    assert not state.is_stopped
    assert offsets_of(progress, state) == (2, 0)
    assert state.fetch_offset == 2


class WatchedLock:
    """Tells that somebody comes for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_wanted = threading.Event()

    def __enter__(self) -> None:
        self.is_wanted.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_records_that_the_user_gets_at_this_moment_do_not_come_again_when_the_log_is_cut_behind_them() -> None:
    inbox, progress, state = Inbox(on_room=lambda: None), Progress(), at(0)
    lock = WatchedLock()
    inbox._lock = lock  # type: ignore[assignment]
    cutting = threading.Thread(target=inbox.fall_back, args=(state, Place(3, 1)))
    with lock:  # as the user's thread does when it hands them out
        lock.is_wanted.clear()
        cutting.start()
        assert lock.is_wanted.wait(120)
        handed(progress, state, 0, 1)
    cutting.join(120)
    assert offsets_of(progress, state) == (2, 0)
    assert state.fetch_offset == 2
    inbox.fall_back(state, Place(1, 1))
    assert offsets_of(progress, state) == (1, 1)


def test_taking_a_record_is_a_sign_of_life() -> None:
    inbox = Inbox(on_room=lambda: None)
    progress, state = Progress(), at(0)
    out = iterated(progress, state, 0, 1, taken=1)
    watch = UserWatch(inbox, progress, 60.0)
    watch.seconds_away()
    watch._seen -= 100
    assert watch.seconds_left() < 0
    assert out.iterator is not None
    next(out.iterator)
    assert watch.seconds_left() > 0
    watch._seen -= 100
    watch.touch()
    assert watch.seconds_left() > 0
    watch._seen -= 100
    inbox.when_ready(lambda: None, seen=inbox.changes)  # it waits for records
    assert watch.seconds_left() > 0


# The inbox


def test_an_error_about_a_partition_goes_when_the_user_seeks() -> None:
    inbox, state = Inbox(on_room=lambda: None), at(0)
    inbox.fail(ValueError("about it"), state)
    inbox.fail(ValueError("about it"), state)
    inbox.fail(ValueError("about all"))
    state.jump(Place(3))
    inbox.fail(ValueError("about it"), state)
    assert [str(inbox.take_error()), str(inbox.take_error())] == ["about all", "about it"]
    assert inbox.take_error() is None
    inbox.break_off(ValueError("for ever"))
    assert str(inbox.take_error()) == str(inbox.take_error()) == "for ever"


def test_an_error_may_come_while_the_user_takes_one() -> None:
    inbox = Inbox(on_room=lambda: None)
    taken: list[Exception | None] = []
    taking = threading.Thread(target=lambda: taken.append(inbox.take_error()))

    class SlowError(Exception):
        def __str__(self) -> str:
            """Asked for while the inbox looks whether it holds the same error already."""
            if taking.ident is None:
                taking.start()
                taking.join(0.2)  # it has that time to come between
            return "slow"

    slow = SlowError()
    inbox.fail(slow)
    inbox.fail(ValueError("another"))
    taking.join(120)
    assert taken == [slow]
    assert str(inbox.take_error()) == "another"


def test_what_the_user_took_is_done_though_the_partition_is_stopped_at_this_moment() -> None:
    inbox, progress, state = Inbox(on_room=lambda: None), Progress(), at(0)

    class Late(list[ConsumerRecord]):
        """When its length is asked for after the iterator's, the other thread has just cut it off."""

        def __len__(self) -> int:
            if stopping.ident is None:
                stopping.start()
                stopping.join(0.2)
            return super().__len__()

    stopping = threading.Thread(target=inbox.stop, args=([state], progress))
    out = HandedOut(state, state.era, Late(records(state, 0, 1, 2, 3)), Place(4, 1))

    out.iterator = iter(out.records)
    for _ in range(2):
        next(out.iterator)
    progress.hand_out(out)
    inbox.finish(progress)
    stopping.join(120)
    assert offsets_of(progress, state) == (2, 2)


def test_what_is_paused_is_passed_over_and_what_is_stale_dropped() -> None:
    told: list[bool] = []
    inbox = Inbox(on_room=lambda: told.append(True))
    state, other = at(0), at(0, B)
    for each in (state, other, state):
        inbox.put(Fetched(each, [], Place(1), 100))
    assert inbox.is_full([state], partition_bytes=200, all_bytes=1000)
    assert inbox.is_full([other], partition_bytes=200, all_bytes=300)
    assert not inbox.is_full([other], partition_bytes=200, all_bytes=301)
    state.is_paused = True
    taken = inbox.take()
    assert taken is not None
    assert taken.state is other
    assert told == [True]
    assert inbox.take() is None
    state.jump(Place(5))
    inbox.drop_stale()
    assert (state.buffered_bytes, other.buffered_bytes) == (0, 0)


def test_the_loop_hears_that_a_little_was_taken_when_more_is_waited_for() -> None:
    told: list[bool] = []
    inbox = Inbox(on_room=lambda: told.append(True))
    inbox.put(Fetched(at(0), [], Place(1), 100))
    assert not inbox.is_taken_soon(99)
    assert inbox.is_taken_soon(100)
    assert inbox.take() is not None
    assert told == []
    for _ in range(2):
        assert inbox.when_ready(lambda: None, seen=inbox.changes)
    assert told == [True]
    assert not inbox.is_taken_soon(100)


# Subscriptions


def test_partitions_that_stay_keep_their_place() -> None:
    subscriptions = Subscriptions()
    subscriptions.assign([A])
    state = subscriptions.state(A)
    state.jump(Place(7))
    subscriptions.assign([A, B])
    assert subscriptions.state(A) is state
    assert subscriptions.state(B).stage is Stage.UNPOSITIONED
    era = state.era
    subscriptions.assign([B])
    assert state.era > era
    with pytest.raises(WrongStateError, match="a-0 is not assigned"):
        subscriptions.state(A)


def test_partitions_come_by_hand_or_by_a_group() -> None:
    subscriptions = Subscriptions()
    subscriptions.subscribe(["a"])
    with pytest.raises(WrongStateError, match=r"topics are subscribed to.*unsubscribe"):
        subscriptions.assign([A])
    subscriptions.unsubscribe()
    subscriptions.assign([A])
    with pytest.raises(WrongStateError, match="assigned by hand"):
        subscriptions.subscribe(["a"])


def test_a_new_leader_is_asked_only_about_what_an_older_one_wrote() -> None:
    state = at(3)
    stages = []
    for epoch in (1, 2):
        state.check_against(epoch)
        stages.append(state.stage)
    assert stages == [Stage.READY, Stage.CHECKING]
    fresh = PartitionState(A)
    fresh.jump(Place(3, NO_EPOCH))
    fresh.check_against(2)
    assert (fresh.stage, fresh.leader_epoch) == (Stage.READY, 2)
