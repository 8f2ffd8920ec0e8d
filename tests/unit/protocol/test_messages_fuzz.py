"""Decoding anything: random bytes, and valid bytes with random changes, for every decoder.

A frame lies inside a shared receive buffer, so each input is decoded several times with other bytes behind it: the
outcome must not depend on them. It must be the outcome of the reference codec, too: the same values, or a refusal by
both, and a refusal must be a DecodeError with a place inside the frame. Memory and work are counted, not timed: both
may grow with the bytes that are there, not with what the bytes claim.
"""

import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.errors import DecodeError
from headrace.protocol.header import read_request_header, read_response_header
from headrace.protocol.types import Decoder
from tests.support import reference_codec
from tests.support.message_values import DECISIONS, examples, values_from
from tests.support.messages import Definition, all_messages, plain
from tests.support.reference_codec import complete

FRONT = 5  # a frame does not start at the buffer's first byte
BEHIND = (b"", b"\x00" * 700, b"\x01" * 700, b"\xff" * 700)
HUGE = (
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff",
    b"\x80\x80\x80",
)

Outcome = tuple[str, ...]


def decoders(definition: Definition) -> list[int]:
    """One version for each decoder: versions with the same layout share one."""
    return list({definition.decoder(version): version for version in definition.versions}.values())


def outcome(decode: Callable[..., Any], data: bytes, behind: bytes) -> Outcome:
    """What comes of a frame inside of a larger buffer, in a form that can be compared."""
    buffer = bytearray(b"\xee" * FRONT + data + behind)
    end = FRONT + len(data)
    try:
        return "decoded", repr(plain(decode(buffer, memoryview(buffer), FRONT, end)))
    except DecodeError as error:
        refusal = error
    assert FRONT <= refusal.position <= end, f"{refusal}: the frame is {FRONT}..{end}"
    assert refusal.field
    return "refused", str(refusal)


def check_outcome(definition: Definition, version: int, data: bytes) -> None:
    decode = definition.decoder(version)
    found = outcome(decode, data, BEHIND[0])
    for behind in BEHIND[1:]:
        assert outcome(decode, data, behind) == found, "the outcome depends on what follows the frame"
    assert (found[0] == "decoded") == check_values(definition, version, data), found


def check_values(definition: Definition, version: int, data: bytes) -> bool:
    """Whether the reference decodes it; then the generated decoder must have the same values."""
    body = definition.message.body
    try:
        expected = reference_codec.decode(definition.message, version, data)
    except reference_codec.RefusedError:
        return False
    assert repr(complete(body, plain(definition.decode(version, data)))) == repr(expected)
    return True


def valid_bytes(definition: Definition, version: int, source: random.Random) -> bytes:
    values = values_from(source.randbytes(DECISIONS), definition, version)
    return reference_codec.encode(definition.message, version, values)


def changed(data: bytes, source: random.Random) -> bytes:
    """The same bytes with one to three places wrong."""
    wrong = bytearray(data)
    for _ in range(source.randint(1, 3)):
        place = source.randint(0, len(wrong))
        match source.randrange(6):
            case 0 if place < len(wrong):
                wrong[place] = source.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, source.randrange(256)))
            case 1:
                wrong[place:place] = source.randbytes(source.randint(1, 4))
            case 2:
                del wrong[place : place + source.randint(1, 4)]
            case 3:
                del wrong[place:]
            case 4:
                huge = source.choice(HUGE)
                wrong[place : place + len(huge)] = huge
            case _:
                wrong[place:place] = wrong[place : place + source.randint(1, 30)]
    return bytes(wrong)


def inputs(definition: Definition, version: int, source: random.Random, rounds: int) -> Iterator[bytes]:
    for _ in range(rounds):
        yield source.randbytes(source.choice((0, 1, 3, 12, 60)))
        yield bytes(source.choices((0, 1, 2, 3), k=source.randint(1, 60)))  # short lengths, so that decoding goes deep
        valid = valid_bytes(definition, version, source)
        yield valid
        yield changed(valid, source)
        yield changed(valid, source)


def fuzz(definition: Definition, source: random.Random, rounds: int) -> None:
    for version in decoders(definition):
        for data in inputs(definition, version, source, rounds):
            try:
                check_outcome(definition, version, data)
            except BaseException as error:
                error.add_note(f"{definition} v{version} from {data.hex()}")
                raise


