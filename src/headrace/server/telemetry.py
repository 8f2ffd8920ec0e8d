"""Client telemetry (KIP-714): which of their metrics clients are asked for, and that they send them at their time.

A client asks which metrics are wanted and is given an id for itself, an id of the subscription and an interval; it then
pushes once per interval. Subscriptions are configs of the cluster (`client-metrics` resources): a client gets the union
of all that match it, at the shortest of their intervals, and at most five minutes. When they change, so does the id,
and the client asks again.

Nothing reads the metrics yet, so a push is checked and dropped.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

from headrace.cluster.client_metrics_configs import CLIENT_METRICS_CONFIGS, parse_match
from headrace.cluster.config_resolution import client_metrics_values
from headrace.cluster.config_types import InvalidConfigError
from headrace.cluster.image import ConfigKind, ConfigResource, Image
from headrace.protocol.compression import Codec
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest
from headrace.protocol.types import uuid_to_text
from headrace.server.connection import Connection

# Clients that are remembered; whoever is forgotten starts again as a new one, and nobody is hurt.
MAX_CLIENTS: Final = 16_384
ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
_ALL_METRICS: Final = "*"
_NEVER: Final = -(1 << 62)
_DEFAULT_INTERVAL_MS: Final[Any] = CLIENT_METRICS_CONFIGS["interval.ms"].default
# After these a client must ask again at once, and may.
_ASK_AGAIN: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


class ClientSoftware(NamedTuple):
    """What a client says of itself in ApiVersions (KIP-511)."""

    name: str = "unknown"
    version: str = "unknown"


class ClientTraits(NamedTuple):
    """What a client says of itself, and where it comes from: what subscriptions match."""

    client_id: str
    software_name: str
    software_version: str
    source_address: str
    source_port: int


def traits_of(client_id: str, connection: Connection) -> ClientTraits:
    software = connection.session if isinstance(connection.session, ClientSoftware) else ClientSoftware()
    address, port, *_ = connection.peer
    return ClientTraits(client_id, *software, address, port)


class Subscription(NamedTuple):
    """What one client shall send, and how often."""

    metrics: tuple[str, ...]
    interval_ms: int

    def id_for(self, client_instance_id: bytes) -> int:
        """The same for the same wishes; signed, as the protocol has it."""
        wishes = f"{sorted(self.metrics)} {self.interval_ms}"
        number = crc32(wishes.encode()) ^ crc32(client_instance_id)
        return number - (1 << 32) if number >= 1 << 31 else number


class _Client:
    __slots__ = ("has_asked", "heard_ms", "is_terminating", "last_error", "wanted")

    def __init__(self, wanted: Subscription) -> None:
        self.wanted = wanted
        self.heard_ms = _NEVER
        self.has_asked = False  # and not pushed since
        self.last_error = ErrorCode.NONE
        self.is_terminating = False

    def may_ask(self, now_ms: int) -> bool:
        return now_ms - self.heard_ms >= self.wanted.interval_ms or self.last_error in _ASK_AGAIN

    def may_push(self, now_ms: int) -> bool:
        # The first push after asking comes at a moment of the client's choice, so that not all come together.
        return self.has_asked or now_ms - self.heard_ms >= self.wanted.interval_ms

    def heard(self, now_ms: int, *, asking: bool) -> None:
        self.heard_ms = now_ms
        self.has_asked = asking


class Telemetry:
    """Which clients there are, and when they were heard of."""

    __slots__ = ("_clients", "_configs", "_is_wanted")

    def __init__(self) -> None:
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        self._configs: Mapping[ConfigResource, Mapping[str, str]] = {}  # those that `_is_wanted` tells of
        self._is_wanted = False

    def is_wanted(self, image: Image) -> bool:
        """Has anybody subscribed to metrics of clients?

        As long as nobody has, clients are better not told that they may ask: librdkafka tells its user of every time.
        Apache Kafka, too, offers telemetry only where something takes it.
        """
        if image.configs is not self._configs:
            self._configs = image.configs
            self._is_wanted = any(resource.kind == ConfigKind.CLIENT_METRICS for resource in image.configs)
        return self._is_wanted

    def subscribe(
        self, client_instance_id: bytes, wanted: Subscription, *, max_bytes: int, now_ms: int
    ) -> GetTelemetrySubscriptionsResponse:
        client = self._client(client_instance_id, wanted)
        if not client.may_ask(now_ms):
            return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        client.heard(now_ms, asking=True)
        client.last_error = ErrorCode.NONE
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=client_instance_id,
            subscription_id=wanted.id_for(client_instance_id),
            accepted_compression_types=ACCEPTED_CODECS,
            push_interval_ms=wanted.interval_ms,
            telemetry_max_bytes=max_bytes,
            delta_temporality=True,
            requested_metrics=wanted.metrics,
        )

    def push(self, request: PushTelemetryRequest, wanted: Subscription, *, max_bytes: int, now_ms: int) -> ErrorCode:
        client = self._client(request.client_instance_id, wanted)
        client.last_error = self._check(client, request, max_bytes, now_ms)
        client.is_terminating = request.terminating
        return client.last_error

    def _check(self, client: _Client, request: PushTelemetryRequest, max_bytes: int, now_ms: int) -> ErrorCode:
        if client.is_terminating:
            return ErrorCode.INVALID_REQUEST  # it had said that nothing more would come
        if client.may_push(now_ms):
            client.heard(now_ms, asking=False)
        elif not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != client.wanted.id_for(request.client_instance_id):
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in (Codec.NONE, *ACCEPTED_CODECS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _client(self, client_instance_id: bytes, wanted: Subscription) -> _Client:
        client = self._clients.get(client_instance_id)
        if client is None or client.wanted != wanted:  # to other wishes it may say at once that it heard them
            client = self._clients[client_instance_id] = _Client(wanted)
        self._clients.move_to_end(client_instance_id)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return client


def subscription_of(image: Image, client_instance_id: bytes, traits: ClientTraits) -> Subscription:
    """What this client shall send: all that the subscriptions want which match it."""
    said = {
        "client_instance_id": uuid_to_text(client_instance_id),
        "client_id": traits.client_id,
        "client_software_name": traits.software_name,
        "client_software_version": traits.software_version,
        "client_source_address": traits.source_address,
        "client_source_port": str(traits.source_port),
    }
    metrics: dict[str, None] = {}
    interval_ms = _DEFAULT_INTERVAL_MS
    for resource, configs in image.configs.items():
        if resource.kind == ConfigKind.CLIENT_METRICS and _matches(configs.get("match", ""), said):
            values: Any = client_metrics_values(configs)
            metrics |= dict.fromkeys(values["metrics"])
            interval_ms = min(interval_ms, values["interval.ms"])
    return Subscription((_ALL_METRICS,) if _ALL_METRICS in metrics else tuple(metrics), interval_ms)


def _matches(match: str, said: Mapping[str, str]) -> bool:
    try:
        patterns = parse_match(match)
    except InvalidConfigError:  # Kafka wrote it, in a dialect of patterns that Python does not read: it asks nobody
        return False
    return all(pattern.fullmatch(said[what]) for what, pattern in patterns.items())
