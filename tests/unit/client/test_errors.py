"""What users see when something is wrong."""

import pickle

import pytest

from headrace.client.errors import (
    AuthorizationError,
    BrokerRefusedError,
    ClosedError,
    ConnectionLostError,
    FencedError,
    KafkaError,
    NoBrokersError,
    PeerProtocolError,
    RequestTimedOutError,
    UnknownTopicError,
    UnsupportedVersionError,
    error_for,
    raise_for,
)
from headrace.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (3, UnknownTopicError),
        (29, AuthorizationError),
        (90, FencedError),
        (35, UnsupportedVersionError),
        (6, KafkaError),
    ],
)
def test_a_code_becomes_its_exception(code: int, kind: type[KafkaError]) -> None:
    error = error_for(code)
    assert type(error) is kind
    assert error.code == code
    assert error.retriable == ErrorCode(code).retriable


def test_every_code_has_an_exception_that_says_what_it_means() -> None:
    for code in ErrorCode:
        assert code.meaning in str(error_for(code))


def test_a_code_of_a_newer_broker_is_named_by_its_number() -> None:
    error = error_for(9999)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in str(error)


def test_the_text_has_message_what_was_tried_and_the_code() -> None:
    error = error_for(3, "There is no topic 'a'.", tried="2 requests in 0.1 s")
    assert str(error) == "There is no topic 'a'. Tried: 2 requests in 0.1 s. [UNKNOWN_TOPIC_OR_PARTITION]"


def test_no_error_is_not_raised() -> None:
    raise_for(0, None)
    with pytest.raises(KafkaError):
        raise_for(-1)


def test_fatal_means_that_this_client_is_over() -> None:
    assert error_for(ErrorCode.PRODUCER_FENCED).fatal
    assert ClosedError().fatal
    assert not error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER).fatal


@pytest.mark.parametrize(
    "error",
    [
        error_for(3, "message", tried="tried"),
        ConnectionLostError("message", tried="tried"),
        RequestTimedOutError("message"),
        ClosedError(),
        NoBrokersError("m"),
        BrokerRefusedError("m"),
        PeerProtocolError("m"),
    ],
)
def test_errors_survive_pickling(error: KafkaError) -> None:
    """Spark and multiprocessing carry them from one process to another."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.code, copy.message, copy.tried, str(copy)) == (error.code, error.message, error.tried, str(error))
