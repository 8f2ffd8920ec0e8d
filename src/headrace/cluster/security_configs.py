"""Broker configs of TLS, SASL, tokens and access control.

Keys and certificates are read as PEM or PKCS12; Java's JKS is not read. Kerberos (GSSAPI) is not part of Headrace, so
no SASL mechanism is on unless it is named.
"""

from typing import Final

from headrace.cluster.config_types import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    PER_BROKER,
    STRING,
    ConfigKey,
    InvalidConfigError,
)

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
STORE_TYPES: Final = ("PEM", "PKCS12")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


def split_principals(text: str) -> tuple[str, ...]:
    """The items of `super.users`, which are separated by semicolons since a principal may contain commas."""
    return tuple(item.strip() for item in text.split(";") if item.strip())


def _check_principals(name: str, text: str) -> None:
    for item in split_principals(text):
        kind, colon, user = item.partition(":")
        if not colon or not kind or not user:
            raise InvalidConfigError(name, f'must be items such as User:alice separated by semicolons, not "{item}"')


SECURITY_CONFIGS: Final = [
    # TLS
    ConfigKey(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must (required) or may (requested) show a certificate.",
        values=("required", "requested", "none"),
        scope=PER_BROKER,
    ),
    ConfigKey(
        "ssl.protocol",
        STRING,
        "TLSv1.3",
        "The version of TLS that connections to other nodes prefer.",
        values=TLS_VERSIONS,
        scope=PER_BROKER,
    ),
    ConfigKey(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken.",
        values=TLS_VERSIONS,
        scope=PER_BROKER,
    ),
    ConfigKey(
        "ssl.cipher.suites",
        LIST,
        (),
        "The cipher suites that may be used; an empty list leaves it to OpenSSL.",
        scope=PER_BROKER,
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How the certificate of another node is compared with its host name; empty turns this off.",
        LOW,
        values=("https", ""),
        ignores_case=True,
        scope=PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.type",
        STRING,
        "PEM",
        "The format of the key and its certificate.",
        values=STORE_TYPES,
        ignores_case=True,
        scope=PER_BROKER,
    ),
    ConfigKey("ssl.keystore.location", STRING, None, "The file with the key and its certificate.", scope=PER_BROKER),
    ConfigKey("ssl.keystore.password", PASSWORD, None, "The password of that file.", scope=PER_BROKER),
    ConfigKey("ssl.keystore.key", PASSWORD, None, "The key itself as PEM, instead of a file.", scope=PER_BROKER),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificate chain itself as PEM, instead of a file.",
        scope=PER_BROKER,
    ),
    ConfigKey("ssl.key.password", PASSWORD, None, "The password of the key.", scope=PER_BROKER),
    ConfigKey(
        "ssl.truststore.type",
        STRING,
        "PEM",
        "The format of the trusted certificates.",
        values=STORE_TYPES,
        ignores_case=True,
        scope=PER_BROKER,
    ),
    ConfigKey("ssl.truststore.location", STRING, None, "The file with the trusted certificates.", scope=PER_BROKER),
    ConfigKey("ssl.truststore.password", PASSWORD, None, "The password of that file.", scope=PER_BROKER),
    ConfigKey(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The trusted certificates themselves as PEM, instead of a file.",
        scope=PER_BROKER,
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "How the name in a client's certificate becomes a user name.",
        LOW,
    ),
    ConfigKey("ssl.allow.dn.changes", BOOLEAN, False, "Whether a changed certificate may carry another name.", LOW),
    ConfigKey(
        "ssl.allow.san.changes", BOOLEAN, False, "Whether a changed certificate may carry other alternative names.", LOW
    ),
    # SASL
    ConfigKey(
        "sasl.enabled.mechanisms",
        LIST,
        (),
        "How clients may prove who they are.",
        values=SASL_MECHANISMS,
        scope=PER_BROKER,
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        None,
        "How brokers prove to one another who they are.",
        values=SASL_MECHANISMS,
        scope=PER_BROKER,
    ),
    ConfigKey(
        "sasl.mechanism.controller.protocol",
        STRING,
        None,
        "How a node proves to the controllers who it is.",
        HIGH,
        values=SASL_MECHANISMS,
    ),
    ConfigKey(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "The credentials of this node, and of PLAIN's users, in the form of a JAAS entry.",
        scope=PER_BROKER,
    ),
    ConfigKey(
        "sasl.server.max.receive.size",
        INT,
        524_288,
        "The largest message of a client that has not yet proved who it is.",
    ),
    ConfigKey(
        "connections.max.reauth.ms", LONG, 0, "After how long a client must prove again who it is; 0 turns this off."
    ),
    # OAuth
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys lie that sign tokens, as an https: or file: address.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, "How often those keys are read again.", LOW
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "How long the broker waits after it could not read them.",
        LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, "The longest that this wait grows to.", LOW
    ),
    ConfigKey("sasl.oauthbearer.expected.audience", LIST, (), "Whom a token must be meant for: one of these.", HIGH),
    ConfigKey("sasl.oauthbearer.expected.issuer", STRING, None, "Who must have issued a token.", HIGH),
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", INT, 30, "How far the issuer's clock may differ from ours.", LOW),
    ConfigKey("sasl.oauthbearer.scope.claim.name", STRING, "scope", "Which claim of a token has its scope.", LOW),
    ConfigKey("sasl.oauthbearer.sub.claim.name", STRING, "sub", "Which claim of a token has the user's name.", LOW),
    # Tokens and access
    ConfigKey(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "The secret that signs delegation tokens, the same on all nodes; without it there are none.",
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        LONG,
        604_800_000,
        "The age at which a token ends, however often it was renewed.",
        minimum=1,
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms", LONG, 86_400_000, "How long a token lasts unless it is renewed.", minimum=1
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3_600_000,
        "How often the broker looks for tokens that have ended.",
        LOW,
        minimum=1,
    ),
    ConfigKey(
        "authorizer.class.name",
        STRING,
        "",
        "Whether access is controlled: empty for no, Kafka's StandardAuthorizer for yes.",
        LOW,
        values=("", STANDARD_AUTHORIZER),
    ),
    ConfigKey(
        "super.users",
        STRING,
        "",
        "Users who may do everything, as User:name separated by semicolons.",
        check=_check_principals,
    ),
    ConfigKey("allow.everyone.if.no.acl.found", BOOLEAN, False, "Whether a resource without any rule is open to all."),
]
