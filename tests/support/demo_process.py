"""`headrace demo` as a user would run it, and an order that somebody else puts among its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import headrace
from headrace.demo import topics
from headrace.demo.orders import make_users
from headrace.demo.truth import countries

_COMMAND: Final = (sys.executable, "-c", "from headrace.cli import main; main()", "demo")
_END_SECONDS: Final = 120


@contextmanager
def demo(*options: str, env: Mapping[str, str] = os.environ) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [*_COMMAND, *options], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)  # its driver goes with it
            process.communicate(timeout=_END_SECONDS)


def address_in(output: Iterable[str]) -> str:
    for line in output:
        if found := re.search(r"a broker is up at (\S+)", line):
            return found[1]
    raise AssertionError("it did not say where the broker is")


def forge_order(address: str) -> str:
    """An order of one cent that was not in the input, placed when the first one was; the country of its user."""
    user, country = next(iter(countries(make_users(seed=1, start_ms=0)).items()))
    forged = json.dumps({"id": "forged", "user": user, "cents": 1}).encode()
    with headrace.Producer(address) as producer:
        producer.send(topics.ORDERS, forged, timestamp=_first_ms(address)).result()
    return country


def _first_ms(address: str) -> int:
    """When the first order was placed."""
    with headrace.Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topics.ORDERS, 0)])
        return next(iter(consumer)).timestamp
