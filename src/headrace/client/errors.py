"""What can go wrong for the user of a client. An error says what happened, what was tried, and what to do.

`KafkaError` carries Kafka's own code. Its children are the cases that programs tell apart; `error_for` picks the one of
a code. `retriable` means that the same call may succeed later; `fatal` that this client object never will again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.protocol.error_codes import ErrorCode

# After these a producer or a member of a group has been replaced, or may not do its work at all.
_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)

_TOLD: Final = 5  # errors that a message about many items spells out


class ConfigError(ValueError):
    """Settings that cannot be: `problems` has a sentence for each. It is not a KafkaError: no broker was asked."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class KafkaError(Exception):
    """What a broker answered, or what became of the attempt to ask one.

    `code` is Kafka's, `message` a sentence about this case, `tried` says what was done before giving up.
    """

    def __init__(self, code: ErrorCode, message: str = "", *, tried: str = "") -> None:
        self.code = code
        self.message = message or code.meaning
        self.tried = tried
        super().__init__(code, self.message, tried)

    @property
    def retriable(self) -> bool:
        return self.code.retriable

    @property
    def fatal(self) -> bool:
        return self.code in _FATAL

    def __str__(self) -> str:
        tried = f" Tried: {self.tried}." if self.tried else ""
        return f"{self.message}{tried} [{self.code.name}]"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.code, self.message, self.tried)


def _rebuild(kind: type[KafkaError], code: ErrorCode, message: str, tried: str) -> KafkaError:
    error = kind.__new__(kind)
    KafkaError.__init__(error, code, message, tried=tried)
    return error


# The way to the broker


class ConnectionLostError(KafkaError):
    """The connection could not be made, or ended before the answer came; the request may have taken effect."""

    def __init__(self, message: str, *, tried: str = "") -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message, tried=tried)


class BrokerRefusedError(ConnectionLostError):
    """Nobody listens at the address."""


class NoBrokersError(ConnectionLostError):
    """None of the addresses that are known answers."""


class RequestTimedOutError(KafkaError):
    """The answer did not come in time; the request may have taken effect."""

    def __init__(self, message: str, *, tried: str = "") -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message, tried=tried)


class DeliveryTimeoutError(RequestTimedOutError):
    """Records were not delivered within delivery.timeout.ms; some of them may have been written nevertheless."""


class BufferFullError(KafkaError):
    """Records come faster than they can be sent, and buffer.memory is used up for longer than max.block.ms."""

    def __init__(self, message: str, *, tried: str = "") -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message, tried=tried)


class UnsupportedVersionError(KafkaError):
    """Broker and client share no version of a request, or none that can carry what was asked for."""

    def __init__(self, message: str, *, tried: str = "") -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message, tried=tried)


class PeerProtocolError(ConnectionLostError):
    """The other side does not speak Kafka's protocol, or breaks it; trying again does not help."""

    @property
    def retriable(self) -> bool:
        return False


class ClosedError(KafkaError):
    """The client was closed, by this program, while the call ran or before."""

    def __init__(self, message: str = "This client is closed.", *, tried: str = "") -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message, tried=tried)

    @property
    def retriable(self) -> bool:
        return False

    @property
    def fatal(self) -> bool:
        return True


class PartialError(KafkaError):
    """Some of what was asked for did not work: `errors` by item, and the `results` of the items that did."""

    def __init__(self, errors: Mapping[Any, KafkaError], results: Mapping[Any, Any], what: str) -> None:
        first = next(iter(errors.values()))
        told = "; ".join(f"{item}: {error.message}" for item, error in list(errors.items())[:_TOLD])
        more = f" and {len(errors) - _TOLD} more" if len(errors) > _TOLD else ""
        super().__init__(first.code, f"{len(errors)} of {len(errors) + len(results)} {what} failed: {told}{more}")
        self.errors = dict(errors)
        self.results = dict(results)

    @property
    def retriable(self) -> bool:
        return all(error.retriable for error in self.errors.values())

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_partial, (self.message, self.code, self.errors, self.results)


def _rebuild_partial(
    message: str, code: ErrorCode, errors: dict[Any, KafkaError], results: dict[Any, Any]
) -> PartialError:
    error = PartialError.__new__(PartialError)
    KafkaError.__init__(error, code, message)
    error.errors, error.results = errors, results
    return error


# What the broker answered


class UnknownTopicError(KafkaError):
    """There is no such topic or partition."""


class TopicExistsError(KafkaError):
    """There is a topic of this name."""


class InvalidTopicError(KafkaError):
    """The name is not one that a topic may have."""


class AuthorizationError(KafkaError):
    """This user may not do this."""


class AuthenticationError(KafkaError):
    """The broker does not believe who this is."""


class OffsetOutOfRangeError(KafkaError):
    """The log does not hold the offset."""


class RecordTooLargeError(KafkaError):
    """A record, or the batch that holds it, is larger than client or broker allow."""


class FencedError(KafkaError):
    """Another instance has taken over: this one must stop."""


class UnknownGroupError(KafkaError):
    """There is no such group."""


class RebalanceError(KafkaError):
    """The group has moved on: partitions were taken away from this member."""


class WrongStateError(KafkaError):
    """The call does not fit what was called before it, such as a commit outside of a transaction."""

    def __init__(self, message: str, *, tried: str = "") -> None:
        super().__init__(ErrorCode.INVALID_TXN_STATE, message, tried=tried)


class TransactionAbortedError(KafkaError):
    """The transaction cannot be committed; abort it and begin another."""


_BY_CODE: Final[dict[ErrorCode, type[KafkaError]]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: InvalidTopicError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLargeError,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    ErrorCode.PRODUCER_FENCED: FencedError,
    ErrorCode.INVALID_PRODUCER_EPOCH: FencedError,
    ErrorCode.FENCED_INSTANCE_ID: FencedError,
    ErrorCode.GROUP_ID_NOT_FOUND: UnknownGroupError,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceError,
    ErrorCode.ILLEGAL_GENERATION: RebalanceError,
    ErrorCode.UNKNOWN_MEMBER_ID: RebalanceError,
    ErrorCode.FENCED_MEMBER_EPOCH: RebalanceError,
    ErrorCode.STALE_MEMBER_EPOCH: RebalanceError,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortedError,
}


def code_of(number: int) -> ErrorCode:
    """The code; a number that this client does not know is UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_for(code: int, message: str | None = None, *, tried: str = "") -> KafkaError:
    """The exception for a code of a response; `message` is the broker's own, or a sentence with more context."""
    known = code_of(code)
    if not message and known != code:
        message = f"The broker answered with error code {code}, which this client does not know."
    if known is ErrorCode.UNSUPPORTED_VERSION:
        return UnsupportedVersionError(message or known.meaning, tried=tried)
    return _BY_CODE.get(known, KafkaError)(known, message or "", tried=tried)


def raise_for(code: int, message: str | None = None, *, tried: str = "") -> None:
    """Nothing for NONE, else raise what `error_for` returns."""
    if code:
        raise error_for(code, message, tried=tried)
