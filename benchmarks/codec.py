"""The generated codecs beside codecs that were written by hand for one version: header and body, CPU time, ratios.

Both sides are first checked against one another: the same bytes, and no frame that is cut short accepted. Messages
that carry no records are joined to one piece when encoded, as before they are sent; records stay parts of their own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from benchmarks.figures import Figure, cpu_seconds
from benchmarks.handwritten import fetch as fetch_by_hand
from benchmarks.handwritten import metadata as metadata_by_hand
from benchmarks.handwritten import produce as produce_by_hand
from benchmarks.handwritten.wire import MalformedError
from headrace.protocol.header import (
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from headrace.protocol.messages import fetch, metadata, produce
from headrace.protocol.messages.headers import RequestHeader

GOAL: Final = 1.3
PARTITIONS: Final = (1, 10, 100)
ROUNDS: Final = 31
ROUND_SECONDS: Final = 0.003  # short, so that both sides of a round see the same machine

CLIENT_ID: Final = "rdkafka"
CORRELATION_ID: Final = 7
TOPIC: Final = "orders"
TOPIC_ID: Final = bytes(range(16))
BATCH: Final = bytes(200)
RECORDS: Final = bytes(100_000)


@dataclass(frozen=True)
class Contest:
    """One thing that both sides do. `prove` fails if they do not do the same."""

    name: str
    generated: Callable[[], object]
    by_hand: Callable[[], object]
    prove: Callable[[], None]


def run() -> list[Figure]:
    figures = []
    for contest in _contests():
        contest.prove()
        rounds = _measure(contest)
        ours, theirs = (min(times) * 1e6 for times in zip(*rounds, strict=True))
        ratio = median(generated / by_hand for generated, by_hand in rounds)
        figures.append(Figure(contest.name, ratio, "x", goal=GOAL, note=f"{ours:.1f} us, by hand {theirs:.1f} us"))
    return figures


def _measure(contest: Contest) -> list[tuple[float, float]]:
    """CPU seconds of one call of each side, many times in turns: a slow moment of the machine then hits both."""
    calls = max(1, int(ROUND_SECONDS / cpu_seconds(contest.by_hand, calls=20, repeats=3)))
    return [
        (
            cpu_seconds(contest.generated, calls=calls, repeats=1),
            cpu_seconds(contest.by_hand, calls=calls, repeats=1),
        )
        for _ in range(ROUNDS)
    ]


def _contests() -> Iterator[Contest]:
    for count in PARTITIONS:
        yield from _produce(count)
        yield from _fetch_request(count)
        yield from _fetch_response(count, b"", "empty")
        yield from _fetch_response(count, RECORDS, "100 KB each")
        yield from _metadata(count)


def _produce(count: int) -> Iterator[Contest]:
    rows = [produce.PartitionProduceData(index, BATCH) for index in range(count)]
    request = produce.ProduceRequest(None, -1, 30_000, [produce.TopicProduceData(TOPIC, partition_data=rows)])
    plain_request = (None, -1, 30_000, [(TOPIC, [(index, BATCH) for index in range(count)])])
    title = f"Produce v9 request, {count} partitions"
    yield from _request_contests(title, 0, 9, produce, produce_by_hand, request, plain_request, join=False)
    answers = [produce.PartitionProduceResponse(index, 0, 1000 + index, -1, 5) for index in range(count)]
    response = produce.ProduceResponse([produce.TopicProduceResponse(TOPIC, partition_responses=answers)])
    plain_response: Any = ([(TOPIC, [(index, 0, 1000 + index, -1, 5, [], None) for index in range(count)])], 0)
    title = f"Produce v9 response, {count} partitions"
    yield from _response_contests(title, 9, produce, produce_by_hand, response, plain_response, join=True)


def _fetch_request(count: int) -> Iterator[Contest]:
    rows = [fetch.FetchPartition(index, 3, 1000, -1, -1, 1_048_576) for index in range(count)]
    request = fetch.FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[fetch.FetchTopic(topic_id=TOPIC_ID, partitions=rows)]
    )
    plain_rows = [(index, 3, 1000, -1, -1, 1_048_576) for index in range(count)]
    plain_request: Any = (500, 1, 2_147_483_647, 0, 0, -1, [(TOPIC_ID, plain_rows)], [], "", None)
    title = f"Fetch v16 request, {count} partitions"
    yield from _request_contests(title, 1, 16, fetch, fetch_by_hand, request, plain_request, join=True)


def _fetch_response(count: int, records: bytes, kind: str) -> Iterator[Contest]:
    rows = [
        fetch.PartitionData(index, 0, 1024, 1024, 0, aborted_transactions=None, records=records)
        for index in range(count)
    ]
    response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=rows)])
    plain_rows = [(index, 0, 1024, 1024, 0, None, -1, records, None) for index in range(count)]
    plain_response = (0, 0, 0, [(TOPIC_ID, plain_rows)], None)
    title = f"Fetch v16 response, {count} partitions, {kind}"
    yield from _response_contests(title, 16, fetch, fetch_by_hand, response, plain_response, join=not records)


def _metadata(count: int) -> Iterator[Contest]:
    brokers = [metadata.MetadataResponseBroker(node, f"broker-{node}.example.org", 9092) for node in (1, 2, 3)]
    rows = [metadata.MetadataResponsePartition(0, index, 1, 5, [1, 2, 3], [1, 2, 3], []) for index in range(count)]
    topic = metadata.MetadataResponseTopic(0, TOPIC, TOPIC_ID, False, rows)
    response = metadata.MetadataResponse(0, brokers, "9oXkQ2nTR0y0mZrVqB7LhA", 1, [topic])
    plain_brokers = [(node, f"broker-{node}.example.org", 9092, None) for node in (1, 2, 3)]
    plain_rows: list[Any] = [(0, index, 1, 5, [1, 2, 3], [1, 2, 3], []) for index in range(count)]
    plain_topics = [(0, TOPIC, TOPIC_ID, False, plain_rows, -2_147_483_648)]
    plain_response = (0, plain_brokers, "9oXkQ2nTR0y0mZrVqB7LhA", 1, plain_topics)
    title = f"Metadata v12 response, {count} partitions"
    yield from _response_contests(title, 12, metadata, metadata_by_hand, response, plain_response, join=True)


def _request_contests(
    title: str, api_key: int, version: int, module: Any, hand: Any, message: Any, plain: Any, *, join: bool
) -> Iterator[Contest]:
    decode, encode = module.decode_request[version], module.encode_request[version]
    header = RequestHeader(api_key, version, CORRELATION_ID, CLIENT_ID)
    plain_header = (api_key, version, CORRELATION_ID, CLIENT_ID)

    def read(buffer: bytes, view: memoryview, position: int, end: int) -> tuple[Any, Any]:
        head, position = read_request_header(buffer, view, position, end)
        return head, decode(buffer, view, position, end)

    def write() -> list[Any]:
        return [write_request_header(header), *encode(message)]

    def write_by_hand() -> Any:
        return hand.encode_request(plain_header, plain)

    return _both_ways(title, read, hand.decode_request, write, write_by_hand, join)


def _response_contests(
    title: str, version: int, module: Any, hand: Any, message: Any, plain: Any, *, join: bool
) -> Iterator[Contest]:
    decode, encode = module.decode_response[version], module.encode_response[version]

    def read(buffer: bytes, view: memoryview, position: int, end: int) -> tuple[Any, Any]:
        head, position = read_response_header(buffer, position, end, 1)
        return head, decode(buffer, view, position, end)

    def write() -> list[Any]:
        return [write_response_header(CORRELATION_ID, 1), *encode(message)]

    def write_by_hand() -> Any:
        return hand.encode_response(CORRELATION_ID, plain)

    return _both_ways(title, read, hand.decode_response, write, write_by_hand, join)


def _both_ways(
    title: str,
    read: Callable[..., Any],
    read_by_hand: Callable[..., Any],
    write: Callable[[], list[Any]],
    write_by_hand: Callable[[], list[Any]],
    join: bool,
) -> Iterator[Contest]:
    frame = b"".join(write_by_hand())
    buffer = bytearray(b"\xee" * 8 + frame + b"\xee" * 64)  # a frame is a part of a receive buffer
    view = memoryview(buffer)
    start, end = 8, 8 + len(frame)

    def prove() -> None:
        assert b"".join(write()) == frame, f"{title}: the two sides write different bytes"
        assert len(read_by_hand(buffer, view, start, end)) == len(read(buffer, view, start, end)) == 2
        for cut in (*range(start, min(end, start + 300)), *range(max(start, end - 20), end)):
            try:
                read_by_hand(buffer, view, start, cut)
            except (MalformedError, UnicodeDecodeError):
                continue
            raise AssertionError(f"{title}: {cut - start} of {len(frame)} bytes are taken for a message by hand")

    def generated() -> Any:
        return read(buffer, view, start, end)

    def by_hand() -> Any:
        return read_by_hand(buffer, view, start, end)

    yield Contest(f"decode {title}", generated, by_hand, prove)
    if join:
        yield Contest(f"encode {title}", lambda: b"".join(write()), lambda: b"".join(write_by_hand()), prove)
    else:
        yield Contest(f"encode {title}", write, write_by_hand, prove)
