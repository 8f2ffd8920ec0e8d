"""The codecs by hand that the benchmark measures against are whole: they read and write the vectors of a version."""

from types import ModuleType
from typing import Final

import pytest

from benchmarks.handwritten import fetch, metadata, produce
from benchmarks.handwritten.wire import MalformedError, request_header, response_header
from tests.support.vectors import Vector, all_vectors

BY_HAND: Final[dict[tuple[str, str, int], ModuleType]] = {
    ("Produce", "request", 9): produce,
    ("Produce", "response", 9): produce,
    ("Fetch", "request", 16): fetch,
    ("Fetch", "response", 16): fetch,
    ("Metadata", "response", 12): metadata,
}
VECTORS = [vector for vector in all_vectors() if (vector.api, vector.side, vector.version) in BY_HAND]


def frame_of(vector: Vector) -> bytes:
    header = request_header((0, 0, 7, "client")) if vector.side == "request" else response_header(7)
    return header + vector.data


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_a_vector_survives_the_way_through_code_by_hand(vector: Vector) -> None:
    module = BY_HAND[vector.api, vector.side, vector.version]
    frame = frame_of(vector)
    header, body = getattr(module, f"decode_{vector.side}")(frame, memoryview(frame), 0, len(frame))
    assert b"".join(getattr(module, f"encode_{vector.side}")(header, body)).hex(" ") == frame.hex(" ")


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_code_by_hand_refuses_every_proper_beginning(vector: Vector) -> None:
    decode = getattr(BY_HAND[vector.api, vector.side, vector.version], f"decode_{vector.side}")
    frame = frame_of(vector)
    for end in range(len(frame)):
        with pytest.raises((MalformedError, UnicodeDecodeError)):
            decode(frame + b"\xff" * 300, memoryview(frame + b"\xff" * 300), 0, end)


def test_every_codec_by_hand_has_a_vector() -> None:
    assert {(vector.api, vector.side, vector.version) for vector in VECTORS} == set(BY_HAND)
