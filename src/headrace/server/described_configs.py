"""The configs of a resource as DescribeConfigs tells them: each with its value, and all places that have one."""

from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple

from headrace.cluster.config_resolution import (
    ConfigSource,
    ResolvedConfig,
    resolve_broker_config,
    resolve_client_metrics_config,
    resolve_group_config,
    resolve_topic_config,
)
from headrace.cluster.configs import BROKER_CONFIGS, CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS, ConfigTable
from headrace.cluster.decision import ControllerSettings
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource, Image
from headrace.cluster.topic_names import find_name_fault
from headrace.protocol.error_codes import ErrorCode
from headrace.server.node_configs import layers


class UndescribedError(Exception):
    """Why the configs of a resource cannot be told: Kafka's code, and a sentence for the one who asked."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Listing(NamedTuple):
    """The names of all configs of a resource, and how to find what one of them is."""

    names: Iterable[str]
    resolve: Callable[[str], ResolvedConfig]


def describe(
    resource: ConfigResource, names: Container[str] | None, image: Image, settings: ControllerSettings
) -> list[ResolvedConfig]:
    """The configs with these names, or all; secrets are blank. Raises UndescribedError."""
    listing = _LISTINGS[resource.kind](resource, image, settings)
    return [listing.resolve(name).redacted() for name in listing.names if names is None or name in names]


def check_own_node(name: str, settings: ControllerSettings) -> None:
    """Each broker answers for itself. Raises UndescribedError."""
    if name != str(settings.node_id):
        raise UndescribedError(
            ErrorCode.INVALID_REQUEST, f"this is broker {settings.node_id}, which knows nothing of broker {name!r}"
        )


def _topic(resource: ConfigResource, image: Image, settings: ControllerSettings) -> _Listing:
    if fault := find_name_fault(resource.name):
        raise UndescribedError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if resource.name not in image.topic_ids:
        raise UndescribedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.name!r}")
    own, inherited = image.config(resource), layers(image, settings)
    return _Listing(_names(TOPIC_CONFIGS), lambda name: resolve_topic_config(name, own, *inherited))


def _broker(resource: ConfigResource, image: Image, settings: ControllerSettings) -> _Listing:
    if not resource.name:
        cluster = image.config(CLUSTER_DEFAULT)
        return _Listing(filter(BROKER_CONFIGS.find, cluster), lambda name: _only_cluster_wide(name, image))
    check_own_node(resource.name, settings)
    places = layers(image, settings)
    # Of variants, such as those for one listener, only those that somebody set can be named.
    variants = [name for layer in places for name in layer if name not in BROKER_CONFIGS and BROKER_CONFIGS.find(name)]
    return _Listing(
        [*_names(BROKER_CONFIGS), *dict.fromkeys(variants)], lambda name: resolve_broker_config(name, *places)
    )


def _only_cluster_wide(name: str, image: Image) -> ResolvedConfig:
    found = resolve_broker_config(name, {}, image.config(CLUSTER_DEFAULT), {})
    cluster_wide = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return found._replace(synonyms=[each for each in found.synonyms if each.source is cluster_wide])


def _group(resource: ConfigResource, image: Image, settings: ControllerSettings) -> _Listing:
    _check_named(resource)
    own, inherited = image.config(resource), layers(image, settings)
    return _Listing(_names(GROUP_CONFIGS), lambda name: resolve_group_config(name, own, *inherited))


def _client_metrics(resource: ConfigResource, image: Image, _: ControllerSettings) -> _Listing:
    _check_named(resource)
    own = image.config(resource)
    return _Listing(_names(CLIENT_METRICS_CONFIGS), lambda name: resolve_client_metrics_config(name, own))


def _check_named(resource: ConfigResource) -> None:
    if not resource.name:
        raise UndescribedError(
            ErrorCode.INVALID_REQUEST, "the name of the resource is empty, and there is no default one"
        )


def _names(table: ConfigTable) -> list[str]:
    return [name for name, key in table.items() if not key.is_internal]


_LISTINGS: Final[dict[int, Callable[[ConfigResource, Image, ControllerSettings], _Listing]]] = {
    ConfigKind.TOPIC: _topic,
    ConfigKind.BROKER: _broker,
    ConfigKind.GROUP: _group,
    ConfigKind.CLIENT_METRICS: _client_metrics,
}
