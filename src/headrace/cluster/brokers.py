"""Nodes register and are unregistered; brokers without a session are fenced."""

from collections.abc import Mapping

from headrace.cluster.decision import MAX_RECORDS_PER_REQUEST, ControllerSettings, Decision, RefusedError
from headrace.cluster.elections import broker_leaves, broker_lost_data
from headrace.cluster.features import (
    CONTROLLER_REGISTRATION_SINCE,
    DIRECTORIES_SINCE,
    KRAFT_VERSION,
    METADATA_VERSION,
)
from headrace.cluster.image import Broker, Image, is_reserved_directory
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.sessions import Sessions
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from headrace.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from headrace.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

CLEAN_SHUTDOWN_KNOWN_SINCE = (
    3  # BrokerRegistration: the first version in which a broker says which epoch it ended cleanly
)


def register_broker(
    image: Image,
    settings: ControllerSettings,
    sessions: Sessions,
    request: BrokerRegistrationRequest,
    *,
    version: int,
    next_offset: int,
    kraft_version: int,
    now_ms: int,
) -> Decision[BrokerRegistrationResponse]:
    """Answer BrokerRegistration of this version. The records will be appended at `next_offset`.

    A new incarnation gets a new epoch, the offset of the record that registers it; whatever its predecessor led or was
    in sync for goes to others first. The same incarnation may register again to change its addresses, and keeps its
    epoch.
    """
    try:
        existing = image.brokers.get(request.broker_id)
        _check_identity(settings, sessions, request, existing, now_ms)
        _check_directories(image, request)
        _check_features(image, request, kraft_version)
    except RefusedError as refused:
        notice = f"broker {request.broker_id} is refused: {refused.reason}"
        return Decision((), BrokerRegistrationResponse(error_code=refused.code), notice)
    records: list[MetadataRecord] = []
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record = _registration(image, request, existing.epoch)
        record = record._replace(fenced=existing.fenced, in_controlled_shutdown=existing.in_controlled_shutdown)
    else:
        if existing is not None:
            clean = version >= CLEAN_SHUTDOWN_KNOWN_SINCE and request.previous_broker_epoch == existing.epoch
            lost = image.elr_enabled and not clean
            records += (broker_lost_data if lost else broker_leaves)(image, settings, request.broker_id)
        record = _registration(image, request, next_offset + len(records))
    return Decision((*records, record), BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def unregister_broker(
    image: Image, settings: ControllerSettings, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    """Answer UnregisterBroker: a broker that will not come back."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        message = f"there is no broker {request.broker_id}"
        reply = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
        return Decision((), reply)
    records = broker_leaves(image, settings, broker.broker_id)
    records.append(UnregisterBrokerRecord(broker.broker_id, broker.epoch))
    if len(records) > MAX_RECORDS_PER_REQUEST:
        message = f"broker {broker.broker_id} is in sync for {len(records) - 1} partitions: stop it first"
        return Decision((), UnregisterBrokerResponse(error_code=ErrorCode.POLICY_VIOLATION, error_message=message))
    return Decision(tuple(records), UnregisterBrokerResponse(error_message=None))


def fence_broker(image: Image, settings: ControllerSettings, broker: Broker) -> list[MetadataRecord]:
    """The records that fence a broker: first it loses what it leads, then its standing."""
    records = broker_leaves(image, settings, broker.broker_id)
    records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=1))
    return records


def fence_expired_broker(
    image: Image, settings: ControllerSettings, sessions: Sessions, *, now_ms: int
) -> Decision[int | None]:
    """Fence one broker whose session is over, and say which; None if there is none.

    One at a time: what the first one led may go to another that has died, too, and then moves on with the next call.
    """
    broker_id = sessions.find_expired(image, now_ms=now_ms)
    if broker_id is None:
        return Decision((), None)
    records = fence_broker(image, settings, image.brokers[broker_id])
    return Decision(
        tuple(records), broker_id, f"broker {broker_id} is fenced: no heartbeat for {sessions.timeout_ms} ms"
    )


def register_controller(
    image: Image, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Answer ControllerRegistration."""
    if image.metadata_version < CONTROLLER_REGISTRATION_SINCE:
        message = f"controllers do not register at metadata.version {image.metadata_version}"
        reply = ControllerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=message)
        return Decision((), reply)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[ControllerEndpoint(*listener) for listener in request.listeners],
        features=[ControllerFeature(*feature) for feature in request.features],
    )
    return Decision((record,), ControllerRegistrationResponse(error_message=None))


def _registration(image: Image, request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[BrokerEndpoint(*listener) for listener in request.listeners],
        features=[BrokerFeature(*feature) for feature in request.features],
        rack=request.rack,
        log_dirs=tuple(request.log_dirs) if image.metadata_version >= DIRECTORIES_SINCE else (),
    )


def _check_identity(
    settings: ControllerSettings,
    sessions: Sessions,
    request: BrokerRegistrationRequest,
    existing: Broker | None,
    now_ms: int,
) -> None:
    if request.cluster_id != settings.cluster_id:
        raise RefusedError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"it belongs to cluster {request.cluster_id}, and this is {settings.cluster_id}",
        )
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and sessions.is_valid(existing.broker_id, existing.epoch, now_ms=now_ms)
    ):
        raise RefusedError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "a broker with this id is alive; after a restart its old session ends within broker.session.timeout.ms",
        )
    if request.is_migrating_zk_broker:
        raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, "it still uses ZooKeeper")


def _check_directories(image: Image, request: BrokerRegistrationRequest) -> None:
    if image.metadata_version < DIRECTORIES_SINCE:
        return
    directories = request.log_dirs
    if not directories or len(set(directories)) < len(directories) or any(map(is_reserved_directory, directories)):
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION,
            "its log directories need ids, each its own and none that is reserved",
        )
    for broker in image.brokers.values():
        if broker.broker_id != request.broker_id and not set(broker.log_dirs).isdisjoint(directories):
            raise RefusedError(
                ErrorCode.INVALID_REGISTRATION,
                f"broker {broker.broker_id} has registered one of its directories: was it copied?",
            )


def _check_features(image: Image, request: BrokerRegistrationRequest, kraft_version: int) -> None:
    offered = {feature.name: feature for feature in request.features}
    if METADATA_VERSION not in offered:
        raise RefusedError(ErrorCode.INVALID_REGISTRATION, "it does not say which metadata.version it supports")
    finalized: Mapping[str, int] = {**image.features, KRAFT_VERSION: kraft_version}
    for name in {*finalized, *offered}:
        level = finalized.get(name, 0)
        feature = offered.get(name)
        lowest, highest = (0, 0) if feature is None else (feature.min_supported_version, feature.max_supported_version)
        if not lowest <= level <= highest:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"it supports {name} {lowest} to {highest}, and the cluster works at {level}",
            )
