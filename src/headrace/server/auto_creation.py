"""Topics that come into being because somebody asks for them: with the broker's defaults, or as coordinators need them.

Internal topics have their own numbers of partitions and replicas, and configs without which their coordinator would
lose what it wrote.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cluster.decision import ControllerSettings
from headrace.cluster.image import Image
from headrace.cluster.topics import UNSET, create_topics
from headrace.log.errors import StorageError
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.server.chance import chance
from headrace.server.later import Later
from headrace.server.node_configs import value_of

if TYPE_CHECKING:
    from headrace.server.context import Context


class _Internal(NamedTuple):
    """The configs of the broker that shape an internal topic, and what is fixed."""

    partitions: str
    replication_factor: str
    taken: Mapping[str, str]  # the topic's config, from the broker's
    fixed: Mapping[str, str]


_INTERNAL: Final[Mapping[str, _Internal]] = {
    "__consumer_offsets": _Internal(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {"segment.bytes": "offsets.topic.segment.bytes"},
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    "__transaction_state": _Internal(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {
            "min.insync.replicas": "transaction.state.log.min.isr",
            "segment.bytes": "transaction.state.log.segment.bytes",
        },
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
    "__share_group_state": _Internal(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {
            "min.insync.replicas": "share.coordinator.state.topic.min.isr",
            "segment.bytes": "share.coordinator.state.topic.segment.bytes",
        },
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}


def is_enabled(image: Image, settings: ControllerSettings) -> bool:
    return bool(value_of("auto.create.topics.enable", image, settings))


def create_internal(topic: str, broker: "Context") -> Later[Image]:
    """The image after the attempt: with the topic, unless the controller refuses it or the disk has no room."""
    controller = broker.controller
    wanted = creation_of([topic], controller.image, controller.settings)
    try:
        created = controller.submit(
            lambda image: create_topics(image, controller.settings, wanted, chance(broker.random))
        )
    except StorageError:
        unchanged: Later[Image] = Later()
        unchanged.resolve(controller.image)
        return unchanged
    return created.map(lambda _: controller.image)


def creation_of(names: Iterable[str], image: Image, settings: ControllerSettings) -> CreateTopicsRequest:
    """What to ask the controller for, so that these topics exist."""
    return CreateTopicsRequest(topics=[_creatable(name, image, settings) for name in names])


def _creatable(name: str, image: Image, settings: ControllerSettings) -> CreatableTopic:
    shape = _INTERNAL.get(name)
    if shape is None:
        return CreatableTopic(name, UNSET, UNSET)
    configs = {topic: str(value_of(broker, image, settings)) for topic, broker in shape.taken.items()}
    return CreatableTopic(
        name,
        num_partitions=value_of(shape.partitions, image, settings),
        replication_factor=value_of(shape.replication_factor, image, settings),
        configs=[CreatableTopicConfig(*item) for item in {**configs, **shape.fixed}.items()],
    )
