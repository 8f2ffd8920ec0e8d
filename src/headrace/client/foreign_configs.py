"""Configs of Kafka's Java clients that this client does not have, so that a file written for them is understood.

They are accepted and change nothing; each says why. What would be missed if it were ignored is refused instead.
"""

from collections.abc import Mapping
from typing import Final

_JMX: Final = "metrics are not given to Java reporters"
_KERBEROS: Final = "Kerberos is not part of Headrace"
_JAVA_TLS: Final = "TLS is OpenSSL's, which has no such choice"
_JAVA_CLASS: Final = "it names a Java class, and Headrace cannot run one"
_VERIFIER: Final = "a client does not check tokens"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "metric.reporters": _JMX,
    "metrics.num.samples": _JMX,
    "metrics.recording.level": _JMX,
    "metrics.sample.window.ms": _JMX,
    "enable.metrics.push": "this client does not push metrics to brokers",
    "sasl.kerberos.kinit.cmd": _KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "sasl.kerberos.service.name": _KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _KERBEROS,
    "sasl.oauthbearer.clock.skew.seconds": _VERIFIER,
    "sasl.oauthbearer.expected.audience": _VERIFIER,
    "sasl.oauthbearer.expected.issuer": _VERIFIER,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _VERIFIER,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _VERIFIER,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _VERIFIER,
    "sasl.oauthbearer.jwks.endpoint.url": _VERIFIER,
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.provider": _JAVA_TLS,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
    "security.providers": _JAVA_TLS,
}

REFUSED: Final[Mapping[str, str]] = {
    "config.providers": _JAVA_CLASS,
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CLASS,
    "sasl.oauthbearer.jwt.validator.class": _JAVA_CLASS,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "bootstrap.controllers": "this client reaches controllers through brokers; give bootstrap.servers",
    "transaction.two.phase.commit.enable": "Kafka 4.3 has the name, but no broker serves it",
}
