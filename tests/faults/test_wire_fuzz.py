"""Every served API in every version, over a real socket to a real process: whatever comes, it is answered or closed.

After a request there is either a response that decodes in the version that was asked, or the end of the connection.
The broker lives, others are served at once, its memory is bounded, and its log shows no exception that nobody
expected.

The frames follow from a seed. HEADRACE_FUZZ_ROUNDS and HEADRACE_FUZZ_SEED make it longer, and another one: what a run
of hours has found is found again by its seed.
"""

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from headrace.protocol.apis import API_BY_NAME, APIS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.header import API_VERSIONS_KEY, write_request_header
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.server.handlers import SERVED, Served
from tests.support.broker_process import BrokerProcess
from tests.support.messages import Definition, all_messages
from tests.support.round_trip import check_round_trip
from tests.support.wire_client import Closed, WireClient, decode_response, frame
from tests.support.wire_fuzz import World, body_of, changed, plausible, values

pytestmark = pytest.mark.slow

ROUNDS: Final = int(os.environ.get("HEADRACE_FUZZ_ROUNDS", "20"))
SEED: Final = os.environ.get("HEADRACE_FUZZ_SEED", "1")
MAX_MEMORY_BYTES: Final = 128 << 20  # of a broker that idles in 45 MB
CORRELATION_ID: Final = 4711
OWN_NODE_ID: Final = (1).to_bytes(4, "big")

_REQUESTS: Final = {
    each.api_key: each for each in all_messages() if each.api_key is not None and each.message.table == "request"
}
# Topics whose batches go different ways through the log.
_TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "1048576"},
    "zipped": {"compression.type": "gzip"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "synced": {"flush.messages": "1"},
    "recent": {"message.timestamp.before.max.ms": "3600000"},
}


class Target(NamedTuple):
    """One API in one version."""

    served: Served
    version: int

    @property
    def name(self) -> str:
        return APIS[self.served.key].name

    @property
    def definition(self) -> Definition:
        return _REQUESTS[self.served.key]

    def head(self) -> bytes:
        return write_request_header(RequestHeader(self.served.key, self.version, CORRELATION_ID, "fuzz"))

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Fuzzed:
    """A broker under fire, and a second connection that must not notice."""

    def __init__(self, broker: BrokerProcess, bystander: WireClient) -> None:
        self.broker = broker
        self._bystander = bystander

    def targets(self) -> Iterator[tuple[Target, World]]:
        """Every API in every version, and what there is for it."""
        for served in SERVED.values():
            for version in range(served.min_version, served.max_version + 1):
                yield Target(served, version), self._world()
            self.check()

    def _world(self) -> World:
        """The topics, made again if the last request has deleted them."""
        self._bystander.ask(
            "CreateTopics",
            7,
            CreateTopicsRequest(
                [
                    CreatableTopic(name, 3, 1, [], [CreatableTopicConfig(*item) for item in configs.items()])
                    for name, configs in _TOPICS.items()
                ],
            ),
        )
        answer = self._bystander.ask("Metadata", 13, MetadataRequest(topics=None))
        return World(list(_TOPICS), [topic.topic_id for topic in answer.topics if topic.name in _TOPICS])

    def check(self) -> None:
        """The others are served."""
        assert self.broker.is_running
        answer = self._bystander.ask("ApiVersions", 4, ApiVersionsRequest("bystander", "1"))
        assert answer.error_code == ErrorCode.NONE
        assert self.broker.memory_bytes() < MAX_MEMORY_BYTES


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[Fuzzed]:
    # Members that are gone when their connection is: else the next one who joins their group waits for them.
    configs = {"group.min.session.timeout.ms": "1"}
    with BrokerProcess(tmp_path, configs=configs) as broker, WireClient(broker.address) as bystander:
        fuzzed = Fuzzed(broker, bystander)
        yield fuzzed
        fuzzed.check()
        check_round_trip(broker.address, "afterwards")
        broker.check_log()
        assert broker.stop() == 0
        broker.check_log()


@contextmanager
def shown(target: Target, body: bytes) -> Iterator[None]:
    """A failure names the frame that caused it."""
    try:
        yield
    except (AssertionError, OSError, Closed, ValueError) as error:
        error.add_note(f"{target}: {body.hex()}")
        raise


def wants_no_answer(target: Target, request: dict[str, Any]) -> bool:
    return target.name == "Produce" and request["acks"] == 0


def ask(fuzzed: Fuzzed, target: Target, body: bytes, *, is_silent: bool) -> None:
    """Send a request that is right; the answer must be there, unless the client wants none."""
    with shown(target, body), WireClient(fuzzed.broker.address) as client:
        client.send_bytes(frame(target.head() + body))
        if not is_silent:
            decode_response(target.name, target.version, client.receive_frame(), CORRELATION_ID)


def test_a_valid_request_is_answered_in_its_version(fuzzed: Fuzzed) -> None:
    source = random.Random(f"valid {SEED}")
    for target, _ in fuzzed.targets():
        for _ in range(ROUNDS):
            request = values(target.definition, target.version, source)
            body = body_of(target.definition, target.version, request)
            ask(fuzzed, target, body, is_silent=wants_no_answer(target, request))


