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
__all__ = ["Admin", "Broker", "ConfigError", "KafkaError", "Producer", "TopicPartition", "__version__"]

if TYPE_CHECKING:
    from headrace import testing as testing
    from headrace.client.admin import Admin
    from headrace.client.errors import ConfigError, KafkaError
    from headrace.client.producer import Producer
    from headrace.client.topic_partition import TopicPartition
    from headrace.server.embedded import EmbeddedBroker as Broker

# Where each name lives; the module is imported when the name is first asked for.
_LAZY: Final = {
    "Admin": ("headrace.client.admin", "Admin"),
    "Broker": ("headrace.server.embedded", "EmbeddedBroker"),
    "ConfigError": ("headrace.client.errors", "ConfigError"),
    "KafkaError": ("headrace.client.errors", "KafkaError"),
    "Producer": ("headrace.client.producer", "Producer"),
    "TopicPartition": ("headrace.client.topic_partition", "TopicPartition"),
}


def __getattr__(name: str) -> object:
    if name == "testing":
        return import_module("headrace.testing")
    if name not in _LAZY:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found
