"""The frame splitter: every cut of a stream gives the same frames, and no peer makes it hold more than it sent."""

import struct
import tracemalloc
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.frame import (
    EARNEST_BYTES,
    GROWTH_BYTES,
    IN_PLACE_BYTES,
    SHARED_BYTES,
    FrameError,
    FrameSplitter,
    ReceiveBuffer,
    split,
)

LIMIT = 8 * 1024 * 1024
SMALLEST_SHARED = 2 * (4 + IN_PLACE_BYTES)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def pattern(size: int, seed: int) -> bytes:
    """Bytes that differ from frame to frame and from place to place, so that a frame from elsewhere is noticed."""
    return bytes((seed * 31 + place * 7 + place // 251) & 0xFF for place in range(min(size, 997))) * (size // 997 + 1)


def frame_of(size: int, seed: int) -> bytes:
    return pattern(size, seed)[:size]


@dataclass
class Peer:
    """One connection: what it still has to send, and what came out of its splitter."""

    splitter: FrameSplitter
    unsent: bytes
    frames: list[bytes] = field(default_factory=list)

    def send(self, most: int) -> None:
        space = self.splitter.space()
        size = min(most, len(space), len(self.unsent))
        space[:size] = self.unsent[:size]
        self.unsent = self.unsent[size:]
        buffer, view, frames = self.splitter.received(size)
        assert view.obj is buffer
        self.frames += [bytes(view[start:end]) for start, end in frames]


def test_the_whole_frames_of_a_buffer_are_found_and_the_rest_is_left() -> None:
    buffer = b"??" + framed(b"one") + framed(b"") + framed(b"three") + framed(b"four")[:-1]
    frames = split(buffer, 2, len(buffer), max_frame_bytes=LIMIT)
    assert [buffer[start:end] for start, end in frames] == [b"one", b"", b"three"]


def test_bytes_behind_the_end_are_not_looked_at() -> None:
    buffer = framed(b"one") + framed(b"two")
    for end in range(len(buffer)):
        found = split(buffer, 0, end, max_frame_bytes=LIMIT)
        assert found == ([(4, 7)] if end >= 7 else [])


def test_frames_are_handed_out_where_they_arrived() -> None:
    shared = ReceiveBuffer()
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    stream = framed(b"first") + framed(b"second")
    space = splitter.space()
    space[: len(stream)] = stream
    buffer, view, frames = splitter.received(len(stream))
    assert buffer is shared.buffer
    assert view is shared.view
    assert frames == [(4, 9), (13, 19)]
    assert splitter.pending_bytes == 0


def test_a_large_frame_is_received_in_place() -> None:
    shared = ReceiveBuffer()
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    content = frame_of(300_000, seed=1)
    stream = framed(content)
    splitter.space()[:1000] = stream[:1000]
    assert splitter.received(1000)[2] == []
    space = splitter.space()
    assert space.obj is not shared.buffer
    assert len(space) == len(stream) - 1000, "exactly the rest of the frame: nothing behind it has to be moved"
    space[:] = stream[1000:]
    buffer, view, frames = splitter.received(len(space))
    assert buffer is space.obj
    assert frames == [(4, 300_004)]
    assert view[4:300_004] == content


def test_a_connection_holds_nothing_of_a_large_frame_that_was_handed_out() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT)
    stream = framed(bytes(GROWTH_BYTES - 4))
    splitter.space()[:EARNEST_BYTES] = stream[:EARNEST_BYTES]
    splitter.received(EARNEST_BYTES)
    tracemalloc.start()
    try:
        space = splitter.space()
        before, _ = tracemalloc.get_traced_memory()
        space[:] = stream[EARNEST_BYTES:]
        del space
        splitter.received(
            len(stream) - EARNEST_BYTES
        )  # what it returns is dropped at once, as after the request was handled
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after <= before
    assert splitter.pending_bytes == 0
    assert splitter.space().nbytes == SHARED_BYTES


def test_a_frame_above_the_limit_is_refused_before_its_body_arrives() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=1000)
    splitter.space()[:4] = struct.pack(">i", 1001)
    with pytest.raises(FrameError, match="a frame of 1001 bytes, at most 1000 are accepted"):
        splitter.received(4)


def test_a_frame_of_exactly_the_limit_is_accepted() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=1000)
    splitter.space()[:1004] = framed(bytes(1000))
    assert splitter.received(1004)[2] == [(4, 1004)]


