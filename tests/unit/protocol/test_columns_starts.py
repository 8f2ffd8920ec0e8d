"""Where records begin: the guess is nearly always right, and never believed when it is not."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol import column_starts
from headrace.protocol.batch import (
    HEADER_SIZE,
    verify,
)
from headrace.protocol.records import (
    NewRecord,
    build_batch,
    iter_batches,
)
from tests.support.column_oracle import decoded_rows, text_records
from tests.support.record_strategies import (
    lookalikes,
)


def payloads_of(batch: bytes | bytearray) -> column_starts.Payloads:
    header = verify(batch)
    numbers = (HEADER_SIZE, header.size_bytes, header.record_count)
    return column_starts.Payloads(*(np.array([number], np.int64) for number in numbers))


def test_the_guess_finds_records_of_text_without_a_walk() -> None:
    batch = bytes(build_batch(text_records(2000)))
    octets, payloads = np.frombuffer(batch, np.uint8), payloads_of(batch)
    walked = column_starts._walk(octets, payloads, 2000)
    assert np.array_equal(column_starts._guess(octets, payloads, 2000), walked)


def test_the_guess_finds_the_records_of_many_batches_at_once() -> None:
    log = b"".join(build_batch(text_records(160), base_offset=first) for first in range(0, 1600, 160))
    at = [(position + HEADER_SIZE, position + header.size_bytes, 160) for position, header in iter_batches(log)]
    payloads = column_starts.Payloads(*(np.array(column, np.int64) for column in zip(*at, strict=True)))
    octets = np.frombuffer(log, np.uint8)
    assert np.array_equal(column_starts._guess(octets, payloads, 1600), column_starts._walk(octets, payloads, 1600))


def test_the_guess_sees_through_random_bytes() -> None:
    values = np.random.default_rng(1).integers(0, 256, (2000, 100), np.uint8)
    batch = bytes(build_batch([NewRecord(i, b"key", value.tobytes()) for i, value in enumerate(values)]))
    octets, payloads = np.frombuffer(batch, np.uint8), payloads_of(batch)
    assert np.array_equal(column_starts._guess(octets, payloads, 2000), column_starts._walk(octets, payloads, 2000))


@given(values=st.lists(lookalikes, min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_values_that_look_like_records_are_told_from_records(values: list[bytes]) -> None:
    batch = bytes(build_batch([NewRecord(1000, None, value) for value in values]))
    assert [row[1] for row in decoded_rows(batch)] == values


@given(marks=st.lists(st.sampled_from([0, 0, 0, 0, 1]), min_size=8, max_size=200))
@settings(max_examples=60, deadline=None)
def test_marks_are_found_eight_at_a_time(marks: list[int]) -> None:
    array = np.array(marks[: len(marks) // 8 * 8], np.uint8)
    array[3] = 1
    assert column_starts._places(array).tolist() == np.flatnonzero(array).tolist()
