"""Frames: every message on a connection is an int32 size and that many bytes. This module finds them; it does no I/O.

Theory of operation. One `ReceiveBuffer` serves all connections of a loop; each connection has a `FrameSplitter`:

    size = socket.recv_into(splitter.space())           # asyncio: get_buffer, then buffer_updated
    buffer, view, frames = splitter.received(size)
    for start, end in frames:                           # whole frames, where they arrived: nothing was copied
        handle(buffer, view, start, end)

What received() returns is valid until the next space() of any connection that shares the buffer. Between two reads a
connection holds only what it cannot use yet:

- the beginning of a small frame: its bytes are kept, and put in front of those that come next;
- the beginning of a large frame (above IN_PLACE_BYTES): it gets a buffer of its own, and the rest is received straight
  into it. That buffer grows with what has arrived, not with what was announced: a peer that announces 100 MB and sends
  10 bytes occupies 64 KB;
- a large frame behind another one of its size, as a producer of large batches sends them: all of it is received in a
  buffer that is used again;
- whole frames that may not be handled yet, since an earlier request of this connection waits: put_back() keeps them,
  resume() returns them.

A size above the limit, or below zero, is refused with FrameError as soon as its four bytes are there.
"""

from struct import Struct
from typing import Final, TypeAlias

from headrace.protocol.errors import ProtocolError

Range: TypeAlias = tuple[int, int]  # where a frame's content starts and ends (exclusive); its size stands before it
Frames: TypeAlias = tuple[bytearray, memoryview, list[Range]]  # a buffer, a view of it, and the frames in it

SIZE_BYTES: Final = 4
SHARED_BYTES: Final = 256 * 1024  # the most that one read takes from a connection, so that none starves the others
IN_PLACE_BYTES: Final = 64 * 1024  # below it, moving what is there costs less than another read for the rest alone
# Up to it a frame's buffer is made at once; a larger one doubles as it fills, with a copy each time. So there is room
# for the largest batch that a topic takes by default, which is 1 MB, and for the request around it.
GROWTH_BYTES: Final = (1024 + 128) * 1024
# From so many bytes on, since a thousand peers that send five bytes each must not occupy a gigabyte.
EARNEST_BYTES: Final = 512

_unpack_size: Final = Struct(">I").unpack_from  # unsigned, so that a negative size is above every limit
_MAX_SIZE: Final = 0x7FFFFFFF
_HTTP_METHODS: Final = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN"})


class FrameError(ProtocolError):
    """A frame that is refused; `frames` are the whole ones before it in the shared buffer: they may be answered."""

    def __init__(self, reason: str, *, frames: list[Range]) -> None:
        super().__init__(reason)
        self.frames = frames


def split(buffer: bytes | bytearray, start: int, end: int, *, max_frame_bytes: int) -> list[Range]:
    """The whole frames of `buffer[start:end]`; what follows the last of them is the beginning of another one."""
    frames: list[Range] = []
    content = start + SIZE_BYTES
    while content <= end:
        size = _unpack_size(buffer, content - SIZE_BYTES)[0]
        if size > max_frame_bytes:
            raise FrameError(_refusal(bytes(buffer[content - SIZE_BYTES : content]), max_frame_bytes), frames=frames)
        content_end = content + size
        if content_end > end:
            break
        frames.append((content, content_end))
        content = content_end + SIZE_BYTES
    return frames


