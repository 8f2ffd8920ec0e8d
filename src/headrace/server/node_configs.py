"""The configs of this node as they hold now: what was set while it runs, above its file, above the defaults."""

from collections.abc import Mapping
from typing import Any

from headrace.cluster.config_resolution import resolve_broker_config
from headrace.cluster.decision import ControllerSettings
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource, Image

Layers = tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]


def layers(image: Image, settings: ControllerSettings) -> Layers:
    """What was set for this node, for all nodes, and in the file: from strong to weak."""
    node = ConfigResource(ConfigKind.BROKER, str(settings.node_id))
    return image.config(node), image.config(CLUSTER_DEFAULT), settings.static


def value_of(name: str, image: Image, settings: ControllerSettings) -> Any:
    """The value of one config, of the type that its declaration says."""
    found = resolve_broker_config(name, *layers(image, settings))
    return None if found.value is None else found.key.parse(found.value)
