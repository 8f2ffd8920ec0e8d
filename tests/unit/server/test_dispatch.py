"""From a frame to a handler: what breaks the protocol, and what only looks as if it did."""

import pytest

from headrace.protocol.apis import load
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import DecodeError, ProtocolError
from headrace.protocol.header import write_request_header
from headrace.protocol.messages.headers import RequestHeader
from headrace.server.dispatch import Dispatcher
from tests.support.one_node import Asker, OneNode

HEADER_BYTES = 8  # size and correlation id


def serve(node: OneNode, frame: bytes) -> bytes:
    buffer = bytearray(frame)
    reply = Dispatcher(node.context).serve(Asker(), buffer, memoryview(buffer), 0, len(buffer))  # type: ignore[arg-type]
    assert isinstance(reply, list)
    return b"".join(bytes(part) for part in reply)


def test_a_version_of_api_versions_that_is_too_new_is_answered_in_version_0() -> None:
    reply = serve(OneNode(), write_request_header(RequestHeader(18, 99, 7, "new client")) + b"anything")
    body = reply[HEADER_BYTES:]
    response = load(18).decode_response[0](body, memoryview(body), 0, len(body))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [row.api_key for row in response.api_keys] == [18]


def test_metadata_of_librdkafka_with_its_three_bytes_too_many_is_answered() -> None:
    frame = bytes.fromhex("0003000d00000005000772646b61666b610000000000010000")
    body = serve(OneNode(), frame)[HEADER_BYTES + 1 :]
    assert load(3).decode_response[13](body, memoryview(body), 0, len(body)).brokers


def test_what_follows_a_request_is_ignored() -> None:
    request = write_request_header(RequestHeader(60, 0, 1, "client")) + b"\0\0"
    node = OneNode()
    assert serve(node, request + b"\1") == serve(node, request)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (RequestHeader(4711, 0, 1, None), "API 4711 is not served here"),
        (RequestHeader(4, 0, 1, None), "API 4 is not served here"),
        (RequestHeader(0, 2, 1, None), "version 2 of produce; 3 to 13 are served"),
        (RequestHeader(1, 19, 1, None), "version 19 of fetch; 4 to 18 are served"),
    ],
)
def test_what_was_not_advertised_is_not_answered(header: RequestHeader, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        serve(OneNode(), write_request_header(header))


def test_a_request_that_cannot_be_decoded_breaks_the_protocol() -> None:
    with pytest.raises(DecodeError):
        serve(OneNode(), write_request_header(RequestHeader(3, 13, 1, "client")) + b"\xff\xff")
