"""How commands find a cluster, and what they say when they do not."""

import socket
import threading

import pytest

import headrace as package
from tests.support.command_line import done, headrace


def test_the_address_comes_from_the_option_before_the_environment(headrace_bootstrap: str) -> None:
    assert done("cluster", "describe", bootstrap=headrace_bootstrap)
    assert done("cluster", "describe", "--bootstrap", headrace_bootstrap, bootstrap="localhost:1")


def test_without_a_broker_it_says_how_to_start_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = headrace("topic", "list", bootstrap=address)
    assert ended.code == 3
    assert ended.err == (
        f"headrace: Nobody listens at {address}.\n"
        "  Is a broker running? `headrace start` starts one. "
        f"--bootstrap {address} or HEADRACE_BOOTSTRAP says where it is.\n"
    )


@pytest.mark.parametrize("command", [("produce", "t"), ("consume", "t"), ("cluster", "quorum"), ("log", "dirs")])
def test_every_command_says_so(command: tuple[str, ...]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = headrace(*command, bootstrap=address)
    assert (ended.code, "`headrace start` starts one" in ended.err) == (3, True), ended.err


def test_a_name_that_nobody_knows_is_named() -> None:
    ended = headrace("topic", "list", bootstrap="no-such-host.invalid:9092")
    assert (ended.code, "'no-such-host.invalid'" in ended.err) == (3, True)


def test_an_address_that_is_none_is_explained() -> None:
    ended = headrace("topic", "list", bootstrap="localhost")
    assert (ended.code, "such as localhost:9092" in ended.err) == (2, True)


def test_something_else_that_listens_is_not_taken_for_a_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            peer.recv(100)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.close()

        thread = threading.Thread(target=answer)
        thread.start()
        ended = headrace("topic", "list", bootstrap=f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert (ended.code, "Is it a Kafka listener" in ended.err) == (3, True)


def test_a_cluster_without_topics_says_what_to_do() -> None:
    with package.Broker() as broker:
        ended = done("topic", "list", bootstrap=broker.address)
    assert (ended.out, "headrace topic create" in ended.err) == ("", True)
