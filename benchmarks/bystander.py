"""Somebody else who uses the broker: a process that asks for little, often, and remembers how long it had to wait."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Final, Self

from headrace.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.wire_client import TIMEOUT_SECONDS, WireClient

PAUSE_SECONDS: Final = 0.005


class Bystander:
    def __init__(self, address: tuple[str, int]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_ask_again_and_again, args=(address, other), daemon=True)
        self._process.start()
        assert self._pipe.poll(TIMEOUT_SECONDS), "the bystander does not begin"
        self._pipe.recv()

    def take(self) -> float:
        """Seconds that the longest request took since the last time."""
        self._pipe.send("take")
        assert self._pipe.poll(10 * TIMEOUT_SECONDS), "the bystander gets no answer"
        longest: float = self._pipe.recv()
        return longest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()
        self._pipe.close()


def _ask_again_and_again(address: tuple[str, int], pipe: Connection) -> None:
    longest = 0.0
    with WireClient(address) as client:
        pipe.send("begun")
        while True:
            start = time.perf_counter()
            client.ask("ApiVersions", 3, ApiVersionsRequest("bystander", "1"))
            longest = max(longest, time.perf_counter() - start)
            if pipe.poll(PAUSE_SECONDS):
                pipe.recv()
                pipe.send(longest)
                longest = 0.0
