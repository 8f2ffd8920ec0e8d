from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streams.durations import duration_ms, duration_text, positive_ms
from headrace.streams.errors import PlanError


@pytest.mark.parametrize(
    ("given_text", "milliseconds"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("1m", 60_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("1m 30s", 90_000),
        ("0s", 0),
    ],
)
def test_a_duration_is_a_number_with_a_unit(given_text: str, milliseconds: int) -> None:
    assert duration_ms(given_text, what="grace") == milliseconds


@pytest.mark.parametrize("wrong", ["", "s", "5", "5 minutes", "-1s", "1.5s", "1mm", "1s x", "1 s1"])
def test_what_is_not_a_duration_is_told_with_its_name(wrong: str) -> None:
    with pytest.raises(PlanError, match=r"grace is .*such as \"30s\""):
        duration_ms(wrong, what="grace")


def test_a_number_without_a_unit_is_refused() -> None:
    with pytest.raises(PlanError, match="with its unit"):
        duration_ms(30, what="grace")  # type: ignore[arg-type]


def test_a_timedelta_must_be_whole_milliseconds_and_not_negative() -> None:
    assert duration_ms(timedelta(seconds=1.5), what="grace") == 1_500
    with pytest.raises(PlanError, match="milliseconds"):
        duration_ms(timedelta(microseconds=1), what="grace")
    with pytest.raises(PlanError, match="negative"):
        duration_ms(timedelta(seconds=-1), what="grace")


def test_nothing_is_not_a_size() -> None:
    with pytest.raises(PlanError, match="above 0"):
        positive_ms("0s", what="the size")


@given(st.integers(0, 10**12))
def test_the_text_of_a_duration_reads_back(milliseconds: int) -> None:
    assert duration_ms(duration_text(milliseconds), what="it") == milliseconds
