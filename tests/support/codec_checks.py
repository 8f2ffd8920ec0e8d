"""What tests of the generated codecs ask: are the bytes right, is only the frame believed, and what does it cost?"""

import sys
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, Self

import pytest

from headrace.protocol.errors import DecodeError
from headrace.protocol.types import Decoder
from tests.support import reference_codec
from tests.support.messages import Definition, Values, all_messages, plain
from tests.support.reference_codec import complete

FRONT: Final = 5  # a frame does not start at the buffer's first byte
BEHIND: Final = (b"", b"\x01" * 700, b"\xff" * 700)

# A row takes two bytes at least, and becomes a tuple with a place for every field of every version.
MEMORY_PER_BYTE: Final = 120
CALLS_PER_BYTE: Final = 4
MEASUREMENTS: Final = 3
MEMORY_AT_LEAST: Final = 8_000  # an exception with its text, and what `struct` compiles for an array of numbers
CALLS_AT_LEAST: Final = 300


def for_each_message(
    check: Callable[[Definition], None], among: Iterable[Definition] | None = None
) -> Callable[[list[Definition]], None]:
    """A test of all messages, file by file of definitions/; one that fails names the message.

    Message by message there would be thousands of tests more, each of which costs pytest more than the codec.
    """
    files = groupby(all_messages() if among is None else among, lambda definition: definition.module_name)
    cases = [pytest.param(list(definitions), id=name) for name, definitions in files]

    @pytest.mark.parametrize("definitions", cases)
    def test(definitions: list[Definition]) -> None:
        for definition in definitions:
            try:
                check(definition)
            except BaseException as error:
                error.add_note(f"of {definition}")
                raise

    test.__doc__ = check.__doc__
    return test


def codecs(definition: Definition) -> list[int]:
    """One version for each codec: versions with the same layout share one."""
    shared = {(definition.decoder(version), definition.encoder(version)): version for version in definition.versions}
    return list(shared.values())


def check_round_trip(definition: Definition, version: int, values: Values) -> None:
    """The same bytes as the reference, and the same values from them, inside of a larger buffer."""
    body = definition.message.body
    data = reference_codec.encode(definition.message, version, values)
    assert definition.encode(version, definition.build(values)).hex(" ") == data.hex(" ")
    buffer = bytearray(b"\xee" * FRONT + data + BEHIND[-1])
    decoded = definition.decoder(version)(buffer, memoryview(buffer), FRONT, FRONT + len(data))
    assert complete(body, plain(decoded)) == complete(body, values)


def outcome(decode: Callable[..., Any], data: bytes, behind: bytes) -> tuple[str, str]:
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
    """Whatever the bytes are: the outcome is that of the reference, and does not depend on what follows the frame."""
    decode = definition.decoder(version)
    try:
        found = outcome(decode, data, BEHIND[0])
        for behind in BEHIND[1:]:
            assert outcome(decode, data, behind) == found, "the outcome depends on what follows the frame"
        assert (found[0] == "decoded") == _check_values(definition, version, data), found
    except BaseException as error:
        error.add_note(f"{definition} v{version} from {data.hex()}")
        raise


def _check_values(definition: Definition, version: int, data: bytes) -> bool:
    """Whether the reference decodes it; then the generated decoder must have the same values."""
    try:
        expected = reference_codec.decode(definition.message, version, data)
    except reference_codec.RefusedError:
        return False
    # As text, since a NaN differs from itself.
    assert repr(complete(definition.message.body, plain(definition.decode(version, data)))) == repr(expected)
    return True


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


def check_costs(decode: Decoder[Any], frames: list[bytes]) -> None:
    """Each frame is decoded, or refused, within bounds that depend on nothing but its size."""
    tracemalloc.start()
    try:
        for data in frames:
            _check_memory(decode, data)
    finally:
        tracemalloc.stop()
    for data in frames:
        with Meter(CALLS_AT_LEAST + CALLS_PER_BYTE * len(data)), suppress(DecodeError):
            decode(data, memoryview(data), 0, len(data))


def _check_memory(decode: Decoder[Any], data: bytes) -> None:
    """What a decoder takes it takes every time; what another thread of this process takes meanwhile, it does not."""
    allowed = MEMORY_AT_LEAST + MEMORY_PER_BYTE * len(data)
    taken = [_memory(decode, data)]
    while min(taken) > allowed and len(taken) < MEASUREMENTS:
        taken.append(_memory(decode, data))
    assert min(taken) <= allowed, f"{min(taken)} bytes for a frame of {len(data)}: {data[:100].hex()}"


def _memory(decode: Decoder[Any], data: bytes) -> int:
    view = memoryview(data)
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with suppress(DecodeError):
        decode(data, view, 0, len(data))
    _, peak = tracemalloc.get_traced_memory()
    return peak - before
