"""The least that can be called a Kafka client: a blocking socket, frames, and the generated codecs.

It sends what it is told, right or wrong, and says what came back. For tests that need to know each byte on the wire.
"""

import socket
from contextlib import suppress
from struct import Struct
from types import TracebackType
from typing import Any, Final, Self

from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.header import read_response_header, response_header_version, write_request_header
from headrace.protocol.messages.headers import RequestHeader

TIMEOUT_SECONDS: Final = 60.0  # so long the machine may be busy; a broker that needs it is broken
_SIZE: Final = Struct(">i")


class Closed(Exception):  # noqa: N818 - an outcome like any other
    """The broker has closed the connection."""


class WireClient:
    """One connection."""

    def __init__(self, address: tuple[str, int], *, receive_buffer_bytes: int | None = None) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.sock.settimeout(TIMEOUT_SECONDS)
        try:
            self.sock.connect(address)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            self.sock.close()
            raise
        self._correlation_id = 0

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Bytes

    def send_bytes(self, data: bytes) -> None:
        """Raises Closed."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def receive_frame(self) -> bytearray:
        """The content of the next frame. Raises Closed."""
        (size,) = _SIZE.unpack(self._receive(4))
        return self._receive(size)

    def receive_until_closed(self) -> list[bytearray]:
        """All frames that still come."""
        frames = []
        with suppress(Closed):
            while True:
                frames.append(self.receive_frame())
        return frames

    def _receive(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        position = 0
        while position < size:
            try:
                count = self.sock.recv_into(view[position:])
            except ConnectionResetError:
                raise Closed from None
            if not count:
                assert not position, f"closed within a frame: {position} of {size} bytes came"
                raise Closed
            position += count
        return data

    # Messages

    def send(self, api: str, version: int, request: Any, *, client_id: str | None = "test") -> int:
        """The correlation id, for `receive`."""
        self._correlation_id += 1
        self.send_bytes(encode_request(api, version, request, self._correlation_id, client_id=client_id))
        return self._correlation_id

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        return decode_response(api, version, self.receive_frame(), correlation_id)

    def ask(self, api: str, version: int, request: Any, *, client_id: str | None = "test") -> Any:
        """The response. Raises Closed."""
        return self.receive(api, version, self.send(api, version, request, client_id=client_id))


def encode_request(
    api: str, version: int, request: Any, correlation_id: int, *, client_id: str | None = "test"
) -> bytes:
    """A whole frame."""
    key = API_BY_NAME[api].key
    header = write_request_header(RequestHeader(key, version, correlation_id, client_id))
    return frame(b"".join([header, *load(key).encode_request[version](request)]))


def frame(content: bytes) -> bytes:
    return _SIZE.pack(len(content)) + content


def decode_response(api: str, version: int, data: bytes | bytearray, correlation_id: int) -> Any:
    """The one response that answers the request: another one, or one of another version, does not decode."""
    key = API_BY_NAME[api].key
    header, position = read_response_header(data, 0, len(data), response_header_version(key, version))
    assert header.correlation_id == correlation_id, f"{header.correlation_id} answers {correlation_id}"
    return load(key).decode_response[version](data, memoryview(data), position, len(data))
