"""What a decision of the controller is: records to write, and the reply once they are committed.

A decision is a plain function. It reads the newest image, changes nothing, and returns the records that would make
the wish true together with the answer. Only replaying the records changes the image. What a client can cause is
never an exception for the caller: `RefusedError` stays inside this package, and every wish in a request is refused
or granted by itself.
"""

from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from headrace.cluster.config_resolution import resolve_topic_config
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource, Image, Topic
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.topic_configs import TOPIC_CONFIGS
from headrace.protocol.error_codes import ErrorCode

Reply = TypeVar("Reply")

# One batch of metadata records must be small enough for everybody to take in one piece, so one request may not cause
# more than this.
MAX_RECORDS_PER_REQUEST: Final = 10_000
TOO_MANY_RECORDS: Final = (
    f"one request makes at most {MAX_RECORDS_PER_REQUEST} records of metadata: ask for less at once"
)

# May this many partitions be created or deleted now, on the account of whoever asks (KIP-599)? Asking counts as doing.
MutationQuota: TypeAlias = Callable[[int], bool]


class Decision(NamedTuple, Generic[Reply]):
    """Records to append as one batch, and what to answer when they are committed."""

    records: tuple[MetadataRecord, ...]
    reply: Reply
    notice: str | None = None  # a reason for which the reply has no room: for the log of the controller


class RefusedError(Exception):
    """Why a wish is not granted: Kafka's code, and a sentence for the one who asked."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def no_quota(partitions: int) -> bool:
    """The quota of those who have none: anything goes."""
    return partitions >= 0


def check_quota(quota: MutationQuota, partitions: int) -> None:
    """Raises RefusedError if whoever asks has changed too many partitions lately."""
    if not quota(partitions):
        raise RefusedError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many partitions were created or deleted lately: try again later"
        )


def check_broker_epoch(image: Image, broker_id: int, broker_epoch: int) -> None:
    """Raises RefusedError unless this is the broker's current registration."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise RefusedError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise RefusedError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} asks with epoch {broker_epoch}, and is registered with {broker.epoch}",
        )


class ControllerSettings(NamedTuple):
    """What the controller's own file says, as far as decisions depend on it."""

    node_id: int
    cluster_id: str
    static: Mapping[str, str]  # broker configs as they were given
    default_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True


class TopicRules:
    """The topic configs on which elections depend, as they hold now; made for one decision, since they may change."""

    def __init__(self, image: Image, settings: ControllerSettings) -> None:
        self._image = image
        cluster = image.config(CLUSTER_DEFAULT)
        node = image.config(ConfigResource(ConfigKind.BROKER, str(settings.node_id)))
        self._defaults = {
            name: resolve_topic_config(name, {}, node, cluster, settings.static).value or ""
            for name in ("min.insync.replicas", "unclean.leader.election.enable")
        }

    def min_insync_replicas(self, topic: Topic) -> int:
        """At most the replication factor: a partition with all its replicas in sync is never below it."""
        wanted = int(self._value(topic, "min.insync.replicas"))
        return min(wanted, len(topic.partitions[0].replicas))

    def allows_unclean_election(self, topic: Topic) -> bool:
        return self._value(topic, "unclean.leader.election.enable") == "true"

    def _value(self, topic: Topic, name: str) -> str:
        own = self._image.config(ConfigResource(ConfigKind.TOPIC, topic.name)).get(name)
        return self._defaults[name] if own is None else str(TOPIC_CONFIGS[name].parse(own)).lower()
