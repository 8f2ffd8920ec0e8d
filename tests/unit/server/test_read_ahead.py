"""What is not in memory is read by threads before it is sent, and the loop goes on meanwhile."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from headrace.log.fs import File, RealFile, RealFileSystem
from headrace.log.slices import LogSlice
from headrace.server.connection import Connection, Reply, Serve
from headrace.server.read_ahead import (
    FIRST_WINDOW_BYTES,
    LAST_WINDOW_BYTES,
    MARGIN_BYTES,
    MAX_THREADS,
    PIECE_BYTES,
    DiskReaders,
    ReadAhead,
)
from tests.support.connection_pair import Pair, echo, framed, run

CONTENT = bytes(range(251)) * 20_000  # 5 MB, with a period that fits to no buffer
LARGE = 3_000_000
SMALL = 1000
assert PIECE_BYTES < LARGE, "more than one piece"


class ColdFile(RealFile):
    """Not in memory before it is loaded, for which a test must allow it."""

    __slots__ = ("error", "is_wanted", "loaded", "may_load")

    def __init__(self, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self.loaded: list[tuple[int, int]] = []
        self.is_wanted = threading.Event()
        self.may_load = threading.Event()
        self.error: OSError | None = None

    def load(self, start: int, end: int) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the loop waits for nothing"
        self.is_wanted.set()
        assert self.may_load.wait(120)
        self.loaded.append((start, end))
        if self.error is not None:
            raise self.error

    def is_cached(self, position: int) -> bool:
        return any(start <= position < end for start, end in self.loaded)

    def read_cached(self, position: int, size: int) -> bytes | None:
        return super().read_cached(position, size) if self.is_cached(position) else None

    def fileno(self) -> int:
        assert self.loaded, "sent before it was loaded"
        return super().fileno()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return str(path)


@pytest.fixture
def cold(path: str) -> Iterator[ColdFile]:
    file = ColdFile(path, os.open(path, os.O_RDONLY))
    yield file
    file.may_load.set()


def answer_with(file: File, size: int) -> Serve:
    """The slice to x, and what was said to everything else."""

    def serve(_: Connection, buffer: bytearray, __: memoryview, start: int, end: int) -> Reply:
        body = bytes(buffer[start:end])
        return [b"<", LogSlice(file, 7, size), b">"] if body == b"x" else [body]

    return serve


def answer(size: int) -> bytes:
    return b"<" + CONTENT[7 : 7 + size] + b">"


def reading_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "headrace-disk-reader"]


class TestConnection:
    @pytest.mark.parametrize("size", [SMALL, LARGE])
    @pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
    def test_others_are_served_while_the_disk_is_slow(
        self, cold: ColdFile, new_loop: Callable[[], asyncio.AbstractEventLoop], size: int
    ) -> None:
        async def story() -> None:
            loop = asyncio.get_running_loop()
            slow, other = Pair(loop, answer_with(cold, size)), Pair(loop, echo)
            await slow.send(framed(b"x"))
            await slow.until(cold.is_wanted.is_set)
            await other.send(framed(b"y"))
            assert await other.receive(1) == b"y"
            cold.may_load.set()
            assert await slow.receive(size + 2) == answer(size)
            slow.end()
            other.end()

        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(story())

    @pytest.mark.parametrize("size", [SMALL, LARGE])
    def test_answers_to_what_comes_meanwhile_stay_behind_it(self, cold: ColdFile, size: int) -> None:
        async def story(loop: asyncio.AbstractEventLoop) -> None:
            wrong: list[object] = []
            loop.set_exception_handler(lambda _, context: wrong.append(context))
            pair = Pair(loop, answer_with(cold, size))
            await pair.send(framed(b"one") + framed(b"x"))
            await pair.until(cold.is_wanted.is_set)
            await pair.send(framed(b"two") + framed(b"x") + framed(b"three"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not wrong, "such as sending it before it was loaded"
            assert not pair.connection._is_writing, "the loop would be told again and again that the socket takes more"
            cold.may_load.set()
            expected = b"one" + answer(size) + b"two" + answer(size) + b"three"
            assert await pair.receive(len(expected)) == expected
            pair.end()

        run(story)

    def test_no_more_is_sent_than_was_loaded(self, cold: ColdFile, monkeypatch: pytest.MonkeyPatch) -> None:
        sendfile = os.sendfile

        def watched(to: int, file: int, position: int, size: int) -> int:
            assert cold.is_cached(position)
            assert cold.is_cached(position + size - 1)
            return sendfile(to, file, position, size)

        async def story(loop: asyncio.AbstractEventLoop) -> None:
            pair = Pair(loop, answer_with(cold, LARGE))
            await pair.send(framed(b"x"))
            assert await pair.receive(LARGE + 2) == answer(LARGE)
            pair.end()

        cold.may_load.set()
        monkeypatch.setattr(os, "sendfile", watched)
        run(story)

    def test_what_is_in_memory_needs_no_thread(self, path: str) -> None:
        async def story(loop: asyncio.AbstractEventLoop) -> None:
            pair = Pair(loop, answer_with(RealFileSystem().open(path), LARGE))
            await pair.send(framed(b"x"))
            assert await pair.receive(LARGE + 2) == answer(LARGE)
            assert not reading_threads()
            pair.end()

        Path(path).read_bytes()
        run(story)

    def test_what_the_disk_cannot_read_is_for_the_sender_to_hear_of(self, cold: ColdFile) -> None:
        """Here it can be sent after all."""

        async def story(loop: asyncio.AbstractEventLoop) -> None:
            pair = Pair(loop, answer_with(cold, LARGE))
            await pair.send(framed(b"x"))
            assert await pair.receive(LARGE + 2) == answer(LARGE)
            pair.end()

        cold.error = OSError(errno.EIO, "the disk is broken")
        cold.may_load.set()
        run(story)

    def test_a_connection_may_be_closed_meanwhile_and_leaves_nothing_behind(self, path: str) -> None:
        files = [ColdFile(path, os.open(path, os.O_RDONLY))]
        is_wanted, may_load = files[0].is_wanted, files[0].may_load

        async def story(loop: asyncio.AbstractEventLoop) -> None:
            wrong: list[object] = []
            loop.set_exception_handler(lambda _, context: wrong.append(context))
            pair = Pair(loop, lambda *_: [LogSlice(files[0], 7, LARGE)])
            await pair.send(framed(b"x"))
            await pair.until(is_wanted.is_set)
            pair.connection.close("the test says so")
            may_load.set()
            pair.end()
            await asyncio.sleep(0)
            assert not wrong

        run(story)
        files.clear()
        assert os.stat(path).st_ino not in open_inodes()
        assert not reading_threads()


def open_inodes() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.fstat(int(name)).st_ino)
        except OSError:
            continue  # that of the listing itself
    return found


class Readers(DiskReaders):
    """Which parts are to be read, without any thread."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, Callable[[], None]]] = []

    def load(self, file: File, start: int, end: int, then: Callable[[], None]) -> None:
        self.asked.append((start, end - MARGIN_BYTES, then))