@pytest.mark.parametrize("definition", all_messages(), ids=str)
def test_a_decoder_sees_nothing_but_its_frame_and_raises_nothing_but_its_error(definition: Definition) -> None:
    fuzz(definition, random.Random(str(definition)), rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize("definition", all_messages(), ids=str)
def test_a_decoder_sees_nothing_but_its_frame_and_raises_nothing_but_its_error_at_length(
    definition: Definition,
) -> None:
    @examples(8)
    @given(st.integers(0, 2**64))
    def fuzz_from(seed: int) -> None:
        fuzz(definition, random.Random(seed), rounds=15)

    fuzz_from()


@pytest.mark.parametrize("definition", all_messages(), ids=str)
def test_every_proper_beginning_of_a_message_is_refused(definition: Definition) -> None:
    source = random.Random(str(definition))
    for version in decoders(definition):
        data = valid_bytes(definition, version, source)
        decode = definition.decoder(version)
        for end in range(len(data)):
            assert outcome(decode, data[:end], BEHIND[0])[0] == "refused", f"v{version}: {end} bytes of {data.hex()}"


class Meter:
    """Counts calls, in Python and C; decoding does nothing in a loop without one."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self.limit = limit

    def __call__(self, _frame: object, event: str, _argument: object) -> None:
        self.count += event in ("call", "c_call")
        if self.count > self.limit:
            raise AssertionError(f"more than {self.limit} calls")

    def __enter__(self) -> Self:
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


# A row takes at least two bytes and becomes a tuple with a place for every field of every version.
MEMORY_PER_BYTE = 120
CALLS_PER_BYTE = 4
MEMORY_AT_LEAST = 8_000  # an exception with its text, and what `struct` compiles for an array of numbers
CALLS_AT_LEAST = 300


def decode_metered(decode: Decoder[Any], data: bytes) -> None:
    """Decode, or refuse, within bounds that depend on nothing but the size of the frame."""
    buffer = data + BEHIND[-1]
    view = memoryview(buffer)
    with Meter(CALLS_AT_LEAST + CALLS_PER_BYTE * len(data)):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        with suppress(DecodeError):
            decode(buffer, view, 0, len(data))
        _, peak = tracemalloc.get_traced_memory()
    allowed = MEMORY_AT_LEAST + MEMORY_PER_BYTE * len(data)
    assert peak - before <= allowed, f"{peak - before} bytes for a frame of {len(data)}: {data[:100].hex()}"


@pytest.fixture
def traced_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced_memory")
@pytest.mark.parametrize("definition", all_messages(), ids=str)
def test_a_length_that_claims_too_much_costs_neither_memory_nor_work(definition: Definition) -> None:
    simplest_with_rows = bytes([1, 1, 1]) * DECISIONS
    for version in decoders(definition):
        values = values_from(simplest_with_rows, definition, version)
        data = reference_codec.encode(definition.message, version, values)[:150]
        decode = definition.decoder(version)
        for place in range(len(data)):
            huge = HUGE[place % 2] if definition.is_flexible(version) else HUGE[2]
            decode_metered(decode, data[:place] + huge + data[place + len(huge) :])


@pytest.mark.usefixtures("traced_memory")
@pytest.mark.parametrize("definition", all_messages(), ids=str)
def test_a_large_frame_costs_memory_and_work_in_proportion(definition: Definition) -> None:
    for version in decoders(definition):
        source = random.Random(str(definition))
        mixed = bytes(source.choices((0, 1, 2, 3, 4), k=1000))
        for frame in (b"\x01" * 1000, b"\x02" * 1000, b"\x00\x01" * 500, mixed):
            decode_metered(definition.decoder(version), frame)


def fuzz_header(read: Callable[..., Any], source: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        data = source.choice((bytes([0, source.randrange(92), 0, source.randrange(14)]), b"")) + source.randbytes(
            source.randrange(30)
        )
        found = outcome(read, data, BEHIND[0])
        for behind in BEHIND[1:]:
            assert outcome(read, data, behind) == found, data.hex()


def test_a_header_sees_nothing_but_its_frame_and_raises_nothing_but_its_error() -> None:
    fuzz_header(read_request_header, random.Random("request"), rounds=1000)
    for version in (0, 1):

        def read(buffer: bytes, _view: memoryview, position: int, end: int, version: int = version) -> Any:
            return read_response_header(buffer, position, end, version)

        fuzz_header(read, random.Random("response"), rounds=300)
