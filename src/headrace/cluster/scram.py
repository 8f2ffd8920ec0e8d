"""SCRAM credentials: set, deleted, and described without their secrets."""

import hashlib
import hmac
from collections import Counter
from typing import Final, NamedTuple

from headrace.cluster.decision import MAX_RECORDS_PER_REQUEST, TOO_MANY_RECORDS, Decision, RefusedError
from headrace.cluster.features import SCRAM_SINCE
from headrace.cluster.image import Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from headrace.protocol.messages.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord


class _Mechanism(NamedTuple):
    hash_name: str
    min_iterations: int


MECHANISMS: Final = {1: _Mechanism("sha256", 4096), 2: _Mechanism("sha512", 4096)}
MAX_ITERATIONS: Final = 16_384  # more would let one login occupy a broker for long


def alter_scram_credentials(
    image: Image, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Answer AlterUserScramCredentials; a user is changed once, or not at all."""
    rows: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    times_named = Counter(row.name for row in rows)
    records: list[MetadataRecord] = []
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for row in rows:
        try:
            if times_named[row.name] > 1:
                raise RefusedError(ErrorCode.DUPLICATE_RESOURCE, "the request changes this user twice")
            records.append(_altered(image, row))
            results[row.name] = AlterUserScramCredentialsResult(row.name, ErrorCode.NONE, None)
        except RefusedError as refused:
            results[row.name] = AlterUserScramCredentialsResult(row.name, refused.code, refused.reason)
        if len(records) > MAX_RECORDS_PER_REQUEST:  # Kafka fails with UNKNOWN_SERVER_ERROR, and changes nothing either
            refused_all = [
                AlterUserScramCredentialsResult(user, ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
                for user in times_named
            ]
            return Decision((), AlterUserScramCredentialsResponse(results=refused_all))
    return Decision(tuple(records), AlterUserScramCredentialsResponse(results=list(results.values())))


def describe_scram_credentials(
    image: Image, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer DescribeUserScramCredentials: which mechanisms users have, and how many iterations."""
    found: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in image.scram_credentials.items():
        found.setdefault(user, []).append(CredentialInfo(mechanism, credential.iterations))
    times_named = Counter(row.name for row in request.users or ()) or Counter(found)
    results = []
    for user in times_named:
        if request.users and times_named[user] > 1:
            code, message = ErrorCode.DUPLICATE_RESOURCE, f"the request names the user {user!r} twice"
        elif user not in found:
            code, message = ErrorCode.RESOURCE_NOT_FOUND, f"the user {user!r} has no SCRAM credential"
        else:
            results.append(DescribeUserScramCredentialsResult(user, ErrorCode.NONE, None, found[user]))
            continue
        results.append(DescribeUserScramCredentialsResult(user, code, message))
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _altered(image: Image, row: ScramCredentialDeletion | ScramCredentialUpsertion) -> MetadataRecord:
    if image.metadata_version < SCRAM_SINCE:
        reason = f"there are no SCRAM credentials at metadata.version {image.metadata_version}"
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, reason)
    if not row.name:
        raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the user has no name")
    mechanism = MECHANISMS.get(row.mechanism)
    if mechanism is None:
        raise RefusedError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"there is no SCRAM mechanism {row.mechanism}")
    if isinstance(row, ScramCredentialDeletion):
        if (row.name, row.mechanism) not in image.scram_credentials:
            raise RefusedError(ErrorCode.RESOURCE_NOT_FOUND, f"the user {row.name!r} has no such credential")
        return RemoveUserScramCredentialRecord(row.name, row.mechanism)
    if not mechanism.min_iterations <= row.iterations <= MAX_ITERATIONS:
        raise RefusedError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{row.iterations} iterations are not between {mechanism.min_iterations} and {MAX_ITERATIONS}",
        )
    return _credential(row, mechanism.hash_name)


def _credential(row: ScramCredentialUpsertion, hash_name: str) -> UserScramCredentialRecord:
    """RFC 5802: from what is stored nobody can log in, only check who does."""
    client_key = hmac.digest(row.salted_password, b"Client Key", hash_name)
    return UserScramCredentialRecord(
        name=row.name,
        mechanism=row.mechanism,
        salt=row.salt,
        stored_key=hashlib.new(hash_name, client_key).digest(),
        server_key=hmac.digest(row.salted_password, b"Server Key", hash_name),
        iterations=row.iterations,
    )
