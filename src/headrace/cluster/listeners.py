"""Where a broker listens, how others reach it, and what they speak there: three configs that must fit together.

A listener is `NAME://host:port`. The name says which security protocol its connections speak; an empty host means every
interface; an IPv6 address stands in brackets; port 0 asks the system for a free one. Names are compared in upper case.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.cluster.config_types import InvalidConfigError, split_list

_LISTENER: Final = r"(?P<name>[^:/\[\]]*)://(?P<address>.*)"
_NAME: Final = r"[A-Z0-9_.-]+"
_HOST: Final = r"[0-9A-Za-z._-]*"
_IPV6: Final = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z._-]+)?"
WILDCARDS: Final = ("0.0.0.0", "::")  # every interface: to listen on, and no address that anybody could reach
MAX_PORT: Final = 65535


class SecurityProtocol(IntEnum):
    """The numbers are those of broker registrations."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


DEFAULT_PROTOCOLS: Final[Mapping[str, SecurityProtocol]] = {each.name: each for each in SecurityProtocol}


class Endpoint(NamedTuple):
    """A host without brackets, empty for every interface, and a port, 0 for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(NamedTuple):
    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{Endpoint(self.host, self.port)}"


class Voter(NamedTuple):
    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{Endpoint(self.host, self.port)}"


def parse_endpoint(name: str, text: str) -> Endpoint:
    """`host:port`, `[::1]:port` or `:port`; `name` is the config that errors speak of."""
    host, colon, port = text.rpartition(":")
    if not colon or host.endswith(":") or port.endswith("]"):
        raise InvalidConfigError(name, f'has no port in "{text}"; write host:port, and an IPv6 address as [::1]:port')
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > MAX_PORT:
        raise InvalidConfigError(name, f'must have a port from 0 to {MAX_PORT} in "{text}", not "{port}"')
    if host.startswith("[") and host.endswith("]"):
        if not re.fullmatch(_IPV6, host[1:-1]):
            raise InvalidConfigError(name, f'must have an IPv6 address between the brackets of "{text}"')
        return Endpoint(host[1:-1], int(port))
    if ":" in host and re.fullmatch(_IPV6, host):
        raise InvalidConfigError(name, f'must have the IPv6 address of "{text}" in brackets: [{host}]:{port}')
    if not re.fullmatch(_HOST, host):
        raise InvalidConfigError(name, f'must have a host name or address in "{text}", not "{host}"')
    return Endpoint(host, int(port))


def parse_listeners(text: str, *, name: str = "listeners") -> tuple[Listener, ...]:
    """The listeners to bind, at least one. Two may share a port only as an IPv4 and an IPv6 address."""
    listeners = _parse_each(name, text)
    if not listeners:
        raise InvalidConfigError(name, "must name one listener at least, such as PLAINTEXT://localhost:9092")
    _refuse_equal_names(name, listeners)
    for index, one in enumerate(listeners):
        for other in listeners[:index]:
            if one.port == other.port != 0 and not _are_ipv4_and_ipv6(one.host, other.host):
                raise InvalidConfigError(name, f"must have another port in {one}: {other} has it already")
    return listeners


def parse_advertised_listeners(text: str, *, name: str = "advertised.listeners") -> tuple[Listener, ...]:
    """What clients are told; may share ports, may not name the address of every interface."""
    listeners = _parse_each(name, text)
    _refuse_equal_names(name, listeners)
    for listener in listeners:
        if listener.host in WILDCARDS:
            raise InvalidConfigError(
                name, f"must have an address that clients can reach in {listener}; {listener.host} is no such address"
            )
    return listeners


def parse_protocol_map(text: str, *, name: str = "listener.security.protocol.map") -> dict[str, SecurityProtocol]:
    """`NAME:PROTOCOL` pairs."""
    protocols: dict[str, SecurityProtocol] = {}
    for item in split_list(text):
        listener, colon, protocol = item.rpartition(":")
        listener, protocol = listener.strip().upper(), protocol.strip().upper()
        if not colon or not listener:
            raise InvalidConfigError(name, f'must be pairs such as INTERNAL:PLAINTEXT, not "{item}"')
        if protocol not in DEFAULT_PROTOCOLS:
            raise InvalidConfigError(name, f'must map to {", ".join(DEFAULT_PROTOCOLS)}, not to "{protocol}"')
        if listener in protocols:
            raise InvalidConfigError(name, f"must not name {listener} twice")
        protocols[listener] = SecurityProtocol[protocol]
    return protocols


def effective_protocols(
    text: str, listeners: Iterable[Listener], controller_names: Iterable[str]
) -> dict[str, SecurityProtocol]:
    """What each listener speaks.

    While the map is left at its default and no listener is secured, controllers speak plainly under any name.
    """
    protocols = parse_protocol_map(text)
    used = {protocols.get(each.name, SecurityProtocol.PLAINTEXT) for each in listeners}
    if protocols == DEFAULT_PROTOCOLS and used <= {SecurityProtocol.PLAINTEXT}:
        for name in controller_names:
            protocols.setdefault(name.upper(), SecurityProtocol.PLAINTEXT)
    return protocols


def advertise(listeners: Sequence[Listener], advertised: Sequence[Listener]) -> tuple[Listener, ...]:
    """What clients are told: the advertised listeners, and of the others the address they are bound to."""
    told = {each.name: each for each in advertised}
    return tuple(told.get(each.name, each) for each in listeners)


def check_listeners(
    listeners: Sequence[Listener],
    advertised: Sequence[Listener],
    protocols: Mapping[str, SecurityProtocol],
    controller_names: Sequence[str] = (),
) -> None:
    """Do these configs fit together? Raises InvalidConfigError."""
    names = [each.name for each in listeners]
    for name in (*names, *controller_names):
        if name.upper() not in protocols:
            raise InvalidConfigError(
                "listener.security.protocol.map", f"must say which protocol {name} speaks, such as {name}:PLAINTEXT"
            )
    for listener in advertised:
        if listener.name not in names:
            raise InvalidConfigError(
                "advertised.listeners", f"must not name {listener.name}: listeners has only {', '.join(names)}"
            )


def parse_voters(text: str, *, name: str = "controller.quorum.voters") -> tuple[Voter, ...]:
    """`id@host:port` items."""
    voters = []
    for item in split_list(text):
        node_id, at, address = item.partition("@")
        if not at or not re.fullmatch(r"[0-9]{1,9}", node_id):
            raise InvalidConfigError(name, f'must be items such as 1@localhost:9093, not "{item}"')
        voters.append(Voter(int(node_id), *_with_port(name, address)))
    if len({voter.node_id for voter in voters}) < len(voters):
        raise InvalidConfigError(name, f'must not name a node id twice, as in "{text}"')
    return tuple(voters)


def parse_bootstrap_servers(text: str, *, name: str = "controller.quorum.bootstrap.servers") -> tuple[Endpoint, ...]:
    """`host:port` items."""
    return tuple(_with_port(name, item) for item in split_list(text))


def parse_host_counts(text: str, *, name: str = "max.connections.per.ip.overrides") -> dict[str, int]:
    """`host:count` items."""
    counts = {}
    for item in split_list(text):
        host, _, count = item.rpartition(":")
        if not host or not re.fullmatch(r"[0-9]{1,9}", count.strip()):
            raise InvalidConfigError(name, f'must be items such as 10.0.0.7:100, not "{item}"')
        counts[host.strip().removeprefix("[").removesuffix("]")] = int(count)
    return counts


def _parse_each(name: str, text: str) -> tuple[Listener, ...]:
    return tuple(_parse_listener(name, item) for item in split_list(text))


def _parse_listener(name: str, text: str) -> Listener:
    found = re.fullmatch(_LISTENER, text)
    if found is None:
        raise InvalidConfigError(name, f'must be items such as PLAINTEXT://localhost:9092, not "{text}"')
    listener = found["name"].upper()
    if not re.fullmatch(_NAME, listener):
        raise InvalidConfigError(name, f'must have a name of letters, digits, ".", "_" or "-" before :// in "{text}"')
    return Listener(listener, *parse_endpoint(name, found["address"]))


def _with_port(name: str, text: str) -> Endpoint:
    endpoint = parse_endpoint(name, text)
    if not endpoint.host or not endpoint.port:
        raise InvalidConfigError(name, f'must have a host and a port above 0 in "{text}"')
    return endpoint


def _refuse_equal_names(name: str, listeners: Iterable[Listener]) -> None:
    seen: set[str] = set()
    for listener in listeners:
        if listener.name in seen:
            raise InvalidConfigError(name, f"must not name the listener {listener.name} twice")
        seen.add(listener.name)


def _are_ipv4_and_ipv6(one: str, other: str) -> bool:
    numeric = {one, other}
    return sum(":" in host for host in numeric) == 1 and any(re.fullmatch(r"[0-9.]+", host) for host in numeric)
