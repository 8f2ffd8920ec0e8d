"""The worker thread: order, outcomes on the loop, turns during a long chore, closing."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace.server.worker import ROOM, Worker


class Task:
    """A chore that notes what happens to it, and in which thread."""

    def __init__(self, story: list[str], name: str, work: Callable[[], object] = lambda: None) -> None:
        self.story, self.name, self.work = story, name, work
        self.threads: list[str] = []

    def run(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.work()
        self.story.append(f"{self.name} ran")

    def done(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.story.append(f"{self.name} done")

    def failed(self, error: OSError) -> None:
        self.threads.append(threading.current_thread().name)
        self.story.append(f"{self.name} failed: {error}")


async def until(condition: Callable[[], bool]) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0)

    await asyncio.wait_for(poll(), 120)


def fail() -> None:
    raise OSError("no space")


def test_a_chore_runs_in_the_thread_and_ends_on_the_loop() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        task = Task(story, "a")
        worker.submit(task)
        await until(lambda: len(story) == 2)
        worker.close()
        assert story == ["a ran", "a done"]
        assert task.threads == ["headrace-worker", threading.current_thread().name]

    asyncio.run(scenario())


def test_an_os_error_is_an_outcome() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        worker.submit(Task(story, "a", fail))
        await until(lambda: bool(story))
        worker.close()
        assert story == ["a failed: no space"]

    asyncio.run(scenario())


def test_a_bug_in_a_chore_reaches_the_exception_handler_of_the_loop_and_the_worker_goes_on() -> None:
    def stumble() -> None:
        raise AssertionError("1 is not 2")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        caught: list[Any] = []
        loop.set_exception_handler(lambda _, context: caught.append(context["exception"]))
        worker = Worker(loop)
        story: list[str] = []
        worker.submit(Task(story, "a", stumble))
        await until(lambda: bool(caught))
        worker.submit(Task(story, "b"))
        await until(lambda: len(story) == 2)
        worker.close()
        assert str(caught[0]) == "1 is not 2"

    asyncio.run(scenario())


def test_closing_runs_what_is_queued_and_tells_before_it_returns() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        gate = threading.Event()
        worker.submit(Task(story, "a", lambda: gate.wait(120)))
        for name in "bc":
            worker.submit(Task(story, name))
        gate.set()
        worker.close()
        assert [line for line in story if "ran" in line] == ["a ran", "b ran", "c ran"]
        assert [line for line in story if "done" in line] == ["a done", "b done", "c done"]
        worker.close()  # a second time changes nothing

    asyncio.run(scenario())


def test_others_get_their_turn_while_a_long_chore_pauses() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        submitted = threading.Event()

        def long_work() -> None:
            submitted.wait(120)
            worker.pause(0.0)
            story.append("long goes on")

        worker.submit(Task(story, "long", long_work))
        worker.submit(Task(story, "short"))
        submitted.set()
        await until(lambda: "long done" in story)
        worker.close()
        assert story.index("short ran") < story.index("long goes on")

    asyncio.run(scenario())


def test_closing_ends_a_long_chore_at_its_next_pause_and_nobody_is_told_of_it() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        has_begun = threading.Event()

        def endless() -> None:
            has_begun.set()
            while True:
                worker.pause(3600)

        worker.submit(Task(story, "endless", endless))
        assert has_begun.wait(120)
        worker.submit(Task(story, "sync"))
        worker.close()
        assert [line for line in story if "endless" in line] == []
        assert "sync done" in story

    asyncio.run(scenario())


def test_background_work_sees_when_there_is_no_room() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        gate = threading.Event()
        has_begun = threading.Event()

        def first() -> None:
            has_begun.set()
            gate.wait(120)

        worker.submit(Task(story, "first", first))
        assert has_begun.wait(120)
        for number in range(ROOM):
            assert worker.has_room
            worker.submit(Task(story, str(number)))
        assert not worker.has_room
        gate.set()
        worker.close()

    asyncio.run(scenario())


def test_nothing_can_be_submitted_after_closing() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        worker.close()
        with pytest.raises(AssertionError, match="closed"):
            worker.submit(Task([], "late"))

    asyncio.run(scenario())


def test_it_is_idle_when_all_that_was_submitted_has_led_to_nothing_more() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        worker.idle().then(lambda _: story.append("idle"))
        first = Task(story, "first")
        first.done = lambda: worker.submit(Task(story, "second"))  # type: ignore[method-assign]
        worker.submit(first)
        worker.idle().then(lambda _: story.append("idle again"))
        await until(lambda: "idle again" in story)
        assert story == ["idle", "first ran", "second ran", "second done", "idle again"]
        worker.close()

    asyncio.run(scenario())


def test_it_is_not_idle_while_one_of_several_runs() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        may_end = threading.Event()
        worker.submit(Task(story, "first"))
        worker.submit(Task(story, "second", lambda: may_end.wait(120)))
        worker.idle().then(lambda _: story.append("idle"))
        await until(lambda: "first done" in story)
        assert "idle" not in story
        may_end.set()
        await until(lambda: "idle" in story)
        assert story[-2:] == ["second done", "idle"]
        worker.close()

    asyncio.run(scenario())


def test_abandoning_drops_what_is_queued_and_nobody_hears_of_what_runs() -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        is_running, may_end = threading.Event(), threading.Event()

        def wait() -> None:
            is_running.set()
            may_end.wait(120)

        worker.submit(Task(story, "running", wait))
        worker.submit(Task(story, "queued"))
        is_running.wait(120)
        end = threading.Timer(0.01, may_end.set)
        end.start()
        worker.abandon()
        await asyncio.sleep(0)
        assert story == ["running ran"]
        end.join()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_crash", [False, True])
def test_who_waits_for_it_to_be_idle_does_not_wait_beyond_its_end(is_crash: bool) -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        story: list[str] = []
        is_running, may_end = threading.Event(), threading.Event()

        def endless() -> None:
            is_running.set()
            while not may_end.is_set():
                worker.pause(0.0)

        worker.submit(Task(story, "endless", endless))
        assert is_running.wait(120)
        worker.idle().then(lambda _: story.append("idle"))
        assert story == []
        if is_crash:
            worker.abandon()
        else:
            worker.close()
        assert story == ["idle"]
        worker.idle().then(lambda _: story.append("still idle"))
        assert story == ["idle", "still idle"]

    asyncio.run(scenario())