def test_a_frame_above_the_limit_is_refused_when_its_size_arrives_byte_by_byte() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=1000)
    size = struct.pack(">i", 1001)
    for byte in size[:3]:
        splitter.space()[0] = byte
        assert splitter.received(1)[2] == []
    splitter.space()[0] = size[3]
    with pytest.raises(FrameError, match="1001"):
        splitter.received(1)


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_size_is_refused(size: int) -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=2**31 - 1)
    splitter.space()[:4] = struct.pack(">i", size)
    with pytest.raises(FrameError, match=f"a frame of {size} bytes"):
        splitter.received(4)


def test_the_frames_before_a_refused_one_can_still_be_answered() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=1000)
    stream = framed(b"first") + framed(b"second") + struct.pack(">i", 5000)
    splitter.space()[: len(stream)] = stream
    with pytest.raises(FrameError) as refused:
        splitter.received(len(stream))
    assert refused.value.frames == [(4, 9), (13, 19)]


@pytest.mark.parametrize(
    ("beginning", "guess"),
    [
        (b"\x16\x03\x01\x02", "this looks like TLS"),
        (b"GET ", r"this looks like HTTP \(GET\)"),
        (b"\x7f\0\0\0", "accepted$"),
    ],
)
def test_a_refusal_names_the_other_protocol_that_the_peer_seems_to_speak(beginning: bytes, guess: str) -> None:
    with pytest.raises(FrameError, match=guess):
        split(beginning, 0, 4, max_frame_bytes=100 * 1024 * 1024)


def test_the_limit_can_be_raised_between_two_reads() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=10)
    splitter.space()[:9] = framed(b"hello")
    splitter.received(9)
    splitter.max_frame_bytes = 100
    splitter.space()[:54] = framed(bytes(50))
    assert splitter.received(54)[2] == [(4, 54)]


def test_a_peer_that_only_announces_a_large_frame_occupies_little_memory() -> None:
    shared = ReceiveBuffer()
    tracemalloc.start()
    try:
        splitter = FrameSplitter(shared, max_frame_bytes=2**31 - 1)
        splitter.space()[:14] = struct.pack(">i", 2**31 - 1) + b"ten bytes."
        splitter.received(14)
        space = splitter.space()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(space) == IN_PLACE_BYTES - 14
    assert used < IN_PLACE_BYTES + 10_000


def test_the_buffer_of_a_large_frame_is_at_most_twice_what_has_arrived() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT)
    content = frame_of(5 * GROWTH_BYTES + 12_345, seed=3)
    peer = Peer(splitter, framed(content))
    peer.send(100)
    sent = 100
    while not peer.frames:
        space = splitter.space()
        assert isinstance(space.obj, bytearray)
        assert len(space.obj) <= max(GROWTH_BYTES, 2 * sent)
        size = min(len(space), 400_000)
        peer.send(size)
        sent += size
    assert peer.frames == [content]


def test_a_request_around_a_batch_of_one_megabyte_gets_its_whole_buffer_at_once() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT)
    size = 1024 * 1024 + 1000
    splitter.space()[:4] = struct.pack(">i", size)
    splitter.received(EARNEST_BYTES)
    assert len(splitter.space()) == 4 + size - EARNEST_BYTES


def test_a_frame_whose_size_came_alone_gets_its_whole_buffer_with_the_second_read() -> None:
    peer = Peer(FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT), framed(bytes(GROWTH_BYTES - 4)))
    peer.send(4)
    assert len(peer.splitter.space()) == IN_PLACE_BYTES - 4
    peer.send(IN_PLACE_BYTES - 4)
    assert len(peer.splitter.space()) == GROWTH_BYTES - IN_PLACE_BYTES
    peer.send(GROWTH_BYTES - IN_PLACE_BYTES)
    assert peer.frames == [bytes(GROWTH_BYTES - 4)]


def test_a_client_that_trusts_its_peer_receives_a_large_frame_in_one_buffer() -> None:
    trusted = 3 * GROWTH_BYTES
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT, trusted_bytes=trusted)
    content = frame_of(trusted - 4, seed=4)
    peer = Peer(splitter, framed(content))
    peer.send(4)
    assert len(splitter.space()) == trusted - 4
    peer.send(trusted - 4)
    assert peer.frames == [content]
    splitter.space()[:4] = struct.pack(">i", LIMIT)  # beyond what it trusts, the buffer grows with what arrives
    splitter.received(4)
    assert len(splitter.space()) == trusted - 4


def test_a_read_that_brings_nothing_loses_nothing() -> None:
    shared = ReceiveBuffer()
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    peer = Peer(splitter, framed(b"hello"))
    peer.send(6)
    splitter.space()  # the socket had nothing, and another connection uses the buffer meanwhile
    shared.view[:] = b"\xff" * len(shared.view)
    peer.send(10)
    assert peer.frames == [b"hello"]


