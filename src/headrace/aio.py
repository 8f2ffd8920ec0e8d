"""The clients for asyncio, under the names that their blocking counterparts have in `headrace`.

    import headrace.aio

    async with headrace.aio.Admin("localhost:9092") as admin:
        await admin.create_topic("orders", partitions=6)

Importing this loads nothing that the program does not use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

__all__ = ["Admin", "Consumer", "Producer"]

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin as Admin
    from headrace.client.async_consumer import AsyncConsumer as Consumer
    from headrace.client.async_producer import AsyncProducer as Producer

# Where each name lives; the module is imported when the name is first asked for.
_LAZY: Final = {
    "Admin": ("headrace.client.admin", "AsyncAdmin"),
    "Consumer": ("headrace.client.async_consumer", "AsyncConsumer"),
    "Producer": ("headrace.client.async_producer", "AsyncProducer"),
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'headrace.aio' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found
