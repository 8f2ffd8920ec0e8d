"""Configs that are declared and may be set, but move nothing yet, each with the reason.

They are declared so that files written for Kafka are checked, and tools find what they expect. Whoever sets one at the
start is told that it has no effect, and so is who asks for its documentation. A test compares this list with what the
code reads, so a name goes out of it when it begins to work.
"""

from collections.abc import Mapping
from typing import Final

from headrace.cluster.config_types import ConfigKey

_REPLICATION: Final = "there is one broker, and nothing is replicated"
_QUORUM: Final = "the quorum has one voter, which waits for nobody"
_METADATA: Final = "the metadata log is kept by its snapshots alone"
_SECURITY: Final = "TLS, SASL, access rules and delegation tokens are not served"
_SHARE: Final = "share groups are not served"
_STREAMS: Final = "streams groups are not served"
_REMOTE: Final = "remote storage is not part of Headrace"
_PREALLOCATED: Final = "files grow as they are written"
_QUEUE: Final = "requests are served as they arrive, and nothing queues them"
_COORDINATOR: Final = "coordinators write when they decide, and read their logs in slices of their own size"
_CLEANER: Final = "compaction reads in small slices, and counts keys exactly"

UNSERVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "alter.log.dirs.replication.quota.window.num",
            "alter.log.dirs.replication.quota.window.size.seconds",
            "auto.leader.rebalance.enable",
            "early.start.listeners",
            "follower.replication.throttled.rate",
            "follower.replication.throttled.replicas",
            "inter.broker.listener.name",
            "leader.imbalance.check.interval.seconds",
            "leader.replication.throttled.rate",
            "leader.replication.throttled.replicas",
            "log.dir.failure.timeout.ms",
            "num.replica.fetchers",
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "replica.fetch.backoff.ms",
            "replica.fetch.max.bytes",
            "replica.fetch.min.bytes",
            "replica.fetch.response.max.bytes",
            "replica.fetch.wait.max.ms",
            "replica.lag.time.max.ms",
            "replica.selector.class",
            "replica.socket.receive.buffer.bytes",
            "replica.socket.timeout.ms",
            "replication.quota.window.num",
            "replication.quota.window.size.seconds",
            "security.inter.broker.protocol",
        ),
        _REPLICATION,
    ),
    **dict.fromkeys(
        (
            "controlled.shutdown.enable",
            "controller.quorum.append.linger.ms",
            "controller.quorum.auto.join.enable",
            "controller.quorum.election.backoff.max.ms",
            "controller.quorum.election.timeout.ms",
            "controller.quorum.fetch.max.bytes",
            "controller.quorum.fetch.snapshot.max.bytes",
            "controller.quorum.fetch.timeout.ms",
            "controller.quorum.request.timeout.ms",
            "controller.quorum.retry.backoff.ms",
            "controller.socket.timeout.ms",
            "initial.broker.registration.timeout.ms",
            "metadata.max.idle.interval.ms",
        ),
        _QUORUM,
    ),
    **dict.fromkeys(
        (
            "internal.metadata.delete.delay.millis",
            "internal.metadata.log.segment.bytes",
            "internal.metadata.max.batch.size.in.bytes",
            "metadata.log.dir",
            "metadata.max.retention.bytes",
            "metadata.max.retention.ms",
        ),
        _METADATA,
    ),
    **dict.fromkeys(
        (
            "allow.everyone.if.no.acl.found",
            "connection.failed.authentication.delay.ms",
            "connections.max.reauth.ms",
            "delegation.token.expiry.check.interval.ms",
            "delegation.token.expiry.time.ms",
            "delegation.token.max.lifetime.ms",
            "delegation.token.secret.key",
            "sasl.enabled.mechanisms",
            "sasl.mechanism.controller.protocol",
            "sasl.mechanism.inter.broker.protocol",
            "sasl.server.max.receive.size",
            "ssl.allow.dn.changes",
            "ssl.allow.san.changes",
            "ssl.client.auth",
            "ssl.principal.mapping.rules",
            "super.users",
        ),
        _SECURITY,
    ),
    **dict.fromkeys(
        (
            "group.share.assignment.interval.ms",
            "group.share.assignors",
            "group.share.delivery.count.limit",
            "group.share.heartbeat.interval.ms",
            "group.share.initialize.retry.interval.ms",
            "group.share.max.share.sessions",
            "group.share.max.size",
            "group.share.partition.max.record.locks",
            "group.share.record.lock.duration.ms",
            "group.share.session.timeout.ms",
            "share.assignment.interval.ms",
            "share.auto.offset.reset",
            "share.coordinator.append.linger.ms",
            "share.coordinator.cached.buffer.max.bytes",
            "share.coordinator.cold.partition.snapshot.interval.ms",
            "share.coordinator.load.buffer.size",
            "share.coordinator.snapshot.update.records.per.snapshot",
            "share.coordinator.state.topic.compression.codec",
            "share.coordinator.state.topic.prune.interval.ms",
            "share.coordinator.write.timeout.ms",
            "share.delivery.count.limit",
            "share.heartbeat.interval.ms",
            "share.isolation.level",
            "share.partition.max.record.locks",
            "share.record.lock.duration.ms",
            "share.renew.acknowledge.enable",
            "share.session.timeout.ms",
        ),
        _SHARE,
    ),
    **dict.fromkeys(
        (
            "group.streams.assignment.interval.ms",
            "group.streams.heartbeat.interval.ms",
            "group.streams.initial.rebalance.delay.ms",
            "group.streams.max.size",
            "group.streams.max.standby.replicas",
            "group.streams.num.standby.replicas",
            "group.streams.session.timeout.ms",
            "streams.assignment.interval.ms",
            "streams.heartbeat.interval.ms",
            "streams.initial.rebalance.delay.ms",
            "streams.num.standby.replicas",
            "streams.session.timeout.ms",
        ),
        _STREAMS,
    ),
    **dict.fromkeys(
        (
            "local.retention.bytes",
            "local.retention.ms",
            "log.local.retention.bytes",
            "log.local.retention.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        ),
        _REMOTE,
    ),
    "log.preallocate": _PREALLOCATED,
    "preallocate": _PREALLOCATED,
    "queued.max.request.bytes": _QUEUE,
    "queued.max.requests": _QUEUE,
    **dict.fromkeys(
        (
            "add.partitions.to.txn.retry.backoff.max.ms",
            "add.partitions.to.txn.retry.backoff.ms",
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "offsets.commit.timeout.ms",
            "offsets.load.buffer.size",
            "offsets.topic.compression.codec",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "transaction.state.log.load.buffer.size",
        ),
        _COORDINATOR,
    ),
    "log.cleaner.io.buffer.load.factor": _CLEANER,
    "log.cleaner.io.buffer.size": _CLEANER,
    "log.initial.task.delay.ms": "background work begins with the broker, and yields to requests",
}


def documentation_of(key: ConfigKey) -> str:
    """What it is for, and whether it works."""
    reason = UNSERVED.get(key.name)
    return key.doc if reason is None else f"{key.doc} It has no effect: {reason}."
