"""The load generator counts what was answered rightly, and nothing else."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from socket import create_server
from struct import pack_into

import pytest

from benchmarks.beside_kafka.load import Generator, Load
from benchmarks.beside_kafka.sink import generator_alone
from benchmarks.beside_kafka.workload import Workload, WrongAnswerError

PRODUCE = Workload(
    "produce", batch_bytes=200, connections=3, in_flight=5, topic="t", topic_id="00" * 16, requests=40, timestamp_ms=1
)
FETCH = replace(PRODUCE, kind="fetch", batch_bytes=300_000, in_flight=1, batches=4, requests=9)
COMMIT = replace(PRODUCE, kind="commit", batch_bytes=0)


@pytest.mark.parametrize("workload", [PRODUCE, FETCH, COMMIT], ids=lambda workload: workload.kind)
def test_against_a_sink_every_request_is_answered(workload: Workload) -> None:
    load = generator_alone(workload)
    assert load.requests == workload.connections * workload.requests
    assert load.seconds > 0
    assert load.batch_bytes == workload.batch_bytes


def test_a_load_that_ends_by_time_ends_with_nothing_on_its_way() -> None:
    load = generator_alone(replace(PRODUCE, requests=0, seconds=0.05))
    assert load.requests > 0
    assert load.seconds >= 0.05


def run_against(answer: bytes, workload: Workload) -> Load:
    """One connection to a server that says the same to every request, until the generator has enough of it."""
    with _server(answer, workload) as port:
        return Generator(replace(workload, connections=1, in_flight=1, requests=2, port=port)).run()


@contextmanager
def _server(answer: bytes, workload: Workload) -> Iterator[int]:
    request_bytes = workload.talk(0).request_bytes
    with create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            sock, _ = listening.accept()
            with sock, suppress(ConnectionError):  # the generator leaves when it has seen enough
                left = request_bytes
                while received := sock.recv(left):
                    left -= len(received)
                    if not left:
                        sock.sendall(answer)
                        left = request_bytes

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            thread.join()


def _with_error(answer: bytearray) -> None:
    pack_into(">h", answer, answer.index(b"\x00\x00\x00\x00\x00\x00", 13) + 4, 3)  # behind the partition's index


def _longer(answer: bytearray) -> None:
    pack_into(">i", answer, 0, len(answer) - 3)


def _of_another_request(answer: bytearray) -> None:
    answer[4:8] = b"\0\0\0\1"


@pytest.mark.parametrize("spoil", [_with_error, _longer, _of_another_request])
@pytest.mark.parametrize("workload", [PRODUCE, FETCH, COMMIT], ids=lambda workload: workload.kind)
def test_an_answer_that_is_not_right_ends_the_measurement(
    workload: Workload, spoil: Callable[[bytearray], None]
) -> None:
    answer = bytearray(workload.talk(0).answer(0))
    spoil(answer)
    with pytest.raises(WrongAnswerError, match="and due was"):
        run_against(bytes(answer), workload)


def test_an_offset_that_is_acknowledged_twice_ends_the_measurement() -> None:
    with pytest.raises(WrongAnswerError, match="offset 7, and 8 was due"):
        run_against(bytes(PRODUCE.talk(0).answer(7)), PRODUCE)


def test_a_batch_that_nobody_asked_for_ends_the_measurement() -> None:
    with pytest.raises(WrongAnswerError, match="offset 3, and 0 was asked for"):
        run_against(bytes(FETCH.talk(0).answer(3)), FETCH)


def test_a_broker_that_closes_ends_the_measurement() -> None:
    with create_server(("127.0.0.1", 0)) as listening:

        def close() -> None:
            listening.accept()[0].close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises((WrongAnswerError, ConnectionError)):
            Generator(replace(PRODUCE, connections=1, port=listening.getsockname()[1])).run()
        thread.join()
