"""Durations and points in time, as people write them."""

import time

import pytest

from headrace.cli.output import Complaint, show_duration
from headrace.cli.values import parse_duration_ms, parse_time


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("2h", 7_200_000),
        ("1d12h", 129_600_000),
        ("1w 1d", 691_200_000),
        ("PT1H30M", 5_400_000),
        ("P1DT2S", 86_402_000),
        ("P2W", 1_209_600_000),
        ("0s", 0),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "5", "h", "2 moons", "-1s", "1.5h", "P", "PT", "P1M", "1h ago"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Complaint, match="is not a duration"):
        parse_duration_ms(text)


def test_times_that_count_back_from_now() -> None:
    before = time.time_ns() // 1_000_000
    moment = parse_time("2h ago")
    assert isinstance(moment, int)
    assert before <= moment + 7_200_000 <= time.time_ns() // 1_000_000
    assert parse_time("9999w ago") == 0


def test_times_that_the_wire_takes_for_something_else() -> None:
    assert parse_time("1969-12-31T23:59:59.999Z") == 0  # -1 is the end
    assert parse_time(str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(Complaint, match="is not a time"):
        parse_time(str(2**63))


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0s"),
        (999, "999ms"),
        (60_000, "1m"),
        (61_000, "1m 1s"),
        (3_600_001, "1h"),
        (93_600_000, "1d 2h"),
    ],
)
def test_durations_are_shown_by_their_largest_units(duration_ms: int, text: str) -> None:
    assert show_duration(duration_ms) == text
