"""The client's side of fetch sessions: what is said, and what is left out."""

from headrace.client.fetch_session import FetchSession, Wanted
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition
from headrace.protocol.types import ZERO_UUID

ORDERS = b"o" * 16
USERS = b"u" * 16


def want(*partitions: tuple[str, int, int], ids: dict[str, bytes] | None = None) -> dict[TopicPartition, Wanted]:
    """Topic, partition, offset."""
    known = ids or {"orders": ORDERS, "users": USERS}
    return {
        TopicPartition(topic, number): Wanted(known[topic], FetchPartition(number, fetch_offset=offset))
        for topic, number, offset in partitions
    }


def said(session: FetchSession, wanted: dict[TopicPartition, Wanted]) -> tuple[int, int, list[str], list[str]]:
    request = session.request(wanted)
    asked = [
        f"{topic.topic}-{row.partition}@{row.fetch_offset}" for topic in request.topics for row in topic.partitions
    ]
    forgotten = [f"{topic.topic}-{number}" for topic in request.forgotten for number in topic.partitions]
    return request.session_id, request.epoch, asked, forgotten


def test_only_changes_are_said_once_there_is_a_session() -> None:
    session = FetchSession()
    everything = want(("orders", 0, 5), ("orders", 1, 6), ("users", 0, 7))
    assert said(session, everything) == (0, 0, ["orders-0@5", "orders-1@6", "users-0@7"], [])
    session.answered(99, 0)
    assert said(session, everything) == (99, 1, [], [])
    session.answered(99, 0)
    moved = want(("orders", 0, 5), ("orders", 1, 8), ("users", 1, 0))
    assert said(session, moved) == (99, 2, ["orders-1@8", "users-1@0"], ["users-0"])


def test_a_broker_without_sessions_gets_full_requests() -> None:
    session = FetchSession()
    for _ in range(2):
        assert said(session, want(("orders", 0, 5))) == (0, 0, ["orders-0@5"], [])
        session.answered(0, 0)


def test_a_session_that_the_broker_forgot_begins_anew() -> None:
    session = FetchSession()
    said(session, want(("orders", 0, 5)))
    session.answered(99, 0)
    said(session, want(("orders", 0, 5)))
    session.answered(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert said(session, want(("orders", 0, 5))) == (0, 0, ["orders-0@5"], [])


def test_after_a_lost_answer_or_a_wrong_epoch_the_old_session_is_replaced() -> None:
    session = FetchSession()
    said(session, want(("orders", 0, 5)))
    session.answered(99, 0)
    said(session, want(("orders", 0, 6)))
    session.lost()
    assert said(session, want(("orders", 0, 6))) == (99, 0, ["orders-0@6"], [])
    session.answered(100, 0)
    said(session, want(("orders", 0, 6)))
    session.answered(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert said(session, want(("orders", 0, 6))) == (100, 0, ["orders-0@6"], [])


def test_a_topic_that_was_made_anew_is_forgotten_by_its_old_id() -> None:
    session = FetchSession()
    said(session, want(("orders", 0, 5)))
    session.answered(99, 0)
    request = session.request(want(("orders", 0, 0), ids={"orders": b"n" * 16}))
    assert [topic.topic_id for topic in request.topics] == [b"n" * 16]
    assert [topic.topic_id for topic in request.forgotten] == [ORDERS]


def test_the_topics_of_answers_are_those_that_were_asked_for() -> None:
    session = FetchSession()
    said(session, want(("orders", 0, 5)))
    assert session.names == {ORDERS: "orders"}
    session.answered(99, 0)
    said(session, want(("orders", 0, 6), ("users", 0, 7)))
    assert session.names == {ORDERS: "orders", USERS: "users"}
    session.answered(99, 0)
    said(session, want(("orders", 0, 6), ("users", 0, 7)))
    assert session.names == {ORDERS: "orders", USERS: "users"}
    session.answered(99, 0)
    new = b"n" * 16
    said(session, want(("orders", 0, 0), ("users", 0, 7), ids={"orders": new, "users": USERS}))
    assert session.names == {new: "orders", USERS: "users"}


def test_without_ids_an_older_version_is_needed() -> None:
    assert FetchSession().request(want(("orders", 0, 0))).has_ids
    assert not FetchSession().request(want(("orders", 0, 0), ids={"orders": ZERO_UUID})).has_ids


def test_epochs_begin_again_at_one() -> None:
    session = FetchSession()
    said(session, want(("orders", 0, 0)))
    session.answered(99, 0)
    session._epoch = 0x7FFFFFFF
    said(session, want(("orders", 0, 0)))
    session.answered(99, 0)
    assert said(session, want(("orders", 0, 0)))[1] == 1