def test_a_request_that_could_be_meant_is_answered_in_its_version(fuzzed: Fuzzed) -> None:
    source = random.Random(f"plausible {SEED}")
    for target, world in fuzzed.targets():
        for _ in range(ROUNDS):
            request = plausible(target.definition, target.version, source, world)
            body = body_of(target.definition, target.version, request)
            ask(fuzzed, target, body, is_silent=wants_no_answer(target, request))


def test_a_request_with_something_wrong_is_answered_or_its_connection_closed(fuzzed: Fuzzed) -> None:
    source = random.Random(f"changed {SEED}")
    for target, world in fuzzed.targets():
        for _ in range(ROUNDS):
            valid = plausible(target.definition, target.version, source, world)
            body = changed(body_of(target.definition, target.version, valid), source)
            if target.name == "UnregisterBroker" and body.startswith(OWN_NODE_ID):
                continue  # the broker would leave its cluster for good, as it was told
            with shown(target, body), WireClient(fuzzed.broker.address) as client:
                client.send_bytes(frame(target.head() + body))
                # A change may make a fetch wait for weeks: the broker need not answer who has said the last word.
                client.sock.shutdown(socket.SHUT_WR)
                try:
                    answer = client.receive_frame()
                except Closed:
                    continue
                decode_response(target.name, target.version, answer, CORRELATION_ID)


def test_a_request_that_ends_too_early_closes_its_connection(fuzzed: Fuzzed) -> None:
    source = random.Random(f"cut {SEED}")
    for target, world in fuzzed.targets():
        whole = body_of(target.definition, target.version, plausible(target.definition, target.version, source, world))
        for _ in range(min(ROUNDS, len(whole))):
            body = whole[: source.randrange(len(whole))]
            with shown(target, body), WireClient(fuzzed.broker.address) as client:
                client.send_bytes(frame(target.head() + body))
                with pytest.raises(Closed):
                    client.receive_frame()


def test_versions_and_apis_that_are_not_served_close_the_connection(fuzzed: Fuzzed) -> None:
    wrong = [(key, 0) for key in (-1, 999, 32767, -32768, *(APIS.keys() - SERVED.keys()))]
    for served in SERVED.values():
        wrong += [(served.key, each) for each in (-1, served.min_version - 1, served.max_version + 1, 32767, -32768)]
    for key, version in wrong:
        if key == API_VERSIONS_KEY and version > SERVED[key].max_version:
            continue  # the one that is answered
        head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff"
        with WireClient(fuzzed.broker.address) as client:
            client.send_bytes(frame(head + bytes(40)))
            with pytest.raises(Closed):
                client.receive_frame()


@pytest.mark.parametrize("version", [SERVED[API_VERSIONS_KEY].max_version + 1, 32767])
def test_a_newer_api_versions_is_answered_with_what_is_spoken(fuzzed: Fuzzed, version: int) -> None:
    header = RequestHeader(API_VERSIONS_KEY, version, CORRELATION_ID, "fuzz")
    for body in (b"", b"\xff" * 30, bytes(3)):
        with WireClient(fuzzed.broker.address) as client:
            client.send_bytes(frame(write_request_header(header) + body))
            answer = decode_response("ApiVersions", 0, client.receive_frame(), CORRELATION_ID)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}[API_VERSIONS_KEY] == (
                SERVED[API_VERSIONS_KEY].min_version,
                SERVED[API_VERSIONS_KEY].max_version,
            )


def test_garbage_closes_its_connection_and_nothing_else(fuzzed: Fuzzed) -> None:
    source = random.Random(f"garbage {SEED}")
    for number in range(ROUNDS * 20):
        kind = number % 4
        data = source.randbytes(source.randrange(1, 400))
        if kind == 1:
            data = frame(data)  # a frame of garbage
        elif kind == 2:
            key = source.choice(list(SERVED))
            data = frame(key.to_bytes(2, "big") + source.randbytes(1)[:1].rjust(2, b"\0") + data)
        elif kind == 3:
            data = source.choice((b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\xff" * 64)) + data
        with WireClient(fuzzed.broker.address) as client:
            client.send_bytes(data)
            with suppress(OSError):  # it may be closed already
                client.sock.shutdown(socket.SHUT_WR)
            client.receive_until_closed()
        if number % 50 == 0:
            fuzzed.check()


def test_requests_in_pieces_of_any_size_are_answered_in_their_order(fuzzed: Fuzzed) -> None:
    source = random.Random(f"pieces {SEED}")
    targets = [(target, world) for target, world in fuzzed.targets() if target.name not in _CHANGING]
    for piece_bytes in (1, 2, 3, 7, 4096):
        chosen = source.sample(targets, 40)
        requests = [(target, values(target.definition, target.version, source)) for target, _ in chosen]
        requests = [(target, request) for target, request in requests if not wants_no_answer(target, request)]
        sent = b"".join(
            frame(target.head() + body_of(target.definition, target.version, request)) for target, request in requests
        )
        with WireClient(fuzzed.broker.address) as client:
            for start in range(0, len(sent), piece_bytes):
                client.send_bytes(sent[start : start + piece_bytes])
            for target, _ in requests:
                decode_response(target.name, target.version, client.receive_frame(), CORRELATION_ID)


# What one of them answers depends on what another one did, and it may take long.
_CHANGING: Final = frozenset({"JoinGroup", "SyncGroup"})


def test_every_api_of_the_table_has_a_definition() -> None:
    assert {APIS[key].name for key in SERVED} <= set(API_BY_NAME)
    assert SERVED.keys() <= _REQUESTS.keys()
