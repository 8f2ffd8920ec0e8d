"""The cluster at one moment: an immutable value that a request takes once and uses to its end.

An image is what the metadata log says up to some offset. It is never changed: `apply` returns another image that
shares everything that the records did not touch. So a reader needs no lock, the committed and the newest state can
be held side by side for nothing, and giving up uncommitted records means to go back to an older value.

The mappings are plain dictionaries; the types forbid writing to them. Topics are kept by id, and `topic_ids` leads
from a name to the id, so that a changed partition copies one dictionary. Copying 10,000 entries costs 0.1 ms, far
less than the disk write that made the change durable; a tree that shares more would cost every look-up.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from headrace.cluster.features import ELR_VERSION, METADATA_VERSION
from headrace.cluster.metadata_records import MetadataRecord

NO_LEADER: Final = -1

# Directory ids with a meaning of their own; real ones are random and never among the first hundred.
MIGRATING_DIRECTORY: Final = bytes(16)
UNASSIGNED_DIRECTORY: Final = (1).to_bytes(16, "big")
LOST_DIRECTORY: Final = (2).to_bytes(16, "big")
_FIRST_FREE_DIRECTORY: Final = (100).to_bytes(16, "big")


def is_reserved_directory(directory: bytes) -> bool:
    """Whether no directory on a disk may carry this id."""
    return directory < _FIRST_FREE_DIRECTORY


class Endpoint(NamedTuple):
    """Where a node is reached; `security_protocol` is 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureSupport(NamedTuple):
    """The levels of a feature at which a node can work, both ends inclusive."""

    name: str
    lowest: int
    highest: int


class Broker(NamedTuple):
    """A registered broker. A fenced one has no session: it leads nothing and is in no ISR that matters."""

    broker_id: int
    epoch: int  # the offset of the record that registered it: a broker that registers again gets a higher one
    incarnation_id: bytes
    listeners: tuple[Endpoint, ...]
    features: tuple[FeatureSupport, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    cordoned_log_dirs: tuple[bytes, ...] | None  # gets no new replicas; None: never said
    is_migrating_zk_broker: bool

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions and join an ISR."""
        return not (self.fenced or self.in_controlled_shutdown)

    def has_online_directory(self, directory: bytes) -> bool:
        """Whether a replica in this directory can be served, as far as the controller knows."""
        if directory == LOST_DIRECTORY:
            return False
        # Without any directory the registration is from before 3.7-IV2, when they were not told.
        return is_reserved_directory(directory) or not self.log_dirs or directory in self.log_dirs

    def default_directory(self) -> bytes:
        """Where a new replica goes when nobody chose: the only directory, or one that the broker chooses later."""
        if not self.log_dirs:
            return MIGRATING_DIRECTORY
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIRECTORY

    def takes_new_replicas(self) -> bool:
        """Whether placement may choose it: not on its way out, and a directory is left that is not cordoned."""
        open_dirs = set(self.log_dirs) - set(self.cordoned_log_dirs or ())
        return not self.in_controlled_shutdown and (bool(open_dirs) or not self.log_dirs)


class ControllerNode(NamedTuple):
    """A registered controller."""

    controller_id: int
    incarnation_id: bytes
    listeners: tuple[Endpoint, ...]
    features: tuple[FeatureSupport, ...]
    zk_migration_ready: bool


class Partition(NamedTuple):
    """Who holds a partition and who leads it.

    Either it has a leader, which is in the ISR, or `leader` is NO_LEADER. Epochs only grow: `leader_epoch` with every
    election, also one that the old leader wins; `partition_epoch` with every change.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]  # one per replica, in the same order
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    # KIP-966: left the ISR while it was below min.insync.replicas, so they still hold all that was committed.
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()  # the last leader, once ISR and ELR are both empty
    recovering: bool = False  # elected uncleanly, and has not yet said that its log is in order again

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, replica: int) -> bytes:
        return self.directories[self.replicas.index(replica)]


class Topic(NamedTuple):
    """A topic; its partitions are numbered from 0 without gaps."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, Partition]


class ConfigKind(IntEnum):
    """What a config belongs to, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """What a config belongs to; a broker's name is its id in decimals, or empty for the default of all brokers."""

    kind: int
    name: str


CLUSTER_DEFAULT: Final = ConfigResource(ConfigKind.BROKER, "")

# What a quota is for: (type, name) in order of type; types are user, client-id and ip, None is the default of a type.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


class ScramCredential(NamedTuple):
    """What a server keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class Acl(NamedTuple):
    """One access rule, with Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DelegationToken(NamedTuple):
    """A delegation token without its secret, which every broker computes from the cluster's master key."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int


class Image(NamedTuple):
    """All metadata of the cluster; see the head of this module."""

    features: Mapping[str, int]  # finalized levels, metadata.version among them; a feature that is off is absent
    brokers: Mapping[int, Broker]
    controllers: Mapping[int, ControllerNode]
    topics: Mapping[bytes, Topic]
    topic_ids: Mapping[str, bytes]  # has exactly the names of `topics`
    configs: Mapping[ConfigResource, Mapping[str, str]]  # no resource without a config
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]]  # no entity without a quota
    next_producer_id: int
    scram_credentials: Mapping[tuple[str, int], ScramCredential]  # by user and mechanism: 1 SHA-256, 2 SHA-512
    acls: Mapping[bytes, Acl]
    delegation_tokens: Mapping[str, DelegationToken]

    @property
    def metadata_version(self) -> int:
        """The finalized metadata.version. A cluster has one from its first record on."""
        return self.features[METADATA_VERSION]

    @property
    def elr_enabled(self) -> bool:
        return self.features.get(ELR_VERSION, 0) > 0

    def topic(self, name: str) -> Topic | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """The configs that were set on a resource."""
        return self.configs.get(resource, {})

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, has a session and is not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def apply(self, records: Iterable[MetadataRecord]) -> "Image":
        """The image after these records. Raises ReplayError if one contradicts what the records before it say."""
        from headrace.cluster.delta import Delta

        delta = Delta(self)
        for record in records:
            delta.replay(record)
        return delta.finish()


EMPTY_IMAGE: Final = Image({}, {}, {}, {}, {}, {}, {}, 0, {}, {}, {})
