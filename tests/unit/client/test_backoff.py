"""Waits between retries."""

from headrace.client.backoff import Backoff


def test_waits_double_up_to_the_limit_and_vary_by_a_fifth() -> None:
    middle, least, most = (Backoff(100, 1000, random=lambda drawn=drawn: drawn) for drawn in (0.5, 0.0, 1.0))  # type: ignore[misc]
    assert [round(middle.seconds(failures), 6) for failures in range(7)] == [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert [round(least.seconds(failures), 6) for failures in (1, 4, 5)] == [0.08, 0.64, 0.8]
    assert [round(most.seconds(failures), 6) for failures in (1, 4, 5)] == [0.12, 0.96, 1.2]


def test_a_first_wait_above_the_limit_is_the_limit() -> None:
    assert Backoff(5000, 1000, random=lambda: 0.5).seconds(1) == 1.0


def test_any_number_of_failures_has_a_wait() -> None:
    assert Backoff(100, 1000, random=lambda: 0.5).seconds(10**9) == 1.0


def test_chance_is_drawn_each_time() -> None:
    backoff = Backoff(100, 1000)
    assert len({backoff.seconds(1) for _ in range(100)}) > 90
