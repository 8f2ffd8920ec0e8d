"""How a client proves who it is, and how it checks the broker: TLS and SASL. Only plain text is spoken so far.

A program that asks for anything else is told so when its client is made, not by a connection that never comes up.
"""

from typing import Final

from headrace.cluster.config_types import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    SHORT,
    STRING,
    ConfigKey,
    InvalidConfigError,
)

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _check_protocol(name: str, text: str) -> None:
    if text.upper() != "PLAINTEXT":
        raise InvalidConfigError(
            name, f"must be PLAINTEXT, not {text}: this version speaks neither TLS nor SASL; use a plain-text listener"
        )


SECURITY_CONFIGS: Final = [
    ConfigKey(
        "security.protocol",
        STRING,
        "PLAINTEXT",
        "How to talk to brokers.",
        values=PROTOCOLS,
        ignores_case=True,
        check=_check_protocol,
    ),
    # TLS
    ConfigKey("ssl.protocol", STRING, "TLSv1.3", "The version of TLS that is preferred."),
    ConfigKey("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are spoken."),
    ConfigKey("ssl.cipher.suites", LIST, (), "The cipher suites that may be used; none given: OpenSSL's choice.", LOW),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How the broker's certificate is compared with its host name; empty turns this off.",
        LOW,
    ),
    ConfigKey("ssl.keystore.type", STRING, "PEM", "The format of the client's own key and certificate."),
    ConfigKey("ssl.keystore.location", STRING, None, "The file with the client's key and certificate.", HIGH),
    ConfigKey("ssl.keystore.password", PASSWORD, None, "The password of that file.", HIGH),
    ConfigKey("ssl.keystore.key", PASSWORD, None, "The client's key itself, as PEM.", HIGH),
    ConfigKey("ssl.keystore.certificate.chain", PASSWORD, None, "The client's certificates themselves, as PEM.", HIGH),
    ConfigKey("ssl.key.password", PASSWORD, None, "The password of the client's key.", HIGH),
    ConfigKey("ssl.truststore.type", STRING, "PEM", "The format of the certificates that are trusted."),
    ConfigKey("ssl.truststore.location", STRING, None, "The file with the certificates that are trusted.", HIGH),
    ConfigKey("ssl.truststore.password", PASSWORD, None, "The password of that file.", HIGH),
    ConfigKey("ssl.truststore.certificates", PASSWORD, None, "The trusted certificates themselves, as PEM.", HIGH),
    # SASL
    ConfigKey("sasl.mechanism", STRING, "PLAIN", "How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."),
    ConfigKey("sasl.jaas.config", PASSWORD, None, "User and password, in the form that Kafka's Java clients take."),
    ConfigKey("sasl.login.callback.handler.class", CLASS, None, "A function that returns the token for OAUTHBEARER."),
    ConfigKey("sasl.login.connect.timeout.ms", INT, None, "How long connecting to the token endpoint may take.", LOW),
    ConfigKey("sasl.login.read.timeout.ms", INT, None, "How long the token endpoint may take to answer.", LOW),
    ConfigKey(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        "A token is renewed at least so long before it ends.",
        LOW,
        minimum=0,
        maximum=3600,
    ),
    ConfigKey(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        "A token is not renewed more often than this.",
        LOW,
        minimum=0,
        maximum=900,
    ),
    ConfigKey(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "The part of a token's life after which it is renewed.",
        LOW,
        minimum=0.5,
        maximum=1.0,
    ),
    ConfigKey(
        "sasl.login.refresh.window.jitter",
        DOUBLE,
        0.05,
        "By how much of its life the moment of renewal varies.",
        LOW,
        minimum=0.0,
        maximum=0.25,
    ),
    ConfigKey("sasl.login.retry.backoff.ms", LONG, 100, "The wait after a failed request for a token.", LOW),
    ConfigKey("sasl.login.retry.backoff.max.ms", LONG, 10_000, "The longest such wait.", LOW),
    # OAuth
    ConfigKey("sasl.oauthbearer.token.endpoint.url", STRING, None, "Where tokens are issued."),
    ConfigKey("sasl.oauthbearer.scope", STRING, None, "The scope to ask for."),
    ConfigKey("sasl.oauthbearer.client.credentials.client.id", STRING, None, "The id to ask for a token with."),
    ConfigKey("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, "The secret of that id."),
    ConfigKey("sasl.oauthbearer.header.urlencode", BOOLEAN, False, "Encode id and secret as RFC 6749 wants it.", LOW),
    ConfigKey(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        "How an assertion is signed.",
        values=("ES256", "RS256"),
        ignores_case=True,
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.aud", STRING, None, "Whom an assertion is for."),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        "How long an assertion is valid.",
        LOW,
        minimum=0,
        maximum=86_400,
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.iss", STRING, None, "Who issues an assertion."),
    ConfigKey("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, "Give each assertion an id."),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        "How long before now an assertion becomes valid.",
        LOW,
        minimum=0,
        maximum=3_600,
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.sub", STRING, None, "Whom an assertion speaks about."),
    ConfigKey("sasl.oauthbearer.assertion.file", STRING, None, "A file with a finished assertion."),
    ConfigKey("sasl.oauthbearer.assertion.private.key.file", STRING, None, "The key that signs assertions, as PEM."),
    ConfigKey("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, "The password of that key."),
    ConfigKey("sasl.oauthbearer.assertion.template.file", STRING, None, "JSON with further headers and claims."),
    ConfigKey("sasl.oauthbearer.scope.claim.name", STRING, "scope", "The claim of a token that holds its scope.", LOW),
    ConfigKey("sasl.oauthbearer.sub.claim.name", STRING, "sub", "The claim of a token that holds its subject.", LOW),
]
