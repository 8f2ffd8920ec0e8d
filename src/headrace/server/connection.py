"""One client's connection: frames in, replies out, in order.

Theory. The loop tells that the socket is readable; one read takes what is there, up to the size of the shared receive
buffer, and every whole frame of it is served at once. A reply is a list of parts or a `Later`; replies go out in the
order of their requests, whatever the order in which they become ready. All replies of one read leave in one write,
which matters more than anything else for many small requests, and right behind those of others (`sending.Outbox`).

Requests are served only when the loop calls, never from inside the serving of another request: frames lie in a buffer
that all connections share. So whatever lets a blocked connection go on asks the loop to call it.

What bounds a connection:
* `max_in_flight` replies may be outstanding, and about `MAX_UNSENT_BYTES` of ready ones unsent. Beyond either, nothing
  more is read: a client that sends and never reads fills its own socket, not our memory.
* `mute` stops reading until `unmute`; a quota uses it.

Parts that are slices of log files are sent by `sendfile` when they are large, and read when they are small: a system
call costs more than copying a few kilobytes. A slice holds its file open until it is sent. If it is not in memory,
nothing is sent before it is (`read_ahead`).
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.log.slices import LogSlice
from headrace.protocol.errors import ProtocolError
from headrace.protocol.frame import FrameError, Frames, FrameSplitter, Range, ReceiveBuffer
from headrace.protocol.types import Part
from headrace.server.later import Later
from headrace.server.read_ahead import ReadAhead
from headrace.server.seldom import Seldom
from headrace.server.sending import MAX_SEND_BYTES, SENDFILE_FROM_BYTES, Outbox, send_some

if TYPE_CHECKING:
    from headrace.server.repeated_commits import RepeatedCommits
    from headrace.server.repeated_fetch import RepeatedFetch
    from headrace.server.repeated_produce import RepeatedProduce

Reply: TypeAlias = list[Part]
# Serve one request in buffer[start:end]; None is for requests that want no reply. Raises ProtocolError to close.
Serve: TypeAlias = Callable[["Connection", bytearray, memoryview, int, int], "Reply | Later[Reply] | None"]

MAX_UNSENT_BYTES: Final = 1024 * 1024  # ready replies beyond it wait for the client to read
MAX_TOGETHER: Final = 32  # requests that are offered to be served by one write; a client rarely has more on their way
ACTIVE: Final = -1  # something has happened since `idle_connections` has looked
_BUG: Final = "the broker has a bug"  # and the client must not wait for an answer that never comes
_unreadable: Final = Seldom(logging.getLogger(__name__))


class Connection:
    __slots__ = (
        "_has_frames",
        "_is_loading",
        "_is_reading",
        "_is_writing",
        "_loop",
        "_mutes",
        "_on_close",
        "_outbox",
        "_read_ahead",
        "_receive_buffer",
        "_refusal",
        "_serve",
        "_sock",
        "_splitter",
        "_unsent",
        "_unsent_bytes",
        "_waiting",
        "_will_send",
        "close_reason",
        "listener",
        "max_in_flight",
        "peer",
        "repeated_commits",
        "repeated_fetch",
        "repeated_produce",
        "session",
        "silent_since_ms",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        receive_buffer: ReceiveBuffer,
        outbox: Outbox,
        serve: Serve,
        *,
        read_ahead: ReadAhead,
        listener: str,
        max_frame_bytes: int,
        max_in_flight: int,
        on_close: Callable[["Connection"], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._serve = serve
        self._on_close = on_close
        self._receive_buffer = receive_buffer
        self._outbox = outbox
        self._read_ahead = read_ahead
        self._is_loading = False  # the slice at the front of what is unsent, from the disk
        self._splitter = FrameSplitter(receive_buffer, max_frame_bytes=max_frame_bytes)
        self._waiting: deque[_Slot] = deque()  # replies that are not ready, and ready ones behind them
        self._unsent: deque[Any] = deque()  # parts in the order of sending; the first may be sent in part
        self._unsent_bytes = 0
        self._mutes = 0
        self._is_reading = False
        self._is_writing = False
        self._will_send = False  # in this turn of the loop
        self._refusal: str | None = None  # why it is closed when all that came before is answered
        self._has_frames = False  # whole ones wait in the splitter until the connection may go on
        self.listener = listener
        self.max_in_flight = max_in_flight
        self.peer = sock.getpeername()
        self.session: Any = None  # what the layer above knows about this client: principal, software, fetch sessions
        self.repeated_produce: RepeatedProduce | None = None  # what it is known to send again and again
        self.repeated_fetch: RepeatedFetch | None = None  # the same of a consumer
        self.repeated_commits: RepeatedCommits | None = None
        self.close_reason: str | None = None
        self.silent_since_ms = ACTIVE
        self._go_on()

    @property
    def is_closed(self) -> bool:
        return self.close_reason is not None

    @property
    def is_waiting(self) -> bool:
        """For an answer that is not ready, or for a quota: its silence is not the client's."""
        return bool(self._waiting) or self._mutes > 0

    # Reading

    def _readable(self) -> None:
        space = self._splitter.space()
        try:
            size = self._sock.recv_into(space)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"receiving failed: {error}")
            return
        if not size:
            self.close("the client closed it")
            return
        self.silent_since_ms = ACTIVE
        repeated = self.repeated_produce
        if repeated is not None and space is self._receive_buffer.view and self._serve_even(repeated, size):
            return
        self._take(self._splitter.received, size)
        # Otherwise it is read as before; to find that out in `_go_on` would be felt.
        if (
            self._waiting
            or self._has_frames
            or self._refusal is not None
            or self._mutes
            or self._unsent_bytes > MAX_UNSENT_BYTES
        ):
            self._go_on()

    def _serve_even(self, repeated: "RepeatedProduce", size: int) -> bool:
        """True if all of this read, which begins with a frame, repeats what came before, and was served."""
        if self._waiting or self._unsent:
            return False
        try:
            answers = repeated.serve_even(self._receive_buffer.buffer, size)
        except BaseException:
            self.close(_BUG)
            raise
        if answers:
            self._unsent.append(answers)
            self._unsent_bytes += len(answers)
            self._outbox.add(self)
        return bool(answers)

    def _take(self, frames: Callable[..., Frames], *how: int) -> None:
        """Serve the frames, or those before the connection is blocked, or before one that breaks the protocol."""
        try:
            buffer, view, ranges = frames(*how)
        except FrameError as error:
            self._refusal = str(error)
            buffer, view, ranges = self._receive_buffer.buffer, self._receive_buffer.view, error.frames
        if buffer is not self._receive_buffer.buffer and ranges:
            self._outbox.send()  # a large request takes its time
        serve, waiting, unsent = self._serve, self._waiting, self._unsent
        are_small = not unsent  # all that is unsent: replies of one piece, which may become one
        served, last = 0, len(ranges) - 1
        may_go_together = True  # once they do not, those behind them seldom do, and trying costs time
        while served <= last:
            # As `_is_blocked` says; a call for each of many small requests would be felt.
            if self._mutes or len(waiting) >= self.max_in_flight or self._unsent_bytes > MAX_UNSENT_BYTES:
                self._splitter.put_back(buffer, ranges[served][0])
                self._has_frames = True
                break
            try:
                if may_go_together and served < last and not waiting:
                    count, answers = self._serve_together(buffer, view, ranges[served : served + MAX_TOGETHER])
                    if count:
                        unsent.append(answers)
                        self._unsent_bytes += len(answers)
                        served += count
                        continue
                    may_go_together = False
                start, end = ranges[served]
                served += 1
                reply = serve(self, buffer, view, start, end)
            except ProtocolError as error:
                self._refusal = str(error)
                break
            except BaseException:
                self.close(_BUG)
                raise
            if self.close_reason is not None:  # by what was served
                return
            if reply is None:
                continue
            if type(reply) is list and len(reply) == 1 and not waiting:
                unsent += reply
                self._unsent_bytes += len(reply[0])
            else:
                are_small = False
                self._enqueue(reply)
                if self.is_closed:  # a part of the reply could not be read
                    return
        if are_small and unsent:
            if len(unsent) > 1:
                self._unsent = deque((b"".join(unsent),))
            self._outbox.add(self)
        else:
            if not unsent:
                self._look_for_reset()
            self._send()

    def _serve_together(self, buffer: bytearray, view: memoryview, frames: list[Range]) -> tuple[int, bytes]:
        """How many of the first of these requests repeat others, and were served by one write, and their answers."""
        if self.repeated_produce is not None:
            count, answers = self.repeated_produce.serve_run(buffer, view, frames)
            if count:
                return count, answers
        return (0, b"") if self.repeated_commits is None else self.repeated_commits.serve(buffer, frames)

    def _look_for_reset(self) -> None:
        """Close the connection if the client has broken it off. Where something is sent, sending tells the same.

        uvloop tells of an error only once; if something was received before it, that is what is read then, and nobody
        would ever hear of the error behind it.
        """
        if code := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close(f"the client broke it off: {os.strerror(code)}")

    @property
    def _is_blocked(self) -> bool:
        return self._mutes > 0 or len(self._waiting) >= self.max_in_flight or self._unsent_bytes > MAX_UNSENT_BYTES

    def _go_on(self) -> None:
        """Serve what was kept, if that is allowed now, and read if and only if more requests may be served."""
        if self._has_frames and not self._is_blocked and not self.is_closed:
            self._has_frames = False
            self._take(self._splitter.resume)
            if self._has_frames:  # it was blocked again, and may be free by now
                self._loop.call_soon(self._go_on)
        if self._refusal is not None and not (self._has_frames or self._waiting or self._unsent):
            self.close(self._refusal)
        wanted = not (self.is_closed or self._is_blocked or self._has_frames or self._refusal is not None)
        if wanted == self._is_reading:
            return
        if wanted:
            self._loop.add_reader(self._sock.fileno(), self._readable)
        elif not self.is_closed:
            self._loop.remove_reader(self._sock.fileno())
        self._is_reading = wanted

    def _ask_to_go_on(self) -> None:
        """When a reply or a write may have ended what blocked the connection."""
        if not self._is_reading and not self._is_blocked and not self.is_closed:
            self._loop.call_soon(self._go_on)

    def mute(self) -> None:
        """Serve no more requests until `unmute` was called as often; replies still go out."""
        self._mutes += 1
        self._go_on()

    def unmute(self) -> None:
        self._mutes -= 1
        self._go_on()

    # Replying

    def _enqueue(self, reply: Reply | Later[Reply]) -> None:
        if isinstance(reply, Later):
            slot = _Slot(reply)
            self._waiting.append(slot)
            reply.then(lambda parts: self._ready(slot, parts))
        elif self._waiting:
            self._waiting.append(_Slot(None, reply))
        else:
            self._queue(reply)

    def _ready(self, slot: "_Slot", parts: Reply) -> None:
        slot.parts = parts
        if self._waiting and self._waiting[0] is slot and not self.is_closed:
            while self._waiting and self._waiting[0].parts is not None:
                self._queue(self._waiting.popleft().parts or [])
            if not self._waiting:
                self._send()
            elif not self._will_send:  # what waits behind it is often ready in the same turn of the loop
                self._will_send = True
                self._loop.call_soon(self._send_what_is_ready)

    def _send_what_is_ready(self) -> None:
        self._will_send = False
        if self._unsent:
            self._send()

    def _queue(self, parts: Sequence[Part]) -> None:
        for part in parts:
            size = len(part)
            if not size:
                continue
            if size < SENDFILE_FROM_BYTES and type(part) is LogSlice:
                try:
                    part = part.read_cached() or part
                except OSError as error:
                    self._cannot_read(error)
                    return
            self._unsent.append(part)
            self._unsent_bytes += size

    def _cannot_read(self, error: OSError) -> None:
        """What was promised cannot be sent: there is no other way to tell, since the answer has begun."""
        _unreadable.error(f"records cannot be read, and the connection that wanted them is closed: {error}")
        self.close(f"reading failed: {error}")

    # Sending

    def send_waiting(self) -> None:
        """What has waited in the outbox: nearly always one piece, which the socket takes whole."""
        unsent = self._unsent
        if self.close_reason is not None or not unsent:
            return
        if len(unsent) == 1 and type(unsent[0]) is bytes:
            try:
                sent = self._sock.send(unsent[0])
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self.close(f"sending failed: {error}")
                return
            self._unsent_bytes -= sent
            if sent == len(unsent[0]):
                unsent.clear()
                if not self._is_reading:
                    self._ask_to_go_on()
                return
            unsent[0] = memoryview(unsent[0])[sent:]
        self._send()

    def _send(self) -> None:
        """Send what the socket takes, and wait for it to take more."""
        if self.is_closed or self._is_loading:
            return
        budget = MAX_SEND_BYTES
        try:
            while self._unsent and budget > 0:
                first = self._unsent[0]
                if type(first) is LogSlice and first.position == first.ready_until:
                    self._is_loading = not self._read_ahead.is_ready(first, self._loaded)
                    if self._is_loading:
                        break
                sent = send_some(self._sock, self._unsent)
                self._unsent_bytes -= sent
                budget -= sent
                self.silent_since_ms = ACTIVE
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            if error.errno == errno.EIO:  # a socket does not say that: it is the disk, by `sendfile`
                self._cannot_read(error)
            self.close(f"sending failed: {error}")
            return
        wanted = bool(self._unsent) and not self._is_loading
        if wanted != self._is_writing:
            self._is_writing = wanted
            if wanted:
                self._loop.add_writer(self._sock.fileno(), self._send)
            else:
                self._loop.remove_writer(self._sock.fileno())
        self._ask_to_go_on()

    def _loaded(self) -> None:
        self._is_loading = False
        self._send()

    # Closing

    def hang_up(self, reason: str) -> None:
        """Send what is ready, as far as the socket takes it, and close."""
        self._send()
        self.close(reason)

    def close(self, reason: str) -> None:
        """Now. Replies that are not sent are lost; what waits for one is told so."""
        if self.is_closed:
            return
        self.close_reason = reason
        if self._is_reading:
            self._loop.remove_reader(self._sock.fileno())
        if self._is_writing:
            self._loop.remove_writer(self._sock.fileno())
        with contextlib.suppress(OSError):  # the client may have been first
            self._sock.shutdown(socket.SHUT_RDWR)  # a forked process would keep it open
        self._sock.close()
        self._unsent.clear()
        waiting, self._waiting = self._waiting, deque()
        for slot in waiting:
            if slot.later is not None:
                slot.later.abandon()
        self._on_close(self)


class _Slot:
    """The place of a reply among those of its connection."""

    __slots__ = ("later", "parts")

    def __init__(self, later: Later[Reply] | None, parts: Reply | None = None) -> None:
        self.later = later
        self.parts = parts
