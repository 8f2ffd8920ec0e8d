"""Large slices leave through a thread, to which the socket is lent for so long."""

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from headrace.log.fs import File, RealFile, RealFileSystem
from headrace.log.slices import LogSlice
from headrace.server.bulk_sender import BULK_FROM_BYTES
from headrace.server.connection import Connection, Reply, Serve
from headrace.server.sending import MAX_SEND_BYTES
from tests.support.connection_pair import Pair, echo, framed, run

CONTENT = bytes(range(251)) * 20_000  # 5 MB, with a period that fits to no buffer
LARGE = 3_000_000
assert BULK_FROM_BYTES < MAX_SEND_BYTES < LARGE, "more than one piece"


class HeldFile(RealFile):
    """The thread that wants to send it waits until the test lets it go on, or fails."""

    __slots__ = ("error", "is_wanted", "may_go_on")

    def __init__(self, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self.is_wanted = threading.Event()
        self.may_go_on = threading.Event()
        self.error: OSError | None = None

    def fileno(self) -> int:
        self.is_wanted.set()
        is_loop = threading.current_thread() is threading.main_thread()
        assert self.may_go_on.wait(0 if is_loop else 120), "nobody may wait for so long"
        if self.error is not None:
            raise self.error
        return super().fileno()


class HeldFileSystem(RealFileSystem):
    __slots__ = ()
    file_type = HeldFile


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return str(path)


@pytest.fixture
def held(path: str) -> Iterator[HeldFile]:
    file = HeldFileSystem().open(path)
    assert isinstance(file, HeldFile)
    yield file
    file.may_go_on.set()


def answer_with(file: File, size: int = LARGE) -> Serve:
    """The slice to x, and what was said to everything else."""

    def serve(_: Connection, buffer: bytearray, __: memoryview, start: int, end: int) -> Reply:
        body = bytes(buffer[start:end])
        return [b"<", LogSlice(file, 7, size), b">"] if body == b"x" else [body]

    return serve


def one_of_several(loop: asyncio.AbstractEventLoop, serve: Serve) -> Pair:
    """A connection whose next large piece goes to the thread: another one has had something large, too."""
    pair = Pair(loop, serve)
    pair.bulk_sender.is_worth_it(pair.client)
    return pair


def sending_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "headrace-bulk-sender"]


ANSWER = b"<" + CONTENT[7 : 7 + LARGE] + b">"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_large_slices_arrive_whole_between_other_parts(
    path: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        pairs = [Pair(loop, answer_with(RealFileSystem().open(path))) for _ in range(3)]
        for pair in pairs:
            pair.connection._bulk_sender = pairs[0].bulk_sender  # as all connections of a broker have the same
            await pair.send(framed(b"x") * 3)
        for answers in await asyncio.gather(*(pair.receive(3 * len(ANSWER)) for pair in pairs)):
            assert answers == ANSWER * 3
        assert sending_threads()
        for pair in pairs:
            pair.end()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())


def test_others_are_served_while_a_file_is_slow(held: HeldFile) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        slow, other = one_of_several(loop, answer_with(held)), Pair(loop, echo)
        await slow.send(framed(b"x"))
        await slow.until(held.is_wanted.is_set)
        await other.send(framed(b"y"))
        assert await other.receive(1) == b"y"
        held.may_go_on.set()
        assert await slow.receive(len(ANSWER)) == ANSWER
        slow.end()
        other.end()

    run(story)


def test_answers_to_what_comes_meanwhile_stay_behind_the_slice(held: HeldFile) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        wrong: list[object] = []
        loop.set_exception_handler(lambda _, context: wrong.append(context))  # such as touching the file meanwhile
        pair = one_of_several(loop, answer_with(held, BULK_FROM_BYTES))  # which leaves the connection free to read on
        await pair.send(framed(b"x"))
        await pair.until(held.is_wanted.is_set)
        await pair.send(framed(b"one") + framed(b"two"))
        for _ in range(10):
            await asyncio.sleep(0)
        held.may_go_on.set()
        expected = b"<" + CONTENT[7 : 7 + BULK_FROM_BYTES] + b">onetwo"
        assert await pair.receive(len(expected)) == expected
        assert not wrong
        pair.end()

    run(story)


