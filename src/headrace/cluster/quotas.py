"""Quotas of users, client ids and addresses: changed and described."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from headrace.cluster.decision import MAX_RECORDS_PER_REQUEST, TOO_MANY_RECORDS, Decision, RefusedError
from headrace.cluster.image import Image, QuotaEntity
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_client_quotas as altering
from headrace.protocol.messages import describe_client_quotas as describing
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class _QuotaKey(NamedTuple):
    highest: float
    whole: bool


_LONG: Final = _QuotaKey(float(2**63), whole=True)
_INT: Final = _QuotaKey(float(2**31 - 1), whole=True)
_DOUBLE: Final = _QuotaKey(float("inf"), whole=False)
_CLIENT_KEYS: Final[Mapping[str, _QuotaKey]] = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": _DOUBLE,
    "controller_mutation_rate": _DOUBLE,
}
_IP_KEYS: Final[Mapping[str, _QuotaKey]] = {"connection_creation_rate": _INT}

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def alter_client_quotas(
    image: Image, request: altering.AlterClientQuotasRequest
) -> Decision[altering.AlterClientQuotasResponse]:
    """Answer AlterClientQuotas."""
    records: list[MetadataRecord] = []
    rows = []
    done: set[QuotaEntity] = set()
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            entity = _entity(entry.entity)
            if entity in done:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "the request names this entity twice")
            done.add(entity)
            _check_address(image, entity, entry.ops)
            records += _altered(image, entity, entry.ops)
        except RefusedError as refused:
            code, message = refused.code, refused.reason
        rows.append(altering.ResponseEntryData(code, message, entry.entity))
        if len(records) > MAX_RECORDS_PER_REQUEST:  # as Kafka: nothing is changed
            refused_all = [
                altering.ResponseEntryData(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS, each.entity)
                for each in request.entries
            ]
            return Decision((), altering.AlterClientQuotasResponse(entries=refused_all))
    written = () if request.validate_only else tuple(records)
    return Decision(written, altering.AlterClientQuotasResponse(entries=rows))


def _entity(rows: Sequence[altering.EntityData]) -> QuotaEntity:
    entity: dict[str, str | None] = {}
    for row in rows:
        if row.entity_type not in (USER, CLIENT_ID, IP):
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"there are no quotas by {row.entity_type!r}")
        if row.entity_type in entity:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"the entity has two of {row.entity_type}")
        if row.entity_name == "":
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"the {row.entity_type} is empty; leave it out for the default"
            )
        entity[row.entity_type] = row.entity_name
    if not entity:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the entity names neither user, client-id nor ip")
    if IP in entity and len(entity) > 1:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "an ip cannot be combined with a user or client-id")
    return tuple(sorted(entity.items(), key=lambda item: item[0]))


def _check_address(image: Image, entity: QuotaEntity, ops: Iterable[altering.OpData]) -> None:
    """Connections have addresses. Kafka also takes the name of a host, for the address that it has at the time.

    Where Kafka has written such a name, it can be removed. Raises RefusedError.
    """
    kind, name = entity[0]
    if kind != IP or name is None or (entity in image.client_quotas and all(op.remove for op in ops)):
        return
    try:
        ip_address(name)
    except ValueError:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"{name!r} is no address; for a host, set the quota of each of its addresses"
        ) from None


def _altered(image: Image, entity: QuotaEntity, ops: Iterable[altering.OpData]) -> list[MetadataRecord]:
    existing = image.client_quotas.get(entity, {})
    keys = _IP_KEYS if entity[0][0] == IP else _CLIENT_KEYS
    rows = [EntityData(kind, name) for kind, name in entity]
    records: list[MetadataRecord] = []
    seen = set()
    for op in ops:
        if op.key in seen:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"the request changes {op.key} twice")
        seen.add(op.key)
        if op.remove:
            if op.key in existing:
                records.append(ClientQuotaRecord(rows, op.key, remove=True))
            continue
        _check_value(keys, op.key, op.value)
        if existing.get(op.key) != op.value:
            records.append(ClientQuotaRecord(rows, op.key, op.value))
    return records


def _check_value(keys: Mapping[str, _QuotaKey], key: str, value: float) -> None:
    known = keys.get(key)
    if known is None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key!r} is no quota here; there are {', '.join(keys)}")
    if not 0 < value <= known.highest:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key} must be greater than 0 and fit its type, not {value}")
    if known.whole and abs(value % 1) > 1e-6:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key} must be a whole number, not {value}")


def describe_client_quotas(
    image: Image, request: describing.DescribeClientQuotasRequest
) -> describing.DescribeClientQuotasResponse:
    """Answer DescribeClientQuotas."""
    try:
        wanted = _filters(request.components)
    except RefusedError as refused:
        return describing.DescribeClientQuotasResponse(
            error_code=refused.code, error_message=refused.reason, entries=None
        )
    entries = [
        describing.EntryData(
            [describing.EntityData(kind, name) for kind, name in entity],
            [describing.ValueData(key, value) for key, value in quotas.items()],
        )
        for entity, quotas in image.client_quotas.items()
        if _matches(dict(entity), wanted, strict=request.strict)
    ]
    return describing.DescribeClientQuotasResponse(error_message=None, entries=entries)


def _matches(entity: Mapping[str, str | None], wanted: Mapping[str, describing.ComponentData], *, strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(
        kind in entity and (filter_.match_type == _ANY or entity[kind] == filter_.match)
        for kind, filter_ in wanted.items()
    )


def _filters(components: Iterable[describing.ComponentData]) -> dict[str, describing.ComponentData]:
    wanted: dict[str, describing.ComponentData] = {}
    for row in components:
        if not row.entity_type or row.entity_type in wanted:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "each component needs a type, and each type comes once")
        if row.entity_type not in (USER, CLIENT_ID, IP):
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas by {row.entity_type!r}")
        if row.match_type not in (_EXACT, _DEFAULT, _ANY) or (row.match is None) == (row.match_type == _EXACT):
            reason = f"match type {row.match_type} with the text {row.match!r}: only an exact match (0) has a text"
            raise RefusedError(ErrorCode.INVALID_REQUEST, reason)
        wanted[row.entity_type] = row
    if IP in wanted and len(wanted) > 1:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "an ip cannot be combined with a user or client-id")
    return wanted
