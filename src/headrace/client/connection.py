"""One connection to one broker: requests out, many at a time, and their answers in, in the same order.

Theory. `send` encodes a request at once and puts it behind what is unsent; everything that one turn of the event loop
produced leaves in one system call. Records are never copied here: small parts are joined, large ones are handed to
`sendmsg` as they are. Brokers answer in the order of the requests, so the first answer belongs to the first request
that waits; its correlation id is checked, and a wrong one ends the connection.

Answers are decoded where they were received. Only those which carry records (Fetch) outlive the next read: a large one
has a buffer of its own anyway, a small one is copied once, and its `records` are views of that buffer.

A request that is not answered in time ends the connection, as in Kafka's client: answers come in order, so nothing
behind it could arrive either. Whatever waits then gets the error. A future that is cancelled meanwhile is left alone.

Everything here belongs to the loop's thread.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from headrace.client.config import Address
from headrace.client.errors import ConnectionLostError, KafkaError, PeerProtocolError, RequestTimedOutError
from headrace.client.gathering import gather, send_some
from headrace.client.prompt_answer import PromptAnswer
from headrace.client.versions import KEY_OF, BrokerVersions
from headrace.protocol.apis import APIS, load
from headrace.protocol.errors import ProtocolError
from headrace.protocol.frame import FrameSplitter, ReceiveBuffer
from headrace.protocol.header import read_response_header, request_header_version, response_header_version
from headrace.protocol.messages.api_versions import ApiVersionsResponse
from headrace.protocol.primitives import new
from headrace.protocol.types import Decoder, Part

MAX_RESPONSE_BYTES: Final = 1 << 30  # far above fetch.max.bytes
# An answer up to this size is received in place; a larger one grows as it arrives. It is above the default of
# fetch.max.bytes, with room for one batch more.
IN_PLACE_BYTES: Final = 64 << 20
RECORD_APIS: Final = frozenset({1, 59, 78})  # Fetch, FetchSnapshot, ShareFetch: answers that hold records

_HEAD: Final = Struct(">ihhih")  # size, api key, version, correlation id, length of the client id
_CORRELATION_IDS: Final = 0x7FFFFFFF


class _Waiting(NamedTuple):
    """A request that has no answer yet."""

    correlation_id: int
    answer: asyncio.Future[Any] | PromptAnswer
    decode: Decoder[Any]
    header_version: int
    keeps_buffer: bool
    deadline: float
    api_key: int
    sent_at: float


class Connection:
    """Made by `connecting.open_connection`, which has asked the broker for its versions."""

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_is_flush_due",
        "_is_writing",
        "_loop",
        "_on_close",
        "_receive_buffer",
        "_request_timeout",
        "_sock",
        "_splitter",
        "_timer",
        "_unanswered",
        "_unsent",
        "_waiting",
        "address",
        "close_error",
        "last_used",
        "throttled_until",
        "versions",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        address: Address,
        *,
        client_id: str,
        request_timeout: float,
        receive_buffer: ReceiveBuffer | None = None,
        on_close: Callable[["Connection"], None] | None = None,
    ) -> None:
        """`sock` is connected and does not block. Connections of one loop may share a `receive_buffer`."""
        self._loop = loop
        self._sock = sock
        self.address = address
        self._client_id = client_id.encode()
        self._request_timeout = request_timeout
        self._on_close = on_close
        self._receive_buffer = receive_buffer or ReceiveBuffer()
        self._splitter = FrameSplitter(
            self._receive_buffer, max_frame_bytes=MAX_RESPONSE_BYTES, trusted_bytes=IN_PLACE_BYTES
        )
        self._correlation_id = 0
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[Part] = []
        self._is_flush_due = False
        self._is_writing = False
        self._unanswered: list[asyncio.Future[None]] = []  # requests without a reply, until nothing is unsent
        self._timer: asyncio.TimerHandle | None = None
        self.versions = BrokerVersions(ApiVersionsResponse())  # none, until the broker has been asked
        self.close_error: KafkaError | None = None
        self.last_used = loop.time()
        self.throttled_until = 0.0  # until then the broker wants no more requests (KIP-219); on the loop's clock
        loop.add_reader(sock.fileno(), self._readable)

    @property
    def is_closed(self) -> bool:
        return self.close_error is not None

    @property
    def in_flight(self) -> int:
        """Requests without an answer, and those that want none and are not sent yet."""
        return len(self._waiting) + len(self._unanswered)

    # Requests

    def send(
        self,
        request: Any,
        *,
        min_version: int = 0,
        max_version: int | None = None,
        timeout: float | None = None,
        is_urgent: bool = False,
    ) -> asyncio.Future[Any]:
        """Send a request such as `MetadataRequest(...)`; the future is its decoded response.

        The version is the highest that both sides speak, within the range given. `timeout` is in seconds,
        request.timeout.ms if left out. What `is_urgent` goes out now; else with whatever else is sent in this turn of
        the loop. Raises UnsupportedVersionError, and EncodeError for a value that does not fit; everything else comes
        through the future. What the response's own error codes say is the caller's to read.
        """
        future = self._loop.create_future()
        self.send_for(future, request, min_version, max_version, timeout, is_urgent=is_urgent)
        return future

    def send_for(
        self,
        answer: "asyncio.Future[Any] | PromptAnswer",
        request: Any,
        min_version: int = 0,
        max_version: int | None = None,
        timeout: float | None = None,
        *,
        is_urgent: bool = False,
    ) -> None:
        """The same, with an answer of the caller's."""
        api_key = KEY_OF[type(request)]
        version = self.versions.pick(api_key, min_version, max_version)
        messages = load(api_key)
        parts = messages.encode_request[version](request)
        self._send(answer, api_key, version, parts, timeout, messages.decode_response[version], is_urgent=is_urgent)

    def send_encoded(
        self,
        api_key: int,
        version: int,
        parts: Sequence[Part],
        *,
        timeout: float | None = None,
        decode: Decoder[Any] | None = None,
        is_urgent: bool = False,
    ) -> asyncio.Future[Any]:
        """Like `send`, for a body that is encoded already, and with a decoder of one's own if that is wanted.

        Large parts are not copied: leave them as they are until the answer, since some of them may still be unsent.
        """
        future = self._loop.create_future()
        decode = decode or load(api_key).decode_response[version]
        self._send(future, api_key, version, parts, timeout, decode, is_urgent=is_urgent)
        return future

    def _send(
        self,
        answer: "asyncio.Future[Any] | PromptAnswer",
        api_key: int,
        version: int,
        parts: Sequence[Part],
        timeout: float | None,
        decode: Decoder[Any],
        *,
        is_urgent: bool,
    ) -> None:
        if self.close_error is not None:
            answer.set_exception(self.close_error)
            return
        now = self._loop.time()
        deadline = now + (self._request_timeout if timeout is None else timeout)
        correlation_id = self._enqueue(api_key, version, parts)
        self.last_used = now
        header_version = response_header_version(api_key, version)
        keeps_buffer = api_key in RECORD_APIS
        self._waiting.append(
            new(_Waiting, (correlation_id, answer, decode, header_version, keeps_buffer, deadline, api_key, now))
        )
        if self._timer is None or deadline < self._timer.when():
            self._arm(deadline)
        if is_urgent:
            self._flush()
        else:
            self._flush_soon()

    def send_without_reply(self, request: Any, *, max_version: int | None = None) -> asyncio.Future[None]:
        """For Produce with acks=0, which is never answered: the future is done when the kernel has all of it."""
        api_key = KEY_OF[type(request)]
        version = self.versions.pick(api_key, 0, max_version)
        future = self._loop.create_future()
        if self.close_error is not None:
            future.set_exception(self.close_error)
            return future
        self._enqueue(api_key, version, load(api_key).encode_request[version](request))
        self.last_used = self._loop.time()
        self._unanswered.append(future)
        self._flush_soon()
        return future

    def _enqueue(self, api_key: int, version: int, parts: Sequence[Part]) -> int:
        self._correlation_id = correlation_id = self._correlation_id + 1 & _CORRELATION_IDS
        client = self._client_id
        flexible = request_header_version(api_key, version) == 2
        size = 10 + len(client) + flexible + sum(map(len, parts))
        head = _HEAD.pack(size, api_key, version, correlation_id, len(client)) + client
        self._unsent.append(head + b"\0" if flexible else head)
        self._unsent += parts
        return correlation_id

    # Sending

    def _flush_soon(self) -> None:
        if not self._is_flush_due and not self._is_writing:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self.close_error is not None:
            return
        try:
            while self._unsent:
                self._unsent = pieces = gather(self._unsent)  # kept, so that nothing is gathered twice
                self._unsent = send_some(self._sock, pieces)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.close(_lost(self.address, f"sending failed: {error}"))
            return
        is_stuck = bool(self._unsent)
        if self._unanswered and not is_stuck:
            self._end_unanswered()
        if is_stuck != self._is_writing:
            self._is_writing = is_stuck
            if is_stuck:
                self._loop.add_writer(self._sock.fileno(), self._flush)
            else:
                self._loop.remove_writer(self._sock.fileno())

    def _end_unanswered(self) -> None:
        gone, self._unanswered = self._unanswered, []
        for future in gone:
            if not future.done():
                future.set_result(None)

    # Receiving

    def _readable(self) -> None:
        try:
            size = self._sock.recv_into(self._splitter.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(_lost(self.address, f"receiving failed: {error}"))
            return
        if not size:
            self.close(_lost(self.address, "the broker closed it"))
            return
        try:
            buffer, view, frames = self._splitter.received(size)
            for start, end in frames:
                self._take(buffer, view, start, end)
        except ProtocolError as error:
            self.close(
                PeerProtocolError(
                    f"What answers at {self.address} breaks Kafka's protocol: {error}. Is it a Kafka listener, "
                    "and a plain-text one?"
                )
            )
            return
        if self._waiting and self.close_error is None:
            self._look_for_reset()

    def _look_for_reset(self) -> None:
        """Close the connection if the broker has broken it off, for the sake of those who wait for answers.

        uvloop tells of an error only once; if something was received before it, that is what is read then, and nobody
        would hear of the error behind it until the requests have timed out.
        """
        if code := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close(_lost(self.address, f"the broker broke it off: {os.strerror(code)}"))

    def _take(self, buffer: bytearray, view: memoryview, start: int, end: int) -> None:
        """One response. Raises ProtocolError."""
        if not self._waiting:
            raise ProtocolError(f"an answer of {end - start} bytes to no request")
        waiting = self._waiting[0]
        header, position = read_response_header(buffer, start, end, waiting.header_version)
        if header.correlation_id != waiting.correlation_id:
            raise ProtocolError(f"the answer to request {header.correlation_id} instead of {waiting.correlation_id}")
        if waiting.keeps_buffer and buffer is self._receive_buffer.buffer:
            kept = bytes(view[position:end])
            response = waiting.decode(kept, memoryview(kept), 0, len(kept))
        else:
            response = waiting.decode(buffer, view, position, end)
        self._waiting.popleft()
        self.last_used = now = self._loop.time()
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_until = max(self.throttled_until, now + throttle_ms / 1000)
        if not waiting.answer.done():
            waiting.answer.set_result(response)

    # Time

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        """One timer for all requests: it is not moved when an answer comes, it looks again when it fires."""
        self._timer = None
        if not self._waiting:
            return
        first = min(self._waiting, key=lambda waiting: waiting.deadline)
        now = self._loop.time()
        if first.deadline > now:
            self._arm(first.deadline)
            return
        self.close(
            RequestTimedOutError(
                f"{self.address} did not answer {APIS[first.api_key].name} within {now - first.sent_at:.1f} s; it may "
                "still take effect. A broker that is only slow wants a higher request.timeout.ms."
            )
        )

    # The end

    def close(self, error: KafkaError | None = None) -> None:
        """Now. Requests without an answer fail with `error`."""
        if self.close_error is not None:
            return
        self.close_error = error = error or ConnectionLostError(f"The connection to {self.address} was closed here.")
        self._loop.remove_reader(self._sock.fileno())
        if self._is_writing:
            self._loop.remove_writer(self._sock.fileno())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sock.close()
        self._unsent = []
        futures: list[asyncio.Future[Any] | PromptAnswer] = [each.answer for each in self._waiting]
        futures += self._unanswered
        self._waiting.clear()
        self._unanswered = []
        for future in futures:
            if not future.done():
                future.set_exception(error)
        if self._on_close is not None:
            self._on_close(self)


def _lost(address: Address, reason: str) -> ConnectionLostError:
    return ConnectionLostError(f"The connection to {address} is lost: {reason}.")
