"""Admin calls about who may do what, and how much: ACLs, SCRAM users, quotas."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from headrace.client.admin_calls import AdminCalls, no_codes, settle, top_code
from headrace.client.errors import KafkaError, error_for, raise_for
from headrace.client.several import several
from headrace.protocol.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
)

# Kafka's words and numbers.
RESOURCES: Final = {
    "any": 1,
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional-id": 5,
    "delegation-token": 6,
    "user": 7,
}
PATTERNS: Final = {"any": 1, "match": 2, "literal": 3, "prefixed": 4}
OPERATIONS: Final = {
    "any": 1,
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster-action": 9,
    "describe-configs": 10,
    "alter-configs": 11,
    "idempotent-write": 12,
    "create-tokens": 13,
    "describe-tokens": 14,
    "two-phase-commit": 15,
}
PERMISSIONS: Final = {"any": 1, "deny": 2, "allow": 3}
MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
SALT_BYTES: Final = 24
DEFAULT_ITERATIONS: Final = 4096  # the least that Kafka takes
_MATCH_EXACT, _MATCH_DEFAULT, _MATCH_ANY = 0, 1, 2

# What a quota is for: user, client-id or ip -> name; None is the default of that type.
QuotaEntity: TypeAlias = Mapping[str, str | None]


class Acl(NamedTuple):
    """Who (`principal`, from `host`) may or may not (`permission`) do what (`operation`) with which resource."""

    resource: str
    name: str
    principal: str
    operation: str
    permission: str = "allow"
    host: str = "*"
    pattern: str = "literal"


class AclFilter(NamedTuple):
    """Which ACLs; None and `any` match everything, pattern `match` also what a prefix covers."""

    resource: str = "any"
    name: str | None = None
    principal: str | None = None
    operation: str = "any"
    permission: str = "any"
    host: str | None = None
    pattern: str = "any"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class QuotaEntry:
    """`entity` is as QuotaEntity, `values` such as producer_byte_rate -> bytes per second."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


