"""The configs of a broker: all families in one table, the rules between them, and their variants for one listener.

`listener.name.<listener>.<config>` sets a config for one listener, and for SASL
`listener.name.<listener>.<mechanism>.<config>` for one mechanism of it; both in lower case.
"""

import re
from collections.abc import Mapping
from typing import Final

from headrace.cluster.config_types import ConfigKey, ConfigTable, InvalidConfigError, Value
from headrace.cluster.coordinator_configs import COORDINATOR_CONFIGS
from headrace.cluster.group_configs import GROUP_CONFIGS, check_group_bounds, check_outlasts, number
from headrace.cluster.listeners import check_listeners, effective_protocols, parse_advertised_listeners, parse_listeners
from headrace.cluster.log_configs import LOG_CONFIGS
from headrace.cluster.network_configs import NETWORK_CONFIGS
from headrace.cluster.quorum_configs import QUORUM_CONFIGS
from headrace.cluster.security_configs import SECURITY_CONFIGS
from headrace.cluster.share_configs import SHARE_CONFIGS
from headrace.cluster.topic_configs import TOPIC_CONFIGS

_KEYS: Final[list[ConfigKey]] = [
    *QUORUM_CONFIGS,
    *NETWORK_CONFIGS,
    *LOG_CONFIGS,
    *COORDINATOR_CONFIGS,
    *SHARE_CONFIGS,
    *SECURITY_CONFIGS,
]
_LISTENER_CONFIGS: Final = frozenset(
    key.name
    for key in _KEYS
    if key.name.startswith(("ssl.", "sasl."))
    or key.name in ("max.connections", "max.connection.creation.rate", "connections.max.reauth.ms")
)
_VARIANT: Final = (
    r"listener\.name\.[^.]+\.(?:(?:plain|scram-sha-256|scram-sha-512|oauthbearer)\.(?=sasl\.))?(?P<plain>.+)"
)


def without_listener(name: str) -> str:
    """`name` without the listener, and the mechanism, that it is set for."""
    found = re.fullmatch(_VARIANT, name)
    return found["plain"] if found else name


def plain_name(name: str) -> str | None:
    """The config that `name` sets for one listener, or None if it does not."""
    plain = without_listener(name)
    return plain if plain != name and plain in _LISTENER_CONFIGS else None


def _check_node_id(values: Mapping[str, Value]) -> None:
    old, new = number(values, "broker.id"), number(values, "node.id")
    if old not in (-1, new):
        raise InvalidConfigError("broker.id", f"must be left out or equal to node.id, but {old} != {new}")


def _check_quorum(values: Mapping[str, Value]) -> None:
    if values["controller.quorum.auto.join.enable"] and "controller" not in _texts(values, "process.roles"):
        raise InvalidConfigError(
            "controller.quorum.auto.join.enable", "is only for nodes with controller in process.roles"
        )
    check_outlasts(values, "broker.session.timeout.ms", "broker.heartbeat.interval.ms")


def _check_directories(values: Mapping[str, Value]) -> None:
    cordoned = _texts(values, "cordoned.log.dirs")
    directories = _texts(values, "log.dirs") or _texts(values, "log.dir")
    if "*" in cordoned and len(cordoned) > 1:
        raise InvalidConfigError("cordoned.log.dirs", "must have no other item beside *")
    unknown = set(cordoned) - set(directories) - {"*"}
    if directories and unknown:
        raise InvalidConfigError(
            "cordoned.log.dirs", f"must be among log.dirs, and {', '.join(sorted(unknown))} is not"
        )


def _check_replication(values: Mapping[str, Value]) -> None:
    _check_at_most(values, "replica.fetch.wait.max.ms", "replica.socket.timeout.ms")
    _check_at_most(values, "replica.fetch.wait.max.ms", "replica.lag.time.max.ms")


def _check_connections(values: Mapping[str, Value]) -> None:
    if number(values, "connections.max.idle.ms") >= 0:
        check_outlasts(values, "connections.max.idle.ms", "connection.failed.authentication.delay.ms")
    if number(values, "queued.max.request.bytes") > 0:
        _check_at_most(values, "socket.request.max.bytes", "queued.max.request.bytes")
    if number(values, "max.connections.per.ip") == 0 and not values["max.connections.per.ip.overrides"]:
        raise InvalidConfigError(
            "max.connections.per.ip", "must be above 0 unless max.connections.per.ip.overrides lets somebody in"
        )


def _check_group_limits(values: Mapping[str, Value]) -> None:
    _check_at_most(values, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    _check_at_most(values, "group.share.max.size", "group.share.max.share.sessions")


def _check_group_defaults(values: Mapping[str, Value]) -> None:
    """What groups get by default must itself lie within what groups may set."""
    for protocol in ("consumer", "share", "streams"):
        check_outlasts(values, f"group.{protocol}.session.timeout.ms", f"group.{protocol}.heartbeat.interval.ms")
    defaults = {key.name: values[key.synonyms[0].name] for key in GROUP_CONFIGS.values() if key.synonyms}
    try:
        check_group_bounds(defaults, values)
    except InvalidConfigError as fault:
        raise InvalidConfigError(GROUP_CONFIGS[fault.name].synonyms[0].name, fault.reason) from None


def _check_listeners(values: Mapping[str, Value]) -> None:
    listeners = parse_listeners(",".join(_texts(values, "listeners")))
    advertised = parse_advertised_listeners(",".join(_texts(values, "advertised.listeners")))
    controllers = _texts(values, "controller.listener.names")
    protocols = effective_protocols(str(values["listener.security.protocol.map"]), listeners, controllers)
    check_listeners(listeners, advertised, protocols, controllers)
    names = {each.name for each in listeners}
    for name in _texts(values, "early.start.listeners"):
        if name.upper() not in names | {each.upper() for each in controllers}:
            raise InvalidConfigError("early.start.listeners", f'must be among listeners, and "{name}" is not')
    source = (
        "security.inter.broker.protocol"
        if values["inter.broker.listener.name"] is None
        else "inter.broker.listener.name"
    )
    wanted = str(values[source])
    # A single node never talks to another one: only who names a listener, or a protocol of his own, must have it.
    if wanted.upper() not in names and (source, wanted) != ("security.inter.broker.protocol", "PLAINTEXT"):
        raise InvalidConfigError(source, f'must name one of listeners, not "{wanted}"')


def _check_at_most(values: Mapping[str, Value], smaller: str, larger: str) -> None:
    least, most = number(values, smaller), number(values, larger)
    if least > most:
        raise InvalidConfigError(smaller, f"must be at most {larger}, but {least} > {most}")


def _texts(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name] or ()
    assert isinstance(value, tuple), f"{name}={value!r}"
    return value


BROKER_CONFIGS: Final = ConfigTable(
    "broker",
    _KEYS,
    rules=(
        _check_node_id,
        _check_quorum,
        _check_directories,
        _check_replication,
        _check_connections,
        _check_group_limits,
        _check_group_defaults,
        _check_listeners,
    ),
    find_variant=plain_name,
)

# A broker config that another one replaces: the chain in which the first that is set counts.
BROKER_CHAINS: Final[Mapping[str, tuple[str, ...]]] = {
    each.name: tuple(synonym.name for synonym in key.synonyms)
    for key in TOPIC_CONFIGS.values()
    if len(key.synonyms) > 1
    for each in key.synonyms
    # Kafka's answer for log.flush.scheduler.interval.ms names no other: it is a config of its own, too
    if each.name != "log.flush.scheduler.interval.ms"
}