class Reader:
    """Reads slices of one size, one behind the other, of a file that is only on the disk."""

    def __init__(self, path: str) -> None:
        self.readers = Readers()
        self.ahead = ReadAhead(self.readers)
        self.file = ColdFile(path, os.open(path, os.O_RDONLY))
        self.waits = 0

    def read(self, start: int, size: int = PIECE_BYTES) -> None:
        records = LogSlice(self.file, start, size)
        went_on: list[bool] = []
        while records.size_bytes:
            if not self.ahead.is_ready(records, lambda: went_on.append(True)):
                self.waits += 1
                while not went_on:
                    self.finish()
                went_on.clear()
            records.drop(records.ready_until - records.position)

    def finish(self) -> tuple[int, int]:
        """The first of what is to be read has been read."""
        start, end, then = self.readers.asked.pop(0)
        self.file.loaded.append((start, end + MARGIN_BYTES))
        then()
        return start, end

    def finish_all(self) -> list[tuple[int, int]]:
        return [self.finish() for _ in list(self.readers.asked)]


MB = 1 << 20
assert PIECE_BYTES == FIRST_WINDOW_BYTES == MB
assert LAST_WINDOW_BYTES == 4 * MB


class TestWindows:
    @pytest.fixture
    def reader(self, path: str) -> Reader:
        return Reader(path)

    def test_who_goes_on_waits_once(self, reader: Reader) -> None:
        for number in range(100):
            reader.read(number * MB)
            reader.finish_all()
        assert reader.waits == 1

    def test_windows_grow(self, reader: Reader) -> None:
        asked = []
        for number in range(12):
            reader.read(number * MB)
            asked += reader.finish_all()
        assert asked[:4] == [(MB, 2 * MB), (2 * MB, 4 * MB), (4 * MB, 8 * MB), (8 * MB, 12 * MB)]

    def test_who_comes_before_his_window_is_read_waits_for_it_and_for_nothing_else(self, reader: Reader) -> None:
        reader.read(0)
        reader.read(MB)
        assert reader.waits == 2
        assert [(start, end) for start, end, _ in reader.readers.asked] == [(2 * MB, 3 * MB)]

    def test_who_is_before_the_window_that_is_being_read_does_not_wait_for_it(self, reader: Reader) -> None:
        for number in range(4):
            reader.read(number * MB)
            reader.finish_all()
        for number in range(4, 8):
            reader.read(number * MB)
            assert [(start, end) for start, end, _ in reader.readers.asked] == [(8 * MB, 12 * MB)]
        assert reader.waits == 1
        reader.read(8 * MB)
        assert reader.waits == 2

    def test_who_goes_elsewhere_is_not_told_of_what_he_left(self, reader: Reader) -> None:
        reader.read(0)
        told: list[bool] = []
        assert not reader.ahead.is_ready(LogSlice(reader.file, 80 * MB, MB), lambda: told.append(True))
        reader.finish()  # the window behind the beginning
        assert not told
        assert reader.finish() == (80 * MB, 81 * MB)
        assert told

    def test_one_look_at_a_place_costs_no_large_window(self, reader: Reader) -> None:
        for number in range(20):
            reader.read(number * MB)
            reader.finish_all()
        for place in (150, 110, 190, 130):
            reader.read(place * MB, 500)
            assert reader.finish_all() == [(place * MB + 500, place * MB + 500 + FIRST_WINDOW_BYTES)]

    def test_large_slices_are_read_piece_by_piece(self, reader: Reader) -> None:
        reader.read(0, 20 * MB)
        assert reader.waits > 1
        assert max(end - start for start, end in reader.file.loaded) <= LAST_WINDOW_BYTES + MARGIN_BYTES

    def test_another_file_is_another_matter(self, reader: Reader, tmp_path: Path) -> None:
        reader.read(0)
        reader.finish_all()
        other = tmp_path / "00000000000000000005.log"
        other.write_bytes(b"")
        reader.file = ColdFile(str(other), os.open(other, os.O_RDONLY))
        reader.read(MB)
        assert reader.waits == 2

    def test_what_is_in_memory_is_not_read_ahead(self, path: str) -> None:
        readers = Readers()
        ahead = ReadAhead(readers)
        Path(path).read_bytes()
        assert ahead.is_ready(LogSlice(RealFileSystem().open(path), 0, LARGE), lambda: None)
        assert not readers.asked