def test_a_client_that_never_reads_does_not_hold_the_thread(path: str) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        file = RealFileSystem().open(path)
        lazy, other = one_of_several(loop, answer_with(file)), Pair(loop, answer_with(file))
        other.connection._bulk_sender = lazy.bulk_sender  # as all connections of a broker have the same
        await lazy.send(framed(b"x") * 5)
        await other.send(framed(b"x"))
        assert await other.receive(len(ANSWER)) == ANSWER
        assert await lazy.receive(5 * len(ANSWER)) == ANSWER * 5  # nothing was lost meanwhile
        lazy.end()
        other.end()

    run(story)


def test_a_socket_that_is_lent_is_closed_when_it_comes_back(held: HeldFile) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = one_of_several(loop, answer_with(held))
        await pair.send(framed(b"x"))
        await pair.until(held.is_wanted.is_set)
        sock = pair.connection._sock
        pair.connection.close("the test wants it")
        assert pair.closed == [pair.connection]
        assert sock.fileno() >= 0, "another socket could get its number now, and be written to"
        assert await pair.receive(2) == b"<"  # and then the end: it is shut down
        held.may_go_on.set()
        await pair.until(lambda: sock.fileno() < 0)
        pair.end()

    run(story)


def test_a_client_that_goes_meanwhile_is_noticed(held: HeldFile) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = one_of_several(loop, answer_with(held))
        await pair.send(framed(b"x"))
        await pair.until(held.is_wanted.is_set)
        pair.client.close()
        held.may_go_on.set()
        await pair.until(lambda: pair.connection.is_closed)
        assert pair.connection._sock.fileno() < 0
        pair.end()

    run(story)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EIO, "the disk is broken"), "reading failed: [Errno 5] the disk is broken"),
        (BrokenPipeError(errno.EPIPE, "gone"), "sending failed: [Errno 32] gone"),
    ],
)
def test_what_goes_wrong_in_the_thread_closes_the_connection(held: HeldFile, error: OSError, reason: str) -> None:
    held.error = error
    held.may_go_on.set()

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = one_of_several(loop, answer_with(held))
        await pair.send(framed(b"x"))
        await pair.until(lambda: pair.connection.is_closed)
        assert pair.connection.close_reason == reason
        pair.end()

    run(story)


def test_a_file_that_ends_too_early_closes_the_connection(path: str) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = one_of_several(loop, answer_with(RealFileSystem().open(path), len(CONTENT)))
        await pair.send(framed(b"x"))
        assert await pair.receive(len(CONTENT) + 2) == b"<" + CONTENT[7:]
        assert pair.connection.close_reason == "sending failed: the log file ends before the slice does"
        pair.end()

    run(story)


def test_when_it_ends_everything_that_was_lent_is_back(held: HeldFile) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = one_of_several(loop, answer_with(held))
        await pair.send(framed(b"x"))
        await pair.until(held.is_wanted.is_set)
        sock = pair.connection._sock
        pair.connection.close("the test wants it")
        held.may_go_on.set()
        pair.bulk_sender.close()  # without a turn of the loop
        assert sock.fileno() < 0
        assert not sending_threads()
        pair.client.close()

    run(story)


def test_small_slices_need_no_thread(path: str) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = one_of_several(loop, answer_with(RealFileSystem().open(path), BULK_FROM_BYTES - 1))
        await pair.send(framed(b"x"))
        assert len(await pair.receive(BULK_FROM_BYTES + 1)) == BULK_FROM_BYTES + 1
        assert not sending_threads()
        pair.end()

    run(story)


def test_one_client_alone_needs_no_thread(path: str) -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, answer_with(RealFileSystem().open(path)))
        await pair.send(framed(b"x") * 3)
        assert await pair.receive(3 * len(ANSWER)) == ANSWER * 3
        assert not sending_threads()
        pair.end()

    run(story)
