from datetime import timedelta

import pytest

from headrace.streams import PlanError, hopping, session, sliding, tumbling
from headrace.streams.windows import Hopping, Session, Sliding, Tumbling


def test_windows_are_data_in_milliseconds() -> None:
    assert tumbling("1m") == Tumbling(60_000)
    assert hopping(timedelta(hours=1), "5m") == Hopping(3_600_000, 300_000)
    assert sliding("500ms") == Sliding(500)
    assert session("30m") == Session(1_800_000)


def test_a_hop_above_the_size_is_refused_and_one_as_long_is_not() -> None:
    with pytest.raises(PlanError, match="leaves rows out"):
        hopping("1m", "61s")
    assert hopping("1m", "1m") == Hopping(60_000, 60_000)


@pytest.mark.parametrize(
    "make", [tumbling, sliding, session, lambda size: hopping(size, "1s"), lambda hop: hopping("1s", hop)]
)
def test_a_window_of_no_length_is_refused(make: object) -> None:
    with pytest.raises(PlanError, match="above 0"):
        make("0s")  # type: ignore[operator]
