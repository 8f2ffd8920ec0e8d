"""Which quota holds for whom."""

from math import inf

import pytest

from headrace.cluster.image import QuotaEntity
from headrace.server.quotas_entities import (
    CONNECTIONS,
    FETCH,
    MUTATIONS,
    PRODUCE,
    REQUEST_TIME,
    UNLIMITED,
    Limit,
    Quotas,
    connection_limits,
    limits_of,
    plain_address,
)

# Most specific first; what a quota there counts together.
LEVELS: list[tuple[QuotaEntity, tuple[str, str]]] = [
    ((("client-id", "app"), ("user", "alice")), ("alice", "app")),
    ((("client-id", None), ("user", "alice")), ("alice", "app")),
    ((("user", "alice"),), ("alice", "")),
    ((("client-id", "app"), ("user", None)), ("alice", "app")),
    ((("client-id", None), ("user", None)), ("alice", "app")),
    ((("user", None),), ("alice", "")),
    ((("client-id", "app"),), ("", "app")),
    ((("client-id", None),), ("", "app")),
]


def test_of_all_levels_the_most_specific_one_holds() -> None:
    quotas = {entity: {PRODUCE: 100.0 + level} for level, (entity, _) in enumerate(LEVELS)}
    for level, (entity, shared_by) in enumerate(LEVELS):
        limits = limits_of(quotas, user="alice", client_id="app")
        assert limits.produce == Limit((PRODUCE, *shared_by), 100.0 + level)
        del quotas[entity]
    assert limits_of(quotas, user="alice", client_id="app") is UNLIMITED


def test_each_kind_of_quota_is_looked_for_by_itself() -> None:
    quotas: Quotas = {
        (("user", "alice"),): {PRODUCE: 1.0, REQUEST_TIME: 50.0},
        (("client-id", "app"),): {PRODUCE: 2.0, FETCH: 3.0, MUTATIONS: 4.0},
    }
    limits = limits_of(quotas, user="alice", client_id="app")
    assert limits.produce == Limit((PRODUCE, "alice", ""), 1.0)
    assert limits.fetch == Limit((FETCH, "", "app"), 3.0)
    assert limits.request_time == Limit((REQUEST_TIME, "alice", ""), 50.0)
    assert limits.mutations == Limit((MUTATIONS, "", "app"), 4.0)


@pytest.mark.parametrize("level", range(8))
def test_others_are_bound_by_defaults_only(level: int) -> None:
    entity, _ = LEVELS[level]
    limits = limits_of({entity: {FETCH: 7.0}}, user="bob", client_id="tool")
    names = {name for _, name in entity}
    assert (limits.fetch is not None) == (names == {None})


def test_without_a_client_id_only_quotas_of_users_hold() -> None:
    by_client = {entity: {FETCH: 1.0} for entity, _ in LEVELS if entity[0][0] == "client-id"}
    assert limits_of(by_client, user="alice", client_id="") is UNLIMITED
    limits = limits_of({**by_client, (("user", None),): {FETCH: 2.0}}, user="alice", client_id="")
    assert limits.fetch == Limit((FETCH, "alice", ""), 2.0)


def test_a_quota_without_end_is_none_and_still_hides_the_wider_ones() -> None:
    quotas: Quotas = {(("user", "alice"),): {REQUEST_TIME: inf}, (("client-id", "app"),): {REQUEST_TIME: 1.0}}
    assert limits_of(quotas, user="alice", client_id="app") is UNLIMITED


def test_addresses_are_found_however_they_are_spelled() -> None:
    quotas: Quotas = {
        (("ip", "0:0:0:0:0:0:0:1"),): {CONNECTIONS: 1.0},
        (("ip", None),): {CONNECTIONS: 2.0},
        (("client-id", "app"),): {FETCH: 3.0},
    }
    assert connection_limits(quotas) == {"::1": 1.0, None: 2.0}
    assert plain_address("::ffff:10.0.0.7") == "10.0.0.7"
    assert plain_address("fe80::1%eth0") == "fe80::1"
    assert plain_address("localhost") == "localhost"