def test_a_close_inside_a_frame_can_be_told_from_a_close_between_frames() -> None:
    peer = Peer(FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT), framed(b"hello") + framed(bytes(100_000)))
    assert peer.splitter.pending_bytes == 0
    peer.send(6)
    assert peer.splitter.pending_bytes == 6
    peer.send(3)
    assert peer.splitter.pending_bytes == 0
    peer.send(50_000)
    assert peer.splitter.pending_bytes == 50_000
    peer.send(100_000)
    assert peer.splitter.pending_bytes == 0


def test_frames_that_were_put_back_come_again_with_what_arrived_behind_them() -> None:
    shared = ReceiveBuffer()
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    stream = framed(b"first") + framed(b"second") + framed(b"third") + framed(b"fourth")[:7]
    splitter.space()[: len(stream)] = stream
    buffer, _, frames = splitter.received(len(stream))
    splitter.put_back(buffer, frames[1][0])
    shared.view[:] = b"\xff" * len(shared.view)
    buffer, view, frames = splitter.resume()
    assert [bytes(view[start:end]) for start, end in frames] == [b"second", b"third"]
    peer = Peer(splitter, framed(b"fourth")[7:])
    peer.send(100)
    assert peer.frames == [b"fourth"]


def test_frames_can_be_put_back_while_a_large_one_is_on_its_way() -> None:
    shared = ReceiveBuffer()
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    large = frame_of(400_000, seed=5)
    stream = framed(b"first") + framed(b"second") + framed(large)
    space = splitter.space()
    space[:] = stream[: len(space)]
    buffer, _, frames = splitter.received(len(space))
    splitter.put_back(buffer, frames[1][0])
    assert splitter.pending_bytes == len(space) - 9
    with pytest.raises(AssertionError, match=r"resume\(\) comes before space\(\)"):
        splitter.space()
    shared.view[:] = b"\xff" * len(shared.view)
    buffer, view, frames = splitter.resume()
    assert [bytes(view[start:end]) for start, end in frames] == [b"second"]
    peer = Peer(splitter, stream[len(space) :])
    peer.send(len(stream))
    assert peer.frames == [large]


def test_a_large_frame_can_be_put_back_without_a_copy() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT)
    stream = framed(frame_of(100_000, seed=5))
    splitter.space()[:1000] = stream[:1000]
    splitter.received(1000)
    splitter.space()[:] = stream[1000:]
    buffer, _, frames = splitter.received(len(stream) - 1000)
    splitter.put_back(buffer, frames[0][0])
    assert splitter.pending_bytes == len(stream)
    again, view, frames = splitter.resume()
    assert again is buffer
    assert frames == [(4, 100_004)]
    assert view[4:] == stream[4:]
    assert splitter.pending_bytes == 0


def receive(splitter: FrameSplitter, content: bytes) -> tuple[bytearray, bytes]:
    """A large frame in two reads: its buffer, and what is in it."""
    stream = framed(content)
    splitter.space()[:EARNEST_BYTES] = stream[:EARNEST_BYTES]
    assert splitter.received(EARNEST_BYTES)[2] == []
    splitter.space()[:] = stream[EARNEST_BYTES:]
    buffer, view, ((start, end),) = splitter.received(len(stream) - EARNEST_BYTES)
    return buffer, bytes(view[start:end])


def test_the_buffer_of_a_large_frame_is_used_again_by_one_that_fits() -> None:
    shared = ReceiveBuffer(spares=1)
    one, other = (FrameSplitter(shared, max_frame_bytes=LIMIT) for _ in range(2))
    first, _ = receive(one, frame_of(300_000, seed=1))
    smaller = frame_of(200_000, seed=2)
    assert receive(other, smaller) == (first, smaller)
    for size in (300_001, 149_000):  # too large for it; so small that it would be a waste
        content = frame_of(size, seed=3)
        again, received = receive(one, content)
        assert again is not first
        assert received == content


def test_a_large_frame_behind_one_of_the_same_size_is_received_in_place_from_its_first_byte_on() -> None:
    shared = ReceiveBuffer(spares=1)
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    first, _ = receive(splitter, frame_of(300_000, seed=1))
    content = frame_of(300_000, seed=2)
    assert splitter.space().obj is first
    assert receive(splitter, content) == (first, content)


def test_what_else_follows_a_large_frame_is_found_and_waits_for_nothing() -> None:
    shared = ReceiveBuffer(spares=1)
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    receive(splitter, frame_of(300_000, seed=1))
    space = splitter.space()
    small = framed(b"small") * 200
    space[: len(small)] = small
    _, view, frames = splitter.received(len(small))
    assert [bytes(view[start:end]) for start, end in frames] == [b"small"] * 200
    assert splitter.space().obj is shared.buffer


