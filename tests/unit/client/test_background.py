"""The loop behind blocking calls: one per process, also after a fork, and Ctrl-C works."""

import asyncio
import dis
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from types import FrameType
from typing import Any

import pytest

import headrace
from headrace.client import background


async def where() -> tuple[str, int]:
    return threading.current_thread().name, id(asyncio.get_running_loop())


def test_all_calls_run_on_one_loop_on_a_thread_of_its_own() -> None:
    name, loop = background.call(where())
    assert name == background.NAME
    assert background.call(where()) == (name, loop)
    assert background.submit(where()).result(30) == (name, loop)


def test_threads_that_call_at_the_same_time_get_the_same_loop() -> None:
    loops: list[int] = []
    threads = [threading.Thread(target=lambda: loops.append(background.call(where())[1])) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loops) == 16
    assert len(set(loops)) == 1


def test_what_is_raised_comes_through() -> None:
    async def fail() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        background.call(fail())


def test_the_end_of_the_time_cancels_the_call() -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(TimeoutError):
        background.call(forever(), timeout=0.01)
    assert cancelled.wait(30)


def test_a_call_that_is_cancelled_before_it_begins_never_begins() -> None:
    has_begun: list[bool] = []
    may_go_on = threading.Event()

    async def begin() -> None:
        has_begun.append(True)

    background.run_soon(may_go_on.wait, 30)
    with warnings.catch_warnings(record=True) as seen:
        with pytest.raises(TimeoutError):
            background.call(begin(), timeout=0)
        may_go_on.set()
        background.call(where())
        gc.collect()
    assert has_begun == []
    assert seen == []  # of a coroutine that was never awaited


def test_an_error_that_came_through_is_gone_when_nobody_has_it_any_more() -> None:
    class Trouble(Exception):  # noqa: N818 - one that can be referred to weakly
        pass

    async def fail() -> None:
        raise Trouble

    gc.disable()
    try:
        with pytest.raises(Trouble) as caught:
            background.call(fail())
        trouble = weakref.ref(caught.value)
        del caught
        background.call(where())  # the task is gone, too
        assert trouble() is None
    finally:
        gc.enable()


def test_what_is_cancelled_on_the_loop_is_an_exception_for_whoever_waits() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(CancelledError):
        background.call(give_up())


def test_a_blocking_call_on_the_loop_itself_is_refused() -> None:
    async def call_again() -> None:
        assert background.is_on_loop()
        background.call(where())

    assert not background.is_on_loop()
    with pytest.raises(RuntimeError, match=r"use headrace\.aio"):
        background.call(call_again())


def test_a_plain_function_runs_on_the_loop() -> None:
    seen: list[str] = []
    done = threading.Event()
    background.run_soon(seen.append, "word")
    background.run_soon(done.set)
    assert done.wait(30)
    assert seen == ["word"]


SCRIPT = """
import asyncio, os, sys
from headrace.client import background

async def where():
    return id(asyncio.get_running_loop())

{body}
"""


def script(body: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT.format(body=body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    process = script(
        """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
parent = background.call(where())
child = os.fork()
if child == 0:
    background.call(where())
    os._exit(42)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
background.call(where())
"""
    )
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("42\n", "", 0)


def test_an_interrupt_ends_a_blocking_call() -> None:
    process = script(
        """
async def forever():
    print("waiting", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)

try:
    background.call(forever())
except KeyboardInterrupt:
    background.call(where())
    print("interrupted", flush=True)
"""
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("cancelled\ninterrupted\n", "", 0)


# Behind these instructions Python looks for signals, and nowhere else: `with lock:` cannot be torn apart, for instance.
LOOKS_FOR_SIGNALS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD")


def interrupted_at(place: int, call: Callable[[], object]) -> bool:
    """Whether it was interrupted, as if Ctrl-C were noticed the n-th time that Python looks for it."""
    left = place
    before: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            if before.get(frame) in LOOKS_FOR_SIGNALS:
                left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        return trace

    traced = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(traced)
    return False


def test_an_interrupt_at_any_moment_does_the_client_no_harm() -> None:
    place = 0
    while interrupted_at(place, partial(background.call, moment := asyncio.sleep(0))):
        background.call(where(), timeout=30)
        moment.close()  # it may have been interrupted before anybody had it
        place += 1
    assert place > 5, "it was interrupted"


def test_an_interrupt_at_any_moment_leaves_a_producer_as_it_was() -> None:
    with headrace.Broker() as broker, headrace.Producer(broker.address, linger_ms=0) as producer:
        broker.create_topic("t", 1)
        producer.send("t", b"v").result(30)
        place = 0
        while interrupted_at(place, producer.send("t", b"v").result):
            producer.flush(30)
            place += 1
    assert place > 5, "it was interrupted"


def test_a_process_ends_although_calls_are_under_way() -> None:
    process = script("background.submit(asyncio.sleep(3600)); background.call(where())")
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("", "", 0)


_FORK = """
import os, warnings
import headrace
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
with headrace.Broker() as broker:
    broker.create_topic("t", 1)
    producer = headrace.Producer(broker.address)
    producer.send("t", b"a").result(30)
    consumer = headrace.Consumer(broker.address, auto_offset_reset="earliest")
    consumer.assign([("t", 0)])
    assert len(consumer.poll(30)) == 1
    admin, unused = headrace.Admin(broker.address), headrace.Admin(broker.address)
    assert admin.list_topics()
    child = os.fork()
    if not child:
        refused = 0
        calls = [lambda: producer.send("t", b"b"), producer.flush, consumer.poll, lambda: consumer.seek(("t", 0), 0)]
        calls += [admin.list_topics, lambda: admin.create_topic("u")]
        for call in calls:
            try:
                call()
            except headrace.ClosedError as error:
                refused += "before the process forked" in str(error)
        producer.close()
        consumer.close()
        admin.close()
        assert unused.list_topics()
        with headrace.Producer(broker.address) as own:
            own.send("t", b"c").result(30)
        os._exit(refused)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print([record.value for record in consumer.poll(30)], producer.send("t", b"d").result(30).offset)
    assert admin.list_topics()
    consumer.close()
    producer.close()
    admin.close()
"""


def test_a_client_that_was_made_before_a_fork_says_so_in_the_child() -> None:
    ran = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.splitlines() == ["6", "[b'c'] 2"], ran.stderr
