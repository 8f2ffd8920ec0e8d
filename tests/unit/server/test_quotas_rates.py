"""Rates and buckets, by numbers that can be reckoned by hand."""

from headrace.server.quotas_rates import MAX_THROTTLE_MS, Rate, TokenBucket, Windows

NOW_MS = 1_700_000_000_000


def test_ten_seconds_worth_may_be_spent_at_once_and_a_byte_more_is_too_much() -> None:
    rate = Rate(Windows())
    rate.record(10_000, now_ms=NOW_MS)
    assert rate.throttle_ms(1000, now_ms=NOW_MS) == 0
    rate.record(10, now_ms=NOW_MS)
    assert rate.throttle_ms(1000, now_ms=NOW_MS) == 10


def test_the_throttle_time_brings_the_rate_back_to_its_limit() -> None:
    rate = Rate(Windows())
    for second in range(11):
        rate.record(2000, now_ms=NOW_MS + second * 1000)
    # All windows have begun, so from now on it is time that makes the rate smaller.
    now_ms = NOW_MS + 10_000
    assert rate.measure(now_ms=now_ms) == (2200, 10_000)
    throttle_ms = rate.throttle_ms(2000, now_ms=now_ms)
    assert throttle_ms == 1000
    assert rate.throttle_ms(2000, now_ms=now_ms + throttle_ms - 1) == 1
    assert rate.throttle_ms(2000, now_ms=now_ms + throttle_ms) == 0


def test_a_window_counts_until_nothing_fell_into_it_for_as_long_as_all_last() -> None:
    rate = Rate(Windows(number=3, size_ms=1000))
    rate.record(300, now_ms=NOW_MS)
    rate.record(300, now_ms=NOW_MS + 900)
    assert rate.measure(now_ms=NOW_MS + 3899) == (600 / 3.899, 3899)
    assert rate.measure(now_ms=NOW_MS + 3900) == (0, 2000)


def test_one_window_more_than_their_number_may_count() -> None:
    rate = Rate(Windows(number=2, size_ms=1000))
    for after_ms in (0, 900, 1000, 1900, 2000):
        rate.record(100, now_ms=NOW_MS + after_ms)
    assert rate.measure(now_ms=NOW_MS + 2500) == (500 / 2.5, 2500)
    rate.record(100, now_ms=NOW_MS + 3000)  # takes the place of the oldest
    assert rate.measure(now_ms=NOW_MS + 3500) == (400 / 2.5, 2500)


def test_what_was_recorded_can_be_taken_back() -> None:
    rate = Rate(Windows())
    rate.record(50_000, now_ms=NOW_MS)
    rate.record(-50_000, now_ms=NOW_MS)
    assert rate.throttle_ms(1, now_ms=NOW_MS) == 0


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    rate = Rate(Windows())
    rate.record(1_000_000, now_ms=NOW_MS)
    assert rate.throttle_ms(1000, now_ms=NOW_MS - 3_600_000) == 0
    bucket = TokenBucket(Windows())
    bucket.record(30, 1, now_ms=NOW_MS)
    assert bucket.throttle_ms(1, now_ms=NOW_MS - 3_600_000) == 19_000


def test_a_throttle_time_fits_the_field_that_tells_it() -> None:
    rate = Rate(Windows())
    rate.record(1e15, now_ms=NOW_MS)
    assert rate.throttle_ms(1, now_ms=NOW_MS) == MAX_THROTTLE_MS == 2**31 - 1


def test_a_new_bucket_is_full_and_may_be_emptied_below_zero() -> None:
    bucket = TokenBucket(Windows())
    bucket.record(11, 1, now_ms=NOW_MS)
    assert bucket.throttle_ms(1, now_ms=NOW_MS) == 0
    bucket.record(2.5, 1, now_ms=NOW_MS)
    assert bucket.throttle_ms(1, now_ms=NOW_MS) == 2500
    assert bucket.throttle_ms(1, now_ms=NOW_MS + 1000) == 1500
    assert bucket.throttle_ms(1, now_ms=NOW_MS + 2500) == 0


def test_a_bucket_never_holds_more_than_a_burst() -> None:
    bucket = TokenBucket(Windows(number=3, size_ms=1000))
    bucket.record(1, 2, now_ms=NOW_MS)
    bucket.record(8, 2, now_ms=NOW_MS + 3_600_000)
    assert bucket.throttle_ms(2, now_ms=NOW_MS + 3_600_000) == 1000


def test_a_limit_that_changes_holds_for_what_was_spent_before() -> None:
    bucket = TokenBucket(Windows())
    bucket.record(15, 1, now_ms=NOW_MS)
    assert bucket.throttle_ms(1, now_ms=NOW_MS) == 4000
    assert bucket.throttle_ms(4, now_ms=NOW_MS) == 1000