def test_a_few_bytes_behind_a_large_frame_do_not_occupy_its_buffer() -> None:
    shared = ReceiveBuffer(spares=1)
    one, other = (FrameSplitter(shared, max_frame_bytes=LIMIT) for _ in range(2))
    content = frame_of(300_000, seed=1)
    first, _ = receive(one, content)
    one.space()[:5] = framed(content)[:5]
    one.received(5)
    assert receive(other, content) == (first, content)


def test_a_limit_that_was_lowered_holds_for_the_next_large_frame() -> None:
    splitter = FrameSplitter(ReceiveBuffer(spares=1), max_frame_bytes=LIMIT)
    content = frame_of(300_000, seed=1)
    receive(splitter, content)
    splitter.max_frame_bytes = 200_000
    with pytest.raises(FrameError, match="300000 bytes, at most 200000"):
        receive(splitter, content)


def test_without_spares_a_large_frame_is_for_whoever_handles_it() -> None:
    splitter = FrameSplitter(ReceiveBuffer(), max_frame_bytes=LIMIT)
    content = frame_of(300_000, seed=1)
    first, _ = receive(splitter, content)
    receive(splitter, frame_of(300_000, seed=2))
    assert first[4:] == content


def test_a_large_frame_that_was_put_back_is_not_written_over() -> None:
    shared = ReceiveBuffer(spares=8)
    one, other = (FrameSplitter(shared, max_frame_bytes=LIMIT) for _ in range(2))
    content = frame_of(300_000, seed=1)
    buffer, _ = receive(one, content)
    one.put_back(buffer, 4)
    receive(other, frame_of(300_000, seed=2))
    _, view, ((start, end),) = one.resume()
    assert view[start:end] == content


sizes = st.one_of(
    st.integers(0, 40),
    st.sampled_from([IN_PLACE_BYTES - 1, IN_PLACE_BYTES, IN_PLACE_BYTES + 1, SMALLEST_SHARED - 4, SMALLEST_SHARED]),
    st.integers(0, 3 * SMALLEST_SHARED),
)
reads = st.one_of(st.integers(1, 9), st.integers(1, 2 * SMALLEST_SHARED))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(sizes, max_size=6), min_size=1, max_size=3), st.integers(0, 2), st.data())
def test_connections_that_share_a_buffer_get_their_own_frames_however_the_bytes_arrive(
    streams: list[list[int]], spares: int, data: st.DataObject
) -> None:
    shared = ReceiveBuffer(SMALLEST_SHARED, spares=spares)
    sent = [[frame_of(size, 10 * i + j) for j, size in enumerate(stream)] for i, stream in enumerate(streams)]
    peers = [Peer(FrameSplitter(shared, max_frame_bytes=LIMIT), b"".join(map(framed, frames))) for frames in sent]
    drawn = 0
    while unfinished := [peer for peer in peers if peer.unsent]:
        if drawn < 40:  # then in large reads, or one byte at a time would take hypothesis for ever
            drawn += 1
            data.draw(st.sampled_from(unfinished)).send(data.draw(reads))
        else:
            unfinished[0].send(SMALLEST_SHARED)
    assert [peer.frames for peer in peers] == sent
    assert all(peer.splitter.pending_bytes == 0 for peer in peers)


@settings(max_examples=60, deadline=None)
@given(st.lists(sizes, max_size=8), st.integers(0, 2), st.data())
def test_frames_keep_their_order_whatever_is_put_back(stream: list[int], spares: int, data: st.DataObject) -> None:
    shared = ReceiveBuffer(SMALLEST_SHARED, spares=spares)
    splitter = FrameSplitter(shared, max_frame_bytes=LIMIT)
    sent = [frame_of(size, seed) for seed, size in enumerate(stream)]
    unsent = b"".join(map(framed, sent))
    handled: list[bytes] = []
    waiting = False
    while unsent or waiting:
        if waiting:
            buffer, view, frames = splitter.resume()
        else:
            space = splitter.space()
            size = min(len(space), len(unsent))
            space[:size] = unsent[:size]
            unsent = unsent[size:]
            buffer, view, frames = splitter.received(size)
        now = data.draw(st.integers(1, len(frames))) if frames else 0
        handled += [bytes(view[start:end]) for start, end in frames[:now]]
        waiting = now < len(frames)
        if waiting:
            splitter.put_back(buffer, frames[now][0])
        shared.view[:] = b"\xff" * len(shared.view)
    assert handled == sent
    assert splitter.pending_bytes == 0