class ReceiveBuffer:
    """The memory that the connections of one loop receive into, one after the other.

    Up to `spares` buffers of large frames are used again: a new one of 1 MB costs about as much as receiving into it.
    Without any, whoever handles a large frame may keep it; with them it is valid no longer than a small one.
    """

    __slots__ = ("_max_spares", "_spares", "buffer", "view")

    def __init__(self, size_bytes: int = SHARED_BYTES, *, spares: int = 0) -> None:
        # The largest partial frame that goes back to the front must leave as much room behind it.
        least = 2 * (SIZE_BYTES + IN_PLACE_BYTES)
        assert size_bytes >= least, f"a receive buffer of {size_bytes} bytes, {least} are needed"
        self.buffer = bytearray(size_bytes)
        self.view = memoryview(self.buffer)
        self._max_spares = spares
        self._spares: list[bytearray] = []

    def make(self, size_bytes: int) -> bytearray:
        """A buffer for a large frame, of so many bytes at least, and no more than twice as many."""
        return bytearray(size_bytes) if self.lend(size_bytes) is None else self._spares.pop()

    def lend(self, size_bytes: int) -> bytearray | None:
        """A spare one of about this size, which stays here until `make` takes it."""
        if self._spares and size_bytes <= len(self._spares[-1]) <= 2 * size_bytes:
            return self._spares[-1]
        return None

    def spare(self, large: bytearray) -> bool:
        """What is in it is needed until the next space(), and no longer. False if it is not used again."""
        is_used_again = len(self._spares) < self._max_spares and len(large) <= GROWTH_BYTES
        if is_used_again:
            self._spares.append(large)
        return is_used_again

    def unspare(self, large: bytearray) -> None:
        """It is needed after all."""
        if self._spares and self._spares[-1] is large:
            self._spares.pop()


