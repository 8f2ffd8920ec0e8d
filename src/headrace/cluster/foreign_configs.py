"""Broker configs of Apache Kafka that Headrace does not have, so that a file written for Kafka is understood.

`WITHOUT_EFFECT` may stay in the file: Headrace has nothing to tune there, and says so once at the start.
`REFUSED` may not, unless with Kafka's default: who sets one relies on something that would silently be missing.
"""

from collections.abc import Mapping
from typing import Final

_THREADS: Final = "a Headrace broker runs one event loop; start more brokers to use more cores"
_PURGATORY: Final = "waiting requests are woken one by one and leave nothing to purge"
_JMX: Final = "metrics are served to Prometheus, not to Java reporters"
_KERBEROS: Final = "Kerberos is not part of Headrace"
_REMOTE: Final = "remote storage is not part of Headrace"
_JAVA_TLS: Final = "TLS is OpenSSL's, which has no such choice"
_OAUTH_CLIENT: Final = "nodes do not log in with OAuth; they only check the tokens of clients"
_JAVA_CLASS: Final = "it names a Java class, and Headrace cannot run one"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "background.threads",
            "group.coordinator.background.threads",
            "group.coordinator.threads",
            "log.cleaner.threads",
            "num.io.threads",
            "num.network.threads",
            "num.recovery.threads.per.data.dir",
            "num.replica.alter.log.dirs.threads",
            "share.coordinator.threads",
        ),
        _THREADS,
    ),
    **dict.fromkeys(
        (
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
            "share.fetch.purgatory.purge.interval.requests",
        ),
        _PURGATORY,
    ),
    **dict.fromkeys(
        (
            "kafka.metrics.polling.interval.secs",
            "kafka.metrics.reporters",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
        ),
        _JMX,
    ),
    **dict.fromkeys(
        (
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.principal.to.local.rules",
            "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
        ),
        _KERBEROS,
    ),
    **dict.fromkeys(
        (
            "follower.fetch.last.tiered.offset.enable",
            "remote.fetch.max.wait.ms",
            "remote.list.offsets.request.timeout.ms",
            "remote.log.index.file.cache.total.size.bytes",
            "remote.log.index.file.cache.ttl.ms",
            "remote.log.manager.copier.thread.pool.size",
            "remote.log.manager.copy.max.bytes.per.second",
            "remote.log.manager.copy.quota.window.num",
            "remote.log.manager.copy.quota.window.size.seconds",
            "remote.log.manager.expiration.thread.pool.size",
            "remote.log.manager.fetch.max.bytes.per.second",
            "remote.log.manager.fetch.quota.window.num",
            "remote.log.manager.fetch.quota.window.size.seconds",
            "remote.log.manager.follower.thread.pool.size",
            "remote.log.manager.task.interval.ms",
            "remote.log.manager.task.retry.backoff.max.ms",
            "remote.log.manager.task.retry.backoff.ms",
            "remote.log.manager.task.retry.jitter",
            "remote.log.manager.thread.pool.size",
            "remote.log.metadata.custom.metadata.max.bytes",
            "remote.log.metadata.manager.class.name",
            "remote.log.metadata.manager.class.path",
            "remote.log.metadata.manager.impl.prefix",
            "remote.log.metadata.manager.listener.name",
            "remote.log.reader.max.pending.tasks",
            "remote.log.reader.threads",
            "remote.log.storage.manager.class.name",
            "remote.log.storage.manager.class.path",
            "remote.log.storage.manager.impl.prefix",
        ),
        _REMOTE,
    ),
    **dict.fromkeys(
        (
            "ssl.keymanager.algorithm",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
        ),
        _JAVA_TLS,
    ),
    **dict.fromkeys(
        (
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
            "sasl.login.retry.backoff.max.ms",
            "sasl.login.retry.backoff.ms",
            "sasl.oauthbearer.assertion.algorithm",
            "sasl.oauthbearer.assertion.claim.aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds",
            "sasl.oauthbearer.assertion.claim.iss",
            "sasl.oauthbearer.assertion.claim.jti.include",
            "sasl.oauthbearer.assertion.claim.nbf.seconds",
            "sasl.oauthbearer.assertion.claim.sub",
            "sasl.oauthbearer.assertion.file",
            "sasl.oauthbearer.assertion.private.key.file",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.template.file",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.token.endpoint.url",
        ),
        _OAUTH_CLIENT,
    ),
    "controller.performance.always.log.threshold.ms": "Headrace's controller keeps no such log",
    "controller.performance.sample.period.ms": "Headrace's controller keeps no such log",
    "server.max.startup.time.ms": "the start of a Headrace broker has no such limit",
    "unclean.leader.election.interval.ms": "the controller acts when something changes, not at intervals",
}

REFUSED: Final[Mapping[str, tuple[str, str]]] = {  # name -> Kafka's default, and why nothing else is taken
    "alter.config.policy.class.name": ("", _JAVA_CLASS),
    "client.quota.callback.class": ("", _JAVA_CLASS),
    "config.providers": ("", _JAVA_CLASS),
    "create.topic.policy.class.name": ("", _JAVA_CLASS),
    "group.share.persister.class.name": ("org.apache.kafka.server.share.persister.DefaultStatePersister", _JAVA_CLASS),
    "principal.builder.class": (
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        _JAVA_CLASS,
    ),
    "remote.log.storage.system.enable": ("false", _REMOTE),
    "sasl.client.callback.handler.class": ("", _JAVA_CLASS),
    "sasl.login.callback.handler.class": ("", _JAVA_CLASS),
    "sasl.login.class": ("", _JAVA_CLASS),
    "sasl.oauthbearer.jwt.retriever.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        _JAVA_CLASS,
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        _JAVA_CLASS,
    ),
    "sasl.server.callback.handler.class": ("", _JAVA_CLASS),
    "security.providers": ("", _JAVA_CLASS),
    "ssl.engine.factory.class": ("", _JAVA_CLASS),
    "unstable.api.versions.enable": ("false", "Headrace serves no unfinished versions"),
    "unstable.feature.versions.enable": ("false", "Headrace serves no unfinished versions"),
}
