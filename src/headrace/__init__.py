"""Headrace: Kafka for Python people.

    import headrace

    with headrace.Broker() as broker:       # in this process, on a free port; Broker("data/") keeps its data
        print(broker.address)               # give it to any Kafka client

Importing this loads nothing that the program does not use.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]

if TYPE_CHECKING:
    from headrace.server.embedded import EmbeddedBroker as Broker


def __getattr__(name: str) -> object:
    if name == "Broker":
        from headrace.server.embedded import EmbeddedBroker

        return EmbeddedBroker
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
