"""Which quota holds for a client, and with whom the client shares it. It only computes.

Of the quotas of one kind exactly one holds, the most specific one: this table's first row that is there. Whatever is
named with `<default>` stands for everybody without a row of his own, and each of them is counted by himself.

    user          client-id       shared by
    alice         app             the connections of alice that say "app"
    alice         <default>       the same
    alice                         all of alice's connections
    <default>     app             the connections of one user that say "app"
    <default>     <default>       the same
    <default>                     all connections of one user
                  app             whoever says "app"
                  <default>       whoever says the same

A client that gives no client id is bound only by the quotas of its user.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import Final, NamedTuple

from headrace.cluster.image import QuotaEntity
from headrace.cluster.quotas import CLIENT_ID, IP, USER

ANONYMOUS: Final = "ANONYMOUS"  # the user of connections that prove nothing

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST_TIME: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"

Quotas = Mapping[QuotaEntity, Mapping[str, float]]  # as in the image


class Limit(NamedTuple):
    """One quota as it holds for one client."""

    shared_by: tuple[str, str, str]  # kind, user, client id; "" for what does not matter
    per_second: float


class ClientLimits(NamedTuple):
    """All quotas of one client."""

    produce: Limit | None = None
    fetch: Limit | None = None
    request_time: Limit | None = None
    mutations: Limit | None = None


UNLIMITED: Final = ClientLimits()


def limits_of(quotas: Quotas, *, user: str, client_id: str) -> ClientLimits:
    """What holds for a client; `UNLIMITED` itself if nothing does."""
    found = ClientLimits(
        *(_limit_of(quotas, kind, user, client_id) for kind in (PRODUCE, FETCH, REQUEST_TIME, MUTATIONS))
    )
    return UNLIMITED if found == UNLIMITED else found


def connection_limits(quotas: Quotas) -> dict[str | None, float]:
    """How many connections per second may come from an address; None stands for the others."""
    return {
        None if name is None else plain_address(name): values[CONNECTIONS]
        for ((kind, name), *_), values in quotas.items()
        if kind == IP and CONNECTIONS in values
    }


def plain_address(text: str) -> str:
    """One spelling for each address: IPv4 clients of an IPv6 socket are IPv4 clients."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _limit_of(quotas: Quotas, kind: str, user: str, client_id: str) -> Limit | None:
    for entity, sharers in _candidates(user, client_id):
        limit = quotas.get(entity, {}).get(kind)
        if limit is not None:
            return Limit((kind, *sharers), limit) if limit < inf else None
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str, str]]]:
    """The rows of the table, as the image writes them, and whom they count together."""
    for user_row in (user, None):
        if client_id:
            for client_row in (client_id, None):
                yield ((CLIENT_ID, client_row), (USER, user_row)), (user, client_id)
        yield ((USER, user_row),), (user, "")
    if client_id:
        for client_row in (client_id, None):
            yield ((CLIENT_ID, client_row),), ("", client_id)
