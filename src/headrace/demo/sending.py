"""The orders on their way into the topic, on a thread of their own, spread over a while as if people placed them."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from headrace.client.producer import Producer
from headrace.demo.orders import Event

_PIECES: Final = 200  # how many pauses there are between the first and the last


class Sending:
    """How many have been sent so far; `error` is why no more will be."""

    def __init__(self) -> None:
        self.count = 0
        self.error: Exception | None = None
        self._over = threading.Event()

    def check(self) -> None:
        """Raises what went wrong."""
        if self.error is not None:
            raise self.error

    def run(self, address: str, topic: str, events: Sequence[Event], seconds: float) -> None:
        try:
            self._send(address, topic, events, seconds)
        except Exception as error:  # told by `check`, on the thread that waits for it
            self.error = error

    def stop(self) -> None:
        self._over.set()

    def _send(self, address: str, topic: str, events: Sequence[Event], seconds: float) -> None:
        began = time.monotonic()
        size = max(1, len(events) // _PIECES)
        with Producer(address) as producer:
            for first in range(0, len(events), size):
                due = began + seconds * first / len(events)
                if self._over.wait(max(0.0, due - time.monotonic())):
                    return
                send_all(producer, topic, events[first : first + size])
                self.count = min(first + size, len(events))


def send_all(producer: Producer, topic: str, events: Sequence[Event]) -> None:
    """All of them, delivered when this returns. Raises KafkaError."""
    deliveries = [producer.send(topic, event.value, event.key, timestamp=event.timestamp_ms) for event in events]
    producer.flush()
    for delivery in deliveries:
        delivery.result()


@contextmanager
def sending(address: str, topic: str, events: Sequence[Event], *, seconds: float) -> Iterator[Sending]:
    """Send them over so many seconds, while the block runs; leaving it early ends the sending."""
    progress = Sending()
    thread = threading.Thread(target=progress.run, args=(address, topic, events, seconds), name="orders")
    thread.start()
    try:
        yield progress
    finally:
        progress.stop()
        thread.join()
