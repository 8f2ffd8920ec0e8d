"""The hosts of `max.connections.per.ip.overrides`: connections have addresses, and people write names.

Names are looked up as in Kafka, at the start and when the config changes, and then count for all their addresses. At
the start that may take its time, and a name that nobody knows refuses it. Later nobody waits: a thread looks them up,
and until it has, or if a name is not known any more, what was found last holds.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from headrace.server.quotas_entities import plain_address
from headrace.server.start_error import StartError

_LOG: Final = logging.getLogger(__name__)

LookUp = Callable[[str], set[str]]


def addresses_of(host: str) -> set[str]:
    """Raises OSError if there are none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {plain_address(str(address[0])) for *_, address in found}


class OverrideHosts:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, hosts: Iterable[str], *, look_up: LookUp = addresses_of
    ) -> None:
        """Look names among these up at once. Raises StartError."""
        self._loop = loop
        self._look_up = look_up
        self._names = _names(hosts)
        self._found: dict[str, set[str]] = {}
        for host in self._names:
            try:
                self._found[host] = look_up(host)
            except OSError as error:
                raise StartError(
                    f"cannot start: max.connections.per.ip.overrides names {host!r}, which has no address ({error}).\n"
                    "  Name a host that can be looked up, or give its address."
                ) from error

    def by_address(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The counts of hosts by the addresses that are known of them; an address is its own."""
        return {address: count for host, count in counts.items() for address in self._found.get(host, (host,))}

    def follow(self, hosts: Iterable[str], on_found: Callable[[], None]) -> None:
        """The config may have changed: look up the names in it if they have, and call back on the loop."""
        names = _names(hosts)
        if names == self._names:
            return
        self._names = names
        # A look-up may hang for long: it must hold up neither the worker's syncs nor the end of the process.
        threading.Thread(target=self._find, args=(names, on_found), name="headrace-lookup", daemon=True).start()

    def _find(self, names: Iterable[str], on_found: Callable[[], None]) -> None:
        """In a thread of its own."""
        found = {}
        for host in names:
            try:
                found[host] = self._look_up(host)
            except OSError as error:
                _LOG.error("max.connections.per.ip.overrides: %r has no address: %s", host, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._take, found, on_found)

    def _take(self, found: dict[str, set[str]], on_found: Callable[[], None]) -> None:
        self._found.update(found)
        on_found()


def _names(hosts: Iterable[str]) -> tuple[str, ...]:
    return tuple(host for host in hosts if not _is_address(host))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
