"""Headrace: Kafka for Python people.

    import headrace

    with headrace.Broker() as broker:       # in this process, on a free port; Broker("data/") keeps its data
        with headrace.Admin(broker.address) as admin:
            admin.create_topic("orders", partitions=6)

`headrace.aio` has the same clients for asyncio. Importing this loads nothing that the program does not use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

__version__ = "0.1.0"
__all__ = [
    "Acl",
    "AclFilter",
    "Admin",
    "Append",
    "AuthenticationError",
    "AuthorizationError",
    "Broker",
    "BrokerPattern",
    "BrokerRefusedError",
    "BufferFullError",
    "ClosedError",
    "CommitFailedError",
    "ConfigError",
    "ConfigResource",
    "ConnectionLostError",
    "Consumer",
    "ConsumerRecord",
    "CorruptRecordError",
    "DeliveryTimeoutError",
    "DeserializationError",
    "FencedError",
    "InOrder",
    "InvalidTopicError",
    "KafkaError",
    "LogTruncationError",
    "NewTopic",
    "NoBrokersError",
    "NoOffsetError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "PartialError",
    "PeerProtocolError",
    "PollIntervalError",
    "Producer",
    "RebalanceError",
    "RecordTooLargeError",
    "RequestTimedOutError",
    "Subtract",
    "TopicExistsError",
    "TopicPartition",
    "TransactionAbortedError",
    "UnknownGroupError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "WakeupError",
    "WrongStateError",
    "__version__",
]

if TYPE_CHECKING:
    from headrace import aio as aio
    from headrace import arrow as arrow
    from headrace import streams as streams
    from headrace import testing as testing
    from headrace.client.admin import Admin
    from headrace.client.admin_access import Acl, AclFilter
    from headrace.client.admin_changes import Append, ConfigResource, Subtract
    from headrace.client.admin_topics import NewTopic
    from headrace.client.commits import OffsetAndMetadata
    from headrace.client.consumer import Consumer
    from headrace.client.consumer_errors import (
        CommitFailedError,
        CorruptRecordError,
        DeserializationError,
        LogTruncationError,
        NoOffsetError,
        PollIntervalError,
        WakeupError,
    )
    from headrace.client.consumer_record import ConsumerRecord
    from headrace.client.errors import (
        AuthenticationError,
        AuthorizationError,
        BrokerRefusedError,
        BufferFullError,
        ClosedError,
        ConfigError,
        ConnectionLostError,
        DeliveryTimeoutError,
        FencedError,
        InvalidTopicError,
        KafkaError,
        NoBrokersError,
        OffsetOutOfRangeError,
        PartialError,
        PeerProtocolError,
        RebalanceError,
        RecordTooLargeError,
        RequestTimedOutError,
        TopicExistsError,
        TransactionAbortedError,
        UnknownGroupError,
        UnknownTopicError,
        UnsupportedVersionError,
        WrongStateError,
    )
    from headrace.client.in_order import InOrder
    from headrace.client.producer import Producer
    from headrace.client.subscriptions import BrokerPattern
    from headrace.client.topic_partition import TopicPartition
    from headrace.server.embedded import EmbeddedBroker as Broker

_ERRORS: Final = (
    "AuthenticationError",
    "AuthorizationError",
    "BrokerRefusedError",
    "BufferFullError",
    "ClosedError",
    "ConfigError",
    "ConnectionLostError",
    "DeliveryTimeoutError",
    "FencedError",
    "InvalidTopicError",
    "KafkaError",
    "NoBrokersError",
    "OffsetOutOfRangeError",
    "PartialError",
    "PeerProtocolError",
    "RebalanceError",
    "RecordTooLargeError",
    "RequestTimedOutError",
    "TopicExistsError",
    "TransactionAbortedError",
    "UnknownGroupError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "WrongStateError",
)

_CONSUMER_ERRORS: Final = (
    "CommitFailedError",
    "CorruptRecordError",
    "DeserializationError",
    "LogTruncationError",
    "NoOffsetError",
    "PollIntervalError",
    "WakeupError",
)

# Where each name lives; the module is imported when the name is first asked for.
_LAZY: Final = {
    **{name: ("headrace.client.errors", name) for name in _ERRORS},
    **{name: ("headrace.client.consumer_errors", name) for name in _CONSUMER_ERRORS},
    "Acl": ("headrace.client.admin_access", "Acl"),
    "AclFilter": ("headrace.client.admin_access", "AclFilter"),
    "Admin": ("headrace.client.admin", "Admin"),
    "Append": ("headrace.client.admin_changes", "Append"),
    "Broker": ("headrace.server.embedded", "EmbeddedBroker"),
    "BrokerPattern": ("headrace.client.subscriptions", "BrokerPattern"),
    "ConfigResource": ("headrace.client.admin_changes", "ConfigResource"),
    "Consumer": ("headrace.client.consumer", "Consumer"),
    "ConsumerRecord": ("headrace.client.consumer_record", "ConsumerRecord"),
    "InOrder": ("headrace.client.in_order", "InOrder"),
    "NewTopic": ("headrace.client.admin_topics", "NewTopic"),
    "OffsetAndMetadata": ("headrace.client.commits", "OffsetAndMetadata"),
    "Producer": ("headrace.client.producer", "Producer"),
    "Subtract": ("headrace.client.admin_changes", "Subtract"),
    "TopicPartition": ("headrace.client.topic_partition", "TopicPartition"),
}


def __getattr__(name: str) -> object:
    if name in ("aio", "arrow", "streams", "testing"):
        return import_module(f"headrace.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found
