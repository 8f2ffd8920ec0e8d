from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.classic_topics import subscribed_topics
from tests.support.consumer_protocol import subscription_bytes


def test_the_topics_of_all_members_together() -> None:
    assert subscribed_topics([subscription_bytes(["t", "u"]), subscription_bytes(["u", "ö"])]) == frozenset(
        ["t", "u", "ö"]
    )


def test_nobody_wants_nothing() -> None:
    assert subscribed_topics([]) == frozenset()
    assert subscribed_topics([subscription_bytes([])]) == frozenset()


def test_what_newer_versions_add_is_not_read() -> None:
    assert subscribed_topics([subscription_bytes(["t"], owned=["t-0"])]) == frozenset(["t"])
    assert subscribed_topics([b"\x00\x63" + subscription_bytes(["t"])[2:] + b"the future"]) == frozenset(["t"])


def test_one_subscription_that_is_none_makes_all_unknown() -> None:
    good = subscription_bytes(["t"])
    for bad in (
        b"",
        b"\x00",
        good[:-6],
        b"\xff\xff" + good[2:],
        b"\x00\x00\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
    ):
        assert subscribed_topics([good, bad]) is None, bad


def test_a_count_that_cannot_be_true_costs_nothing() -> None:
    assert subscribed_topics([b"\x00\x00\x7f\xff\xff\xff"]) is None


@given(st.binary(max_size=100))
def test_any_bytes_are_topics_or_unknown(data: bytes) -> None:
    subscribed_topics([data])


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=5))
def test_reads_what_consumers_write(topics: list[str]) -> None:
    assert subscribed_topics([subscription_bytes(topics)]) == frozenset(topics)