class FrameSplitter:
    """One connection: where its next bytes go, and which frames are whole."""

    __slots__ = (
        "_arrived",
        "_end",
        "_expected_size",
        "_kept",
        "_large",
        "_large_size",
        "_lent",
        "_shared",
        "_trusted_bytes",
        "max_frame_bytes",
    )

    def __init__(self, shared: ReceiveBuffer, *, max_frame_bytes: int, trusted_bytes: int = 0) -> None:
        """Up to `trusted_bytes` a frame gets its whole buffer as soon as its size is known.

        That is for clients, which chose their peer and asked for what it sends: it saves the copies of a growing one.
        """
        assert 0 <= max_frame_bytes <= _MAX_SIZE, (
            f"a frame limit of {max_frame_bytes} bytes, an int32 ends at {_MAX_SIZE}"
        )
        self.max_frame_bytes = max_frame_bytes  # may change between reads: a peer gets more once it has authenticated
        self._shared = shared
        self._trusted_bytes = trusted_bytes
        self._kept = b""  # begins with a frame's size; goes in front of the next bytes
        self._end = 0  # up to here the shared buffer holds bytes of this connection that no other buffer has
        self._large: bytearray | None = (
            None  # a large frame, from its size on; never empty, not always as long as it will be
        )
        self._large_size = 0  # how long it will be
        self._arrived = 0  # how much of it is there
        self._expected_size = 0  # of the next frame, from its size on: that of the last one, if it was large
        self._lent: bytearray | None = None  # where the last space() was, if not in the shared buffer

    @property
    def pending_bytes(self) -> int:
        """What has arrived and was not handed out; a peer that closes while this is not 0 closed inside a frame."""
        return len(self._kept) + (0 if self._large is None else self._arrived)

    def space(self) -> memoryview:
        """Where the next bytes of this connection go; it is never empty. Nothing is lost if none come."""
        if self._large is not None:
            assert not self._kept, f"{len(self._kept)} bytes of frames were put back: resume() comes before space()"
            return self._space_in_large(self._large)
        if not self._kept:
            self._lent = self._shared.lend(self._expected_size) if self._expected_size else None
            if self._lent is not None:
                return memoryview(self._lent)[: min(self._expected_size, len(self._shared.buffer))]
            return self._shared.view
        self._shared.buffer[: len(self._kept)] = self._kept
        return self._shared.view[len(self._kept) :]

    def received(self, size_bytes: int) -> Frames:
        """`size_bytes` were written to space(): the frames that are whole now. Raises FrameError."""
        if self._large is not None:
            self._arrived += size_bytes
            return self._take_large(self._large)
        if self._lent is not None:
            return self._take_lent(self._lent, size_bytes)
        return self._take_shared(len(self._kept) + size_bytes)

    def put_back(self, buffer: bytearray, start: int) -> None:
        """Keep the frame with its content at `start`, and those behind it, of what was returned last."""
        if buffer is self._shared.buffer:
            self._kept = bytes(self._shared.view[start - SIZE_BYTES : self._end])
        else:
            self._large = buffer
            self._shared.unspare(buffer)

    def resume(self) -> Frames:
        """What put_back() kept."""
        if not self._kept and self._large is not None:
            return self._take_large(self._large)
        self._shared.buffer[: len(self._kept)] = self._kept
        return self._take_shared(len(self._kept))

    def _take_shared(self, end: int) -> Frames:
        buffer = self._shared.buffer
        self._kept = b""
        self._end = end  # also if a frame is refused: those before it may be put back, and it with them
        frames = split(buffer, 0, end, max_frame_bytes=self.max_frame_bytes)
        rest = frames[-1][1] if frames else 0
        if rest < end:
            self._keep_partial(rest, end)
        return buffer, self._shared.view, frames

    def _take_lent(self, lent: bytearray, arrived: int) -> Frames:
        """It holds the beginning of a frame of the expected size, or else something that belongs elsewhere."""
        expected_size = self._expected_size
        self._lent, self._expected_size = None, 0
        if (
            arrived >= EARNEST_BYTES
            and SIZE_BYTES + _unpack_size(lent)[0] == expected_size <= SIZE_BYTES + self.max_frame_bytes
        ):
            self._large = self._shared.make(expected_size)
            self._large_size, self._arrived, self._end = expected_size, arrived, 0
            return self._take_large(self._large)
        self._shared.buffer[:arrived] = memoryview(lent)[:arrived]
        return self._take_shared(arrived)

    def _keep_partial(self, start: int, end: int) -> None:
        arrived = end - start
        view = self._shared.view
        if arrived >= SIZE_BYTES:
            size = SIZE_BYTES + int(_unpack_size(view, start)[0])
            if size > SIZE_BYTES + IN_PLACE_BYTES:
                first = GROWTH_BYTES if arrived >= EARNEST_BYTES else IN_PLACE_BYTES
                large = self._shared.make(min(size, max(first, 2 * arrived, self._trusted_bytes)))
                large[:arrived] = view[start:end]
                self._large, self._large_size, self._arrived, self._end = large, size, arrived, start
                return
        self._kept = bytes(view[start:end])

    def _space_in_large(self, large: bytearray) -> memoryview:
        if self._arrived == len(large):
            # A new one, since whoever reads may still hold a view of the old one, which pins its size.
            grown = bytearray(min(self._large_size, max(GROWTH_BYTES, 2 * len(large))))
            grown[: len(large)] = large
            self._large = large = grown
        return memoryview(large)[self._arrived : self._large_size]

    def _take_large(self, large: bytearray) -> Frames:
        if self._arrived < self._large_size:
            return large, memoryview(large), []
        self._large = None  # whoever handles it holds it: a connection that falls silent must not
        self._expected_size = self._large_size if self._shared.spare(large) else 0
        return large, memoryview(large), [(SIZE_BYTES, self._large_size)]


def _refusal(size: bytes, max_frame_bytes: int) -> str:
    claimed = int.from_bytes(size, "big", signed=True)
    return f"a frame of {claimed} bytes, at most {max_frame_bytes} are accepted{_guess(size)}"


def _guess(size: bytes) -> str:
    """What the peer may have meant: most frames of impossible size come from a client that speaks something else."""
    if size[:2] == b"\x16\x03":
        return ": this looks like TLS; let the client use plain text, or give it the TLS listener"
    if size in _HTTP_METHODS:
        return f": this looks like HTTP ({size.decode().strip()}); this listener speaks Kafka's protocol"
    return ""