class AccessCalls(AdminCalls):
    # ACLs

    async def describe_acls(self, which: AclFilter | None = None, *, timeout: float | None = None) -> list[Acl]:
        """The ACLs that match, or all. Raises KafkaError with SECURITY_DISABLED if the cluster has no authorizer."""
        response: describe_acls.DescribeAclsResponse = await self._any(
            describe_acls.DescribeAclsRequest(*_filter_fields(which or AclFilter())), top_code, timeout
        )
        raise_for(response.error_code, response.error_message)
        return [
            Acl(
                _word(RESOURCES, resource.resource_type),
                resource.resource_name,
                acl.principal,
                _word(OPERATIONS, acl.operation),
                _word(PERMISSIONS, acl.permission_type),
                acl.host,
                _word(PATTERNS, resource.pattern_type),
            )
            for resource in response.resources
            for acl in resource.acls
        ]

    async def create_acls(self, acls: Iterable[Acl], *, timeout: float | None = None) -> None:
        """Add ACLs; one that exists stays."""
        wanted = several(acls, Acl, "ACLs")
        rows = [
            create_acls.AclCreation(
                _number(RESOURCES, acl.resource),
                acl.name,
                _number(PATTERNS, acl.pattern),
                acl.principal,
                acl.host,
                _number(OPERATIONS, acl.operation),
                _number(PERMISSIONS, acl.permission),
            )
            for acl in wanted
        ]
        response: create_acls.CreateAclsResponse = await self._controller(
            create_acls.CreateAclsRequest(rows), lambda response: [row.error_code for row in response.results], timeout
        )
        settle(
            {
                acl: error_for(row.error_code, row.error_message) if row.error_code else None
                for acl, row in zip(wanted, response.results, strict=True)
            },
            "ACLs",
        )

    async def delete_acls(self, filters: Iterable[AclFilter], *, timeout: float | None = None) -> list[Acl]:
        """Take away all ACLs that match; they are the result."""
        wanted = several(filters, AclFilter, "filters")
        request = delete_acls.DeleteAclsRequest(
            [delete_acls.DeleteAclsFilter(*_filter_fields(each)) for each in wanted]
        )
        response: delete_acls.DeleteAclsResponse = await self._controller(
            request, lambda response: [row.error_code for row in response.filter_results], timeout
        )
        results: dict[object, list[Acl] | KafkaError] = {}
        for each, row in zip(wanted, response.filter_results, strict=True):
            if row.error_code:
                results[each] = error_for(row.error_code, row.error_message)
                continue
            results[each] = [_matching(acl) for acl in row.matching_acls if not acl.error_code]
            for acl in row.matching_acls:
                if acl.error_code:
                    results[_matching(acl)] = error_for(acl.error_code, acl.error_message)
        return [acl for found in settle(results, "filters").values() for acl in found]

    # SCRAM

    async def describe_scram_users(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, list[ScramCredential]]:
        """Which users have SCRAM credentials, of these or of all; never the secrets."""
        rows = (
            None
            if users is None
            else [describe_user_scram_credentials.UserName(user) for user in several(users, str, "users")]
        )
        response: describe_user_scram_credentials.DescribeUserScramCredentialsResponse = await self._controller(
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(rows), top_code, timeout
        )
        raise_for(response.error_code, response.error_message)
        return settle(
            {
                row.user: error_for(row.error_code, row.error_message)
                if row.error_code
                else [
                    ScramCredential(_word(MECHANISMS, each.mechanism), each.iterations) for each in row.credential_infos
                ]
                for row in response.results
            },
            "users",
        )

    async def set_scram_user(
        self,
        user: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = DEFAULT_ITERATIONS,
        timeout: float | None = None,
    ) -> None:
        """Give a user a password. Only its salted hash leaves this process."""
        salt = os.urandom(SALT_BYTES)
        hash_name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}.get(mechanism)
        if hash_name is None:
            raise ValueError(f"{mechanism!r} is not one of {', '.join(MECHANISMS)}")
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        row = alter_user_scram_credentials.ScramCredentialUpsertion(
            user, MECHANISMS[mechanism], iterations, salt, salted
        )
        await self._alter_scram(
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[row]), timeout
        )

    async def delete_scram_user(
        self, user: str, *, mechanism: str = "SCRAM-SHA-512", timeout: float | None = None
    ) -> None:
        """Take a user's password of this mechanism away."""
        row = alter_user_scram_credentials.ScramCredentialDeletion(user, _number(MECHANISMS, mechanism))
        await self._alter_scram(alter_user_scram_credentials.AlterUserScramCredentialsRequest([row]), timeout)

    async def _alter_scram(
        self, request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, timeout: float | None
    ) -> None:
        response: alter_user_scram_credentials.AlterUserScramCredentialsResponse = await self._controller(
            request, lambda response: [row.error_code for row in response.results], timeout
        )
        settle(
            {
                row.user: error_for(row.error_code, row.error_message) if row.error_code else None
                for row in response.results
            },
            "users",
        )

    # Quotas

    async def describe_quotas(
        self,
        entity: Mapping[str, str | None] | None = None,
        *,
        types: Iterable[str] = (),
        strict: bool = False,
        timeout: float | None = None,
    ) -> list[QuotaEntry]:
        """Quotas of this entity, and of any name for the `types` given; all of them if neither is given.

        `strict` leaves out entities that have further parts.
        """
        rows = [
            describe_client_quotas.ComponentData(kind, _MATCH_DEFAULT if name is None else _MATCH_EXACT, name)
            for kind, name in (entity or {}).items()
        ]
        rows += [describe_client_quotas.ComponentData(kind, _MATCH_ANY, None) for kind in several(types, str, "types")]
        response: describe_client_quotas.DescribeClientQuotasResponse = await self._any(
            describe_client_quotas.DescribeClientQuotasRequest(rows, strict), top_code, timeout
        )
        raise_for(response.error_code, response.error_message)
        return [
            QuotaEntry(
                {part.entity_type: part.entity_name for part in row.entity},
                {value.key: value.value for value in row.values},
            )
            for row in response.entries or ()
        ]

    async def alter_quotas(
        self,
        entity: Mapping[str, str | None],
        values: Mapping[str, float | None],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set quotas of an entity such as {"client-id": "importer"}; None takes one away."""
        ops = [
            alter_client_quotas.OpData(name, 0.0 if value is None else float(value), value is None)
            for name, value in values.items()
        ]
        parts = [alter_client_quotas.EntityData(kind, name) for kind, name in entity.items()]
        response: alter_client_quotas.AlterClientQuotasResponse = await self._controller(
            alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.EntryData(parts, ops)], validate_only),
            no_codes,
            timeout,
        )
        for row in response.entries:
            raise_for(row.error_code, row.error_message)


def _filter_fields(which: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    return (
        _number(RESOURCES, which.resource),
        which.name,
        _number(PATTERNS, which.pattern),
        which.principal,
        which.host,
        _number(OPERATIONS, which.operation),
        _number(PERMISSIONS, which.permission),
    )


def _matching(row: delete_acls.DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        _word(RESOURCES, row.resource_type),
        row.resource_name,
        row.principal,
        _word(OPERATIONS, row.operation),
        _word(PERMISSIONS, row.permission_type),
        row.host,
        _word(PATTERNS, row.pattern_type),
    )


def _number(words: Mapping[str, int], word: str) -> int:
    try:
        return words[word]
    except KeyError:
        raise ValueError(f"{word!r} is not one of {', '.join(words)}") from None


def _word(words: Mapping[str, int], number: int) -> str:
    return next((word for word, known in words.items() if known == number), str(number))
