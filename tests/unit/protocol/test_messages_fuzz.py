"""Decoding anything: random bytes, and valid bytes with random changes, for every decoder.

A frame lies inside a shared receive buffer, so each input is decoded several times with other bytes behind it: the
outcome must not depend on them. It must be the outcome of the reference codec, too: the same values, or a refusal by
both, and a refusal must be a DecodeError with a place inside the frame. Memory and work are counted, not timed: both
may grow with the bytes that are there, not with what the bytes claim.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.header import read_request_header, read_response_header
from tests.support import reference_codec
from tests.support.codec_checks import BEHIND, check_costs, check_outcome, codecs, for_each_message, outcome
from tests.support.message_values import DECISIONS, examples, values_from
from tests.support.messages import Definition
from tests.support.wire_fuzz import changed


def valid_bytes(definition: Definition, version: int, source: random.Random) -> bytes:
    values = values_from(source.randbytes(DECISIONS), definition, version)
    return reference_codec.encode(definition.message, version, values)


def inputs(definition: Definition, version: int, source: random.Random, rounds: int) -> Iterator[bytes]:
    for _ in range(rounds):
        yield source.randbytes(source.choice((0, 1, 3, 12, 60)))
        yield bytes(source.choices((0, 1, 2, 3), k=source.randint(1, 60)))  # short lengths, so that decoding goes deep
        valid = valid_bytes(definition, version, source)
        yield valid
        yield changed(valid, source)
        yield changed(valid, source)


def fuzz(definition: Definition, source: random.Random, rounds: int) -> None:
    for version in codecs(definition):
        for data in inputs(definition, version, source, rounds):
            check_outcome(definition, version, data)


@for_each_message
def test_a_decoder_sees_nothing_but_its_frame_and_raises_nothing_but_its_error(definition: Definition) -> None:
    fuzz(definition, random.Random(str(definition)), rounds=1)


@pytest.mark.slow
@for_each_message
def test_a_decoder_sees_nothing_but_its_frame_and_raises_nothing_but_its_error_at_length(
    definition: Definition,
) -> None:
    @examples(3)
    @given(st.integers(0, 2**64))
    def fuzz_from(seed: int) -> None:
        fuzz(definition, random.Random(seed), rounds=5)

    fuzz_from()


@for_each_message
def test_a_large_frame_costs_memory_and_work_in_proportion(definition: Definition) -> None:
    for version in codecs(definition):
        mixed = bytes(random.Random(str(definition)).choices((0, 1, 2, 3, 4), k=1000))
        frames = [b"\x01" * 1000, b"\x02" * 1000, b"\x00\x01" * 500, mixed]
        check_costs(definition.decoder(version), frames)


def test_a_decoder_that_wastes_memory_or_work_would_be_noticed() -> None:
    def hoard(data: object, _view: memoryview, _position: int, _end: int) -> object:
        return bytearray(100_000)

    def dawdle(data: object, _view: memoryview, _position: int, _end: int) -> object:
        return sum(len(str(number)) for number in range(1000))

    with pytest.raises(AssertionError, match="bytes for a frame of 10"):
        check_costs(hoard, [bytes(10)])
    with pytest.raises(AssertionError, match="more than 340 calls"):
        check_costs(dawdle, [bytes(10)])


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
