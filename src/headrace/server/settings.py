"""From what an operator wrote to what a broker obeys: a file, `--set` and program arguments, checked before the start.

All problems are told at once, each with what to do. What a single node needs other than Kafka's defaults is added here,
as if the operator had written it: internal topics with one replica, and no delay for the first rebalance.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.cluster.config_resolution import broker_values
from headrace.cluster.config_types import Value
from headrace.cluster.configs import check_broker_file
from headrace.cluster.listeners import (
    Listener,
    SecurityProtocol,
    advertise,
    effective_protocols,
    parse_advertised_listeners,
    parse_host_counts,
    parse_listeners,
)
from headrace.log.cleaner_run import CleanerLimits
from headrace.server.listener import SEND_BUFFER_BYTES, SYSTEM_DEFAULT, WIDE_BACKLOG, ConnectionLimits
from headrace.server.quotas_entities import plain_address

MAX_IN_FLIGHT: Final = 64  # Kafka clients send 5 at a time, or some tens where somebody tuned them

_CONTROLLER: Final = "CONTROLLER"  # what nearly everybody calls it
_ANY_RATE: Final = 1e300  # Kafka's default is the largest number there is
_SOCKET_CONFIGS: Final = ("socket.listen.backlog.size", "socket.receive.buffer.bytes", "socket.send.buffer.bytes")

# A quorum and replicas of one: what Kafka's own single-node file says.
_SINGLE_NODE: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}


class SettingsError(Exception):
    """What is wrong with a broker's configs: one line for each."""


class Settings(NamedTuple):
    """The configs of a broker as it starts."""

    static: Mapping[str, str]  # as they were given, for DescribeConfigs
    values: Mapping[str, Value]  # typed, with defaults
    notices: Sequence[str]  # what is useless but harmless
    listeners: Sequence[Listener]
    advertised: Sequence[Listener]
    protocols: Mapping[str, SecurityProtocol]

    @property
    def node_id(self) -> int:
        return self.number("node.id")

    def number(self, name: str) -> int:
        value: Any = self.values[name]
        return int(value)

    def text(self, name: str) -> str | None:
        value: Any = self.values[name]
        return None if value is None else str(value)

    @property
    def controller_listener(self) -> str:
        """The name under which nodes of the quorum are reached."""
        names: Any = self.values["controller.listener.names"]
        return str(names[0]) if names else _CONTROLLER

    @property
    def data_directory(self) -> str | None:
        """What `log.dirs` or `log.dir` says, if one of them was given."""
        value: Any = self.values["log.dirs"] or self.values["log.dir"]
        return None if not value else str(value[0])

    @property
    def limits(self) -> ConnectionLimits:
        """For the sockets. Where Kafka's defaults for them are narrow, ours hold until one is given."""
        given = {name: self.number(name) for name in _SOCKET_CONFIGS if name in self.static}
        overrides = parse_host_counts(self.text("max.connections.per.ip.overrides") or "")
        return ConnectionLimits(
            max_connections=self.number("max.connections"),
            max_connections_per_ip=self.number("max.connections.per.ip"),
            max_connections_per_ip_overrides={plain_address(host): count for host, count in overrides.items()},
            max_connection_creation_rate=self.number("max.connection.creation.rate"),
            connections_max_idle_ms=self.number("connections.max.idle.ms"),
            socket_request_max_bytes=self.number("socket.request.max.bytes"),
            max_in_flight=MAX_IN_FLIGHT,
            socket_listen_backlog_size=given.get("socket.listen.backlog.size", WIDE_BACKLOG),
            socket_receive_buffer_bytes=given.get("socket.receive.buffer.bytes", SYSTEM_DEFAULT),
            socket_send_buffer_bytes=given.get("socket.send.buffer.bytes", SEND_BUFFER_BYTES),
        )

    @property
    def cleaner_limits(self) -> CleanerLimits:
        rate: Any = self.values["log.cleaner.io.max.bytes.per.second"]
        return CleanerLimits(self.number("log.cleaner.dedupe.buffer.size"), None if rate >= _ANY_RATE else rate)

    def with_changes(
        self, node: Mapping[str, str], cluster: Mapping[str, str], static: Mapping[str, str]
    ) -> "Settings":
        """As they hold with what was set while the broker runs."""
        return self._replace(values=broker_values(node, cluster, static))

    def told(self, bound: Sequence[Listener]) -> tuple[Listener, ...]:
        """What clients are told, when the listeners are bound."""
        return advertise(bound, self.advertised)


def load_settings(given: Mapping[str, str]) -> Settings:
    """Raises SettingsError."""
    static = {**_SINGLE_NODE, **given}
    problems, notices = check_broker_file(static)
    if problems:
        raise SettingsError("\n".join(str(problem) for problem in problems))
    values = broker_values({}, {}, static)
    controllers: Any = values["controller.listener.names"]
    listeners = parse_listeners(static.get("listeners", "PLAINTEXT://:9092"))
    protocols = effective_protocols(
        static.get("listener.security.protocol.map", _map_of(values)), listeners, controllers
    )
    secured = [each.name for each in listeners if protocols[each.name] is not SecurityProtocol.PLAINTEXT]
    if secured:
        raise SettingsError(f"listeners: {', '.join(secured)} want TLS or SASL, which is not served yet; use PLAINTEXT")
    roles: Any = values["process.roles"]
    if roles and set(roles) != {"broker", "controller"}:
        raise SettingsError("process.roles: a node is broker and controller; write broker,controller or leave it out")
    if values["authorizer.class.name"]:
        raise SettingsError("authorizer.class.name: access rules are not enforced yet; leave it out to serve everybody")
    directories: Any = values["log.dirs"] or values["log.dir"] or ()
    if len(directories) > 1:
        raise SettingsError(f"log.dirs: {len(directories)} data directories are given, and one is served yet")
    return Settings(
        static=static,
        values=values,
        notices=notices,
        listeners=[each for each in listeners if each.name not in controllers],
        advertised=parse_advertised_listeners(static.get("advertised.listeners", "")),
        protocols=protocols,
    )


def _map_of(values: Mapping[str, Value]) -> str:
    value: Any = values["listener.security.protocol.map"]
    return value if isinstance(value, str) else ",".join(value)
