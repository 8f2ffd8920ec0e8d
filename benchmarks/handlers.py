"""The broker's hot handlers in one process, without sockets: decode, handle, encode, on the real file system.

Produce is shown beside the sum of its parts (decode, append, encode): what is above that is the broker's own.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from benchmarks.figures import Figure, cpu_seconds
from headrace.log.fs import RealFileSystem
from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.header import read_request_header, write_request_header
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from headrace.server.later import Later
from tests.support.one_node import NOW_MS, Asker, OneNode

PRODUCE_VERSION: Final = 10  # librdkafka's
FETCH_VERSION: Final = 16
MANY: Final = 1000
CALLS: Final = 100
REPEATS: Final = 60


class Request:
    """A prebuilt frame, and what serving it gives."""

    def __init__(self, node: OneNode, api: str, version: int, message: Any) -> None:
        key = API_BY_NAME[api].key
        header = write_request_header(RequestHeader(key, version, 7, "rdkafka"))
        body = b"".join(load(key).encode_request[version](message))
        self._frame = bytearray(header + body)
        self._view = memoryview(self._frame)
        self._node = node
        self._asker = cast("Any", Asker())
        self._codec = load(key)
        self._version = version

    def serve(self) -> Any:
        return self._node.dispatcher.serve(self._asker, self._frame, self._view, 0, len(self._frame))

    def decode(self) -> Any:
        _, position = read_request_header(self._frame, self._view, 0, len(self._frame))
        return self._codec.decode_request[self._version](self._frame, self._view, position, len(self._frame))

    def encoder(self) -> Callable[[], Any]:
        parts = self.serve()
        data = b"".join(parts)
        response = self._codec.decode_response[self._version](data, memoryview(data), 9, len(data))
        encode = self._codec.encode_response[self._version]
        return lambda: encode(response)


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as path:
        node = OneNode(RealFileSystem(), path)
        topic_id = node.create_topic("orders", MANY)
        return [*_produce(node), *_fetch(node, topic_id)]


def _us(work: Callable[[], object], calls: int = CALLS) -> float:
    # Short rounds and many of them: the best one was disturbed by nobody.
    return cpu_seconds(work, calls=calls, repeats=REPEATS) * 1e6


def _batch(size_bytes: int) -> bytes:
    return bytes(build_batch([NewRecord(NOW_MS, None, bytes(size_bytes - 70))]))


def _produce(node: OneNode) -> list[Figure]:
    figures = []
    for partitions in (1, 10):
        batch = _batch(200)
        rows = [PartitionProduceData(index, batch) for index in range(partitions)]
        request = Request(
            node,
            "Produce",
            PRODUCE_VERSION,
            ProduceRequest(None, -1, 1000, [TopicProduceData("orders", partition_data=rows)]),
        )
        request.serve()
        whole = _us(request.serve)
        decode, encode = _us(request.decode), _us(request.encoder())
        log = node.partition("orders").log
        append = _us(partial(log.append, bytearray(batch), leader_epoch=0, now_ms=NOW_MS)) * partitions
        above = whole - decode - append - encode
        note = f"decode {decode:.1f}, append {append:.1f}, encode {encode:.1f}: {above:.1f} above"
        figures.append(Figure(f"produce {partitions} x 200 bytes", whole, "us", note=note))
    return figures


def _fetch(node: OneNode, topic_id: bytes) -> list[Figure]:
    log = node.partition("orders").log
    end_offset = log.log_end_offset
    log.raise_high_watermark(end_offset)  # what was appended behind the partition's back is read, too

    def fetch(offset: int, partitions: range, **how: Any) -> Request:
        rows = [FetchPartition(index, fetch_offset=offset, partition_max_bytes=4096) for index in partitions]
        message = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=rows)])
        return Request(node, "Fetch", FETCH_VERSION, message._replace(**how))

    tail = fetch(end_offset - 1, range(1))
    batches = fetch(end_offset // 2, range(1))
    idle = fetch(end_offset, range(1))
    many = fetch(0, range(100, MANY))
    figures = [
        Figure("fetch 4 KB, no session", _us(batches.serve), "us"),
        Figure("fetch the last batch, no session", _us(tail.serve), "us"),
        Figure("fetch nothing, no session", _us(idle.serve), "us"),
        Figure(f"fetch nothing of {MANY - 100} partitions, no session", _us(many.serve, 5), "us"),
    ]
    return [*figures, _idle_session(node, fetch(0, range(100, MANY), session_epoch=0))]


def _idle_session(node: OneNode, first: Request) -> Figure:
    """A poll of a session, all of whose partitions are idle: it parks, and time runs out."""
    parts = first.serve()
    session_id = int.from_bytes(b"".join(parts)[15:19], "big")
    epoch = 0

    def poll() -> None:
        nonlocal epoch
        epoch += 1
        request = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=session_id, session_epoch=epoch)
        found = Request(node, "Fetch", FETCH_VERSION, request)
        parked.append(found)

    parked: list[Request] = []
    calls, repeats = 500, 5
    for _ in range(calls * repeats + 1):
        poll()
    requests = iter(parked)
    next(requests).serve()
    node.clock.move(500)

    def serve() -> None:
        reply = next(requests).serve()
        assert isinstance(reply, Later)
        node.clock.move(500)

    value = cpu_seconds(serve, calls=calls, repeats=repeats) * 1e6
    return Figure(f"an idle poll of {MANY - 100} partitions in a session", value, "us", goal=50)
