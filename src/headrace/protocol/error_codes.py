"""Kafka's error codes: the number on the wire, whether to try again, and what it means for people."""

from enum import IntEnum
from typing import Self


class _Described(int):
    """A code on its way into the enumeration, with what is known of it."""

    retriable: bool
    meaning: str


def _final(code: int, meaning: str) -> int:
    described = _Described(code)
    described.retriable = False
    described.meaning = meaning
    return described


def _retriable(code: int, meaning: str) -> int:
    described = _Described(code)
    described.retriable = True
    described.meaning = meaning
    return described


class ErrorCode(IntEnum):
    """An error code of a response; a client may repeat a `retriable` request, with new metadata where that helps."""

    retriable: bool
    meaning: str

    def __new__(cls, code: int) -> Self:
        assert isinstance(code, _Described)
        self = int.__new__(cls, code)
        self._value_ = int(code)
        self.retriable = code.retriable
        self.meaning = code.meaning
        return self

    UNKNOWN_SERVER_ERROR = _final(-1, "The broker failed in a way it has no code for; its log says more.")
    NONE = _final(0, "No error.")
    OFFSET_OUT_OF_RANGE = _final(1, "The log does not hold this offset: it was deleted, or is not written yet.")
    CORRUPT_MESSAGE = _retriable(
        2, "A batch fails its CRC or its own lengths, or a compacted topic got a record without a key."
    )
    UNKNOWN_TOPIC_OR_PARTITION = _retriable(3, "This broker knows no such topic or partition.")
    INVALID_FETCH_SIZE = _final(4, "The fetch asks for an impossible number of bytes.")
    LEADER_NOT_AVAILABLE = _retriable(5, "The partition has no leader at the moment.")
    NOT_LEADER_OR_FOLLOWER = _retriable(
        6, "This broker is not the partition's leader, or holds no replica of it; ask for metadata."
    )
    REQUEST_TIMED_OUT = _retriable(7, "The request was not done within its time limit; it may still take effect.")
    BROKER_NOT_AVAILABLE = _final(8, "The broker that is needed is not running.")
    REPLICA_NOT_AVAILABLE = _retriable(9, "The replica that is needed is not on this broker.")
    MESSAGE_TOO_LARGE = _final(10, "A batch is larger than max.message.bytes of its topic.")
    STALE_CONTROLLER_EPOCH = _final(11, "The request comes from a controller that has been replaced.")
    OFFSET_METADATA_TOO_LARGE = _final(
        12, "The text beside a committed offset is longer than offset.metadata.max.bytes."
    )
    NETWORK_EXCEPTION = _retriable(13, "The connection ended before the answer came.")
    COORDINATOR_LOAD_IN_PROGRESS = _retriable(14, "The coordinator is still reading its log.")
    COORDINATOR_NOT_AVAILABLE = _retriable(15, "There is no coordinator for this group or transaction at the moment.")
    NOT_COORDINATOR = _retriable(16, "Another broker coordinates this group or transaction; look it up again.")
    INVALID_TOPIC_EXCEPTION = _final(
        17, "The name of the topic is not allowed, or this use of an internal topic is not."
    )
    RECORD_LIST_TOO_LARGE = _final(18, "A batch is larger than a segment may be.")
    NOT_ENOUGH_REPLICAS = _retriable(
        19, "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = _retriable(
        20, "Written, but fewer replicas have it than min.insync.replicas asks for."
    )
    INVALID_REQUIRED_ACKS = _final(21, "acks must be 0, 1 or all (-1).")
    ILLEGAL_GENERATION = _final(22, "The group has moved on to another generation; join again.")
    INCONSISTENT_GROUP_PROTOCOL = _final(
        23, "The member shares no assignment strategy, or no type of protocol, with the group."
    )
    INVALID_GROUP_ID = _final(24, "The name of the group is empty or not allowed.")
    UNKNOWN_MEMBER_ID = _final(25, "The group has no such member, or has removed it; join again.")
    INVALID_SESSION_TIMEOUT = _final(26, "session.timeout.ms is outside of what the broker allows.")
    REBALANCE_IN_PROGRESS = _final(27, "The group is assigning its partitions anew; join again.")
    INVALID_COMMIT_OFFSET_SIZE = _final(28, "The committed offset does not fit into a record of the offsets topic.")
    TOPIC_AUTHORIZATION_FAILED = _final(29, "This user may not do this with this topic.")
    GROUP_AUTHORIZATION_FAILED = _final(30, "This user may not do this with this group.")
    CLUSTER_AUTHORIZATION_FAILED = _final(31, "This user may not do this with the cluster.")
    INVALID_TIMESTAMP = _final(32, "A record's timestamp is too far from the broker's clock for this topic.")
    UNSUPPORTED_SASL_MECHANISM = _final(33, "This listener does not offer that SASL mechanism.")
    ILLEGAL_SASL_STATE = _final(34, "The request does not fit into the authentication as it stands.")
    UNSUPPORTED_VERSION = _final(35, "The broker does not speak this version of the request.")
    TOPIC_ALREADY_EXISTS = _final(36, "There is a topic of this name.")
    INVALID_PARTITIONS = _final(37, "The number of partitions is not allowed.")
    INVALID_REPLICATION_FACTOR = _final(38, "The number of replicas is below 1, or above the number of brokers.")
    INVALID_REPLICA_ASSIGNMENT = _final(
        39, "The brokers named for the replicas do not exist, repeat, or differ in number."
    )
    INVALID_CONFIG = _final(40, "A setting has an unknown name or a value that is not allowed.")
    NOT_CONTROLLER = _retriable(41, "Another node is the controller.")
    INVALID_REQUEST = _final(42, "The request contradicts itself; the broker's log says how.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = _final(43, "The topic's record format is too old for this request.")
    POLICY_VIOLATION = _final(44, "The cluster's own policy forbids this.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = _final(45, "Batches of this producer are missing before this one.")
    DUPLICATE_SEQUENCE_NUMBER = _final(46, "The batch was written before, too long ago for its offset to be known.")
    INVALID_PRODUCER_EPOCH = _final(47, "A newer instance of this producer has taken over.")
    INVALID_TXN_STATE = _final(48, "The transaction is not in a state that allows this.")
    INVALID_PRODUCER_ID_MAPPING = _final(49, "The transactional id belongs to another producer id.")
    INVALID_TRANSACTION_TIMEOUT = _final(
        50, "transaction.timeout.ms is above transaction.max.timeout.ms of the broker."
    )
    CONCURRENT_TRANSACTIONS = _retriable(51, "The producer's previous transaction is still being completed.")
    TRANSACTION_COORDINATOR_FENCED = _final(
        52, "The marker comes from a transaction coordinator that has been replaced."
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = _final(53, "This user may not use this transactional id.")
    SECURITY_DISABLED = _final(54, "The cluster has no authorizer.")
    OPERATION_NOT_ATTEMPTED = _final(55, "Not tried, since another part of the same request failed.")
    KAFKA_STORAGE_ERROR = _retriable(56, "The disk failed under this partition; its log directory is offline.")
    LOG_DIR_NOT_FOUND = _final(57, "The broker has no such log directory.")
    SASL_AUTHENTICATION_FAILED = _final(58, "The name or the secret is wrong.")
    UNKNOWN_PRODUCER_ID = _final(59, "The partition knows nothing of this producer any more.")
    REASSIGNMENT_IN_PROGRESS = _final(60, "The partition is being moved to other brokers.")
    DELEGATION_TOKEN_AUTH_DISABLED = _final(61, "Delegation tokens are not switched on.")
    DELEGATION_TOKEN_NOT_FOUND = _final(62, "The broker knows no such delegation token.")
    DELEGATION_TOKEN_OWNER_MISMATCH = _final(63, "The delegation token belongs to another user.")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = _final(
        64, "Delegation tokens are dealt with only over an authenticated connection."
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = _final(65, "This user may not do this with this delegation token.")
    DELEGATION_TOKEN_EXPIRED = _final(66, "The delegation token has expired.")
    INVALID_PRINCIPAL_TYPE = _final(67, "Principals of this type are not supported.")
    NON_EMPTY_GROUP = _final(68, "The group has members.")
    GROUP_ID_NOT_FOUND = _final(69, "There is no such group.")
    FETCH_SESSION_ID_NOT_FOUND = _retriable(70, "The broker has dropped this fetch session; fetch in full once.")
    INVALID_FETCH_SESSION_EPOCH = _retriable(71, "A fetch of this session was lost or repeated; fetch in full once.")
    LISTENER_NOT_FOUND = _retriable(72, "The leader has no listener of the name that was used for this request.")
    TOPIC_DELETION_DISABLED = _final(73, "delete.topic.enable is false.")
    FENCED_LEADER_EPOCH = _retriable(74, "The client's leader epoch is older than the broker's; ask for metadata.")
    UNKNOWN_LEADER_EPOCH = _retriable(75, "The client's leader epoch is newer than the broker's.")
    UNSUPPORTED_COMPRESSION_TYPE = _final(
        76, "The client's version of the request does not know the compression in use."
    )
    STALE_BROKER_EPOCH = _final(77, "The broker has been registered anew since.")
    OFFSET_NOT_AVAILABLE = _retriable(78, "A new leader does not know yet how far its followers are.")
    MEMBER_ID_REQUIRED = _final(79, "Join again, with the member id of this answer.")
    PREFERRED_LEADER_NOT_AVAILABLE = _retriable(80, "The first replica is not in sync, so it cannot lead.")
    GROUP_MAX_SIZE_REACHED = _final(81, "The group has as many members as it may have.")
    FENCED_INSTANCE_ID = _final(82, "Another member has taken this group.instance.id.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = _retriable(83, "No replica that may lead is running.")
    ELECTION_NOT_NEEDED = _retriable(84, "The partition has the leader that was asked for.")
    NO_REASSIGNMENT_IN_PROGRESS = _final(85, "The partition is not being moved.")
    GROUP_SUBSCRIBED_TO_TOPIC = _final(86, "A member of the group reads this topic; its offsets cannot be deleted.")
    INVALID_RECORD = _final(87, "A record breaks a rule of its topic; the batch was refused.")
    UNSTABLE_OFFSET_COMMIT = _retriable(88, "A transaction over these offsets is still open.")
    THROTTLING_QUOTA_EXCEEDED = _retriable(89, "The quota is used up for now.")
    PRODUCER_FENCED = _final(90, "A newer producer uses the same transactional id.")
    RESOURCE_NOT_FOUND = _final(91, "What the request refers to does not exist.")
    DUPLICATE_RESOURCE = _final(92, "The request names the same thing twice.")
    UNACCEPTABLE_CREDENTIAL = _final(
        93, "The credential breaks a rule: an empty name, or too few or too many iterations."
    )
    INCONSISTENT_VOTER_SET = _final(94, "Sender and receiver disagree on who votes in the quorum.")
    INVALID_UPDATE_VERSION = _final(95, "The update is based on a version that is no longer the latest.")
    FEATURE_UPDATE_FAILED = _final(96, "The level of the feature could not be changed.")
    PRINCIPAL_DESERIALIZATION_FAILURE = _final(97, "The user inside a forwarded request could not be read.")
    SNAPSHOT_NOT_FOUND = _final(98, "There is no such snapshot.")
    POSITION_OUT_OF_RANGE = _final(99, "The position is not inside the snapshot.")
    UNKNOWN_TOPIC_ID = _retriable(100, "This broker knows no topic with this id.")
    DUPLICATE_BROKER_REGISTRATION = _final(101, "A running broker has this id.")
    BROKER_ID_NOT_REGISTERED = _final(102, "No broker with this id is registered.")
    INCONSISTENT_TOPIC_ID = _retriable(
        103, "The topic's id is not the one of the request: it was deleted and made anew."
    )
    INCONSISTENT_CLUSTER_ID = _final(104, "The sender belongs to another cluster.")
    TRANSACTIONAL_ID_NOT_FOUND = _final(105, "The coordinator knows no such transactional id.")
    FETCH_SESSION_TOPIC_ID_ERROR = _retriable(106, "The fetch session mixes topic names and topic ids.")
    INELIGIBLE_REPLICA = _final(107, "The broker of a new in-sync replica is fenced or shutting down.")
    NEW_LEADER_ELECTED = _final(108, "The change is made, and it moved the leadership elsewhere.")
    OFFSET_MOVED_TO_TIERED_STORAGE = _final(
        109, "The offset is no longer on the leader's disk, only in tiered storage."
    )
    FENCED_MEMBER_EPOCH = _final(110, "The group has fenced this member; join again with epoch 0.")
    UNRELEASED_INSTANCE_ID = _final(111, "Another member of the group still holds this group.instance.id.")
    UNSUPPORTED_ASSIGNOR = _final(112, "The group cannot use this assignor.")
    STALE_MEMBER_EPOCH = _final(113, "The member's epoch is behind the group's; heartbeat first.")
    MISMATCHED_ENDPOINT_TYPE = _final(114, "The request went to a broker and is for controllers, or the reverse.")
    UNSUPPORTED_ENDPOINT_TYPE = _final(115, "This kind of endpoint cannot be described.")
    UNKNOWN_CONTROLLER_ID = _final(116, "No controller with this id is known.")
    UNKNOWN_SUBSCRIPTION_ID = _final(117, "The client's metrics subscription is out of date.")
    TELEMETRY_TOO_LARGE = _final(118, "The client sent more metrics at once than the broker accepts.")
    INVALID_REGISTRATION = _final(119, "The controller refuses the broker's registration.")
    TRANSACTION_ABORTABLE = _final(120, "The transaction cannot be committed; abort it and start another.")
    INVALID_RECORD_STATE = _final(121, "The record is not in a state that this acknowledgement fits.")
    SHARE_SESSION_NOT_FOUND = _retriable(122, "The broker has dropped this share session; open another.")
    INVALID_SHARE_SESSION_EPOCH = _retriable(123, "A request of this share session was lost or repeated; open another.")
    FENCED_STATE_EPOCH = _final(124, "The state of the share group has moved on to a newer epoch.")
    INVALID_VOTER_KEY = _final(125, "The voter's key is not the one of the node that received the request.")
    DUPLICATE_VOTER = _final(126, "The node votes already.")
    VOTER_NOT_FOUND = _final(127, "The node is not a voter.")
    INVALID_REGULAR_EXPRESSION = _final(128, "The regular expression cannot be read.")
    REBOOTSTRAP_REQUIRED = _final(129, "Forget all metadata and begin again at the bootstrap addresses.")
    STREAMS_INVALID_TOPOLOGY = _final(130, "The topology that the streams application sent contradicts itself.")
    STREAMS_INVALID_TOPOLOGY_EPOCH = _final(131, "The epoch of the topology is not allowed.")
    STREAMS_TOPOLOGY_FENCED = _final(132, "The group runs a newer topology than this member.")
    SHARE_SESSION_LIMIT_REACHED = _retriable(133, "The broker has as many share sessions as it may have.")