class TestThreads:
    def test_one_is_enough_for_those_who_come_one_after_the_other(self, cold: ColdFile) -> None:
        async def story(loop: asyncio.AbstractEventLoop) -> None:
            readers = DiskReaders(loop)
            for _ in range(5):
                ended = asyncio.Event()
                readers.load(cold, 0, 10, ended.set)
                await asyncio.wait_for(ended.wait(), 120)
            assert len(reading_threads()) == 1
            readers.close()

        cold.may_load.set()
        run(story)

    def test_one_that_has_nothing_to_do_holds_no_file(self, path: str) -> None:
        async def story(loop: asyncio.AbstractEventLoop) -> None:
            readers = DiskReaders(loop)
            ended = asyncio.Event()
            readers.load(RealFileSystem().open(path), 0, 10, ended.set)
            await asyncio.wait_for(ended.wait(), 120)
            for _ in range(1000):  # the loop hears of the end before the thread has forgotten it
                if os.stat(path).st_ino not in open_inodes():
                    break
                await asyncio.sleep(0.01)
            assert os.stat(path).st_ino not in open_inodes()
            readers.close()

        run(story)

    def test_there_are_few_however_many_wait(self, path: str) -> None:
        files = [ColdFile(path, os.open(path, os.O_RDONLY)) for _ in range(3 * MAX_THREADS)]

        async def story(loop: asyncio.AbstractEventLoop) -> None:
            readers = DiskReaders(loop)
            ended: list[int] = []
            for number, file in enumerate(files):
                readers.load(file, 0, 10, lambda number=number: ended.append(number))  # type: ignore[misc]
                assert len(reading_threads()) <= MAX_THREADS
            assert len(reading_threads()) == MAX_THREADS
            for file in files:
                file.may_load.set()
            while len(ended) < len(files):
                await asyncio.sleep(0)
            readers.close()
            assert not reading_threads()

        run(story)

    def test_what_has_not_begun_is_not_read_when_the_broker_stops(
        self, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = [ColdFile(path, os.open(path, os.O_RDONLY)) for _ in range(MAX_THREADS + 2)]
        join = threading.Thread.join

        def go_on_and_join(thread: threading.Thread) -> None:
            for file in files:
                file.may_load.set()
            join(thread)

        async def story(loop: asyncio.AbstractEventLoop) -> None:
            readers = DiskReaders(loop)
            for file in files:
                readers.load(file, 0, 10, lambda: None)
            for file in files[:MAX_THREADS]:
                assert file.is_wanted.wait(120)
            monkeypatch.setattr(threading.Thread, "join", go_on_and_join)
            readers.close()
            assert not reading_threads()

        run(story)
        assert [bool(file.loaded) for file in files] == [True] * MAX_THREADS + [False] * 2
