"""SCRAM credentials: what is kept of a password, and what is told of it."""

import base64

import pytest

from headrace.cluster.scram import alter_scram_credentials, describe_scram_credentials
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.unit.cluster.harness import Cluster

SHA_256, SHA_512 = 1, 2
# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SALTED_PASSWORD = bytes.fromhex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d")


def upsert(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, SALT, SALTED_PASSWORD)


def alter(cluster: Cluster, *rows: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, str]:
    request = AlterUserScramCredentialsRequest(
        deletions=[row for row in rows if isinstance(row, ScramCredentialDeletion)],
        upsertions=[row for row in rows if isinstance(row, ScramCredentialUpsertion)],
    )
    results = cluster.do(alter_scram_credentials(cluster.image, request)).results
    return {row.user: ErrorCode(row.error_code).name for row in results}


def test_only_what_checks_a_password_is_kept() -> None:
    cluster = Cluster()
    assert alter(cluster, upsert("user")) == {"user": "NONE"}
    credential = cluster.image.scram_credentials["user", SHA_256]
    assert base64.b64encode(credential.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(credential.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    assert (credential.salt, credential.iterations) == (SALT, 4096)


def test_users_are_changed_and_deleted_each_by_itself() -> None:
    cluster = Cluster()
    alter(cluster, upsert("alice"), upsert("bob", SHA_512))
    answer = alter(
        cluster,
        ScramCredentialDeletion("alice", SHA_256),
        ScramCredentialDeletion("bob", SHA_256),
        ScramCredentialDeletion("", SHA_256),
        upsert("carol"),
        upsert("few", iterations=4095),
        upsert("many", iterations=16_385),
        upsert("odd", mechanism=3),
        upsert("twice"),
        upsert("twice", SHA_512),
    )
    assert answer == {
        "alice": "NONE",
        "bob": "RESOURCE_NOT_FOUND",
        "": "UNACCEPTABLE_CREDENTIAL",
        "carol": "NONE",
        "few": "UNACCEPTABLE_CREDENTIAL",
        "many": "UNACCEPTABLE_CREDENTIAL",
        "odd": "UNSUPPORTED_SASL_MECHANISM",
        "twice": "DUPLICATE_RESOURCE",
    }
    assert set(cluster.image.scram_credentials) == {("bob", SHA_512), ("carol", SHA_256)}


def test_an_old_cluster_has_no_credentials() -> None:
    assert alter(Cluster(metadata_version=10), upsert("alice")) == {"alice": "UNSUPPORTED_VERSION"}


@pytest.mark.parametrize("users", [None, []])
def test_all_users_are_described_without_secrets(users: list[UserName] | None) -> None:
    cluster = Cluster()
    alter(cluster, upsert("alice"))
    alter(cluster, upsert("alice", SHA_512, 8192))
    (row,) = describe_scram_credentials(cluster.image, DescribeUserScramCredentialsRequest(users)).results
    assert (row.user, row.error_code, row.error_message) == ("alice", 0, None)
    assert list(row.credential_infos) == [CredentialInfo(SHA_256, 4096), CredentialInfo(SHA_512, 8192)]


def test_users_who_are_not_there_or_asked_for_twice_get_an_error() -> None:
    cluster = Cluster()
    alter(cluster, upsert("alice"))
    names = [UserName(name) for name in ("alice", "bob", "carol", "carol")]
    rows = describe_scram_credentials(cluster.image, DescribeUserScramCredentialsRequest(names)).results
    assert [(row.user, ErrorCode(row.error_code).name) for row in rows] == [
        ("alice", "NONE"),
        ("bob", "RESOURCE_NOT_FOUND"),
        ("carol", "DUPLICATE_RESOURCE"),
    ]
