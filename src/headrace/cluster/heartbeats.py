"""A broker's heartbeat: it lives, it wants to serve or to go, its disks fail.

FENCED ──caught up with its own registration──► UNFENCED ──wants to go, leads something──► CONTROLLED_SHUTDOWN
   ▲                                               │                                             │
   └── asked for, or its session is over ──────────┤          nobody is led by it any more, and everybody alive
                                                   ▼                    has read so in the metadata log
                                             SHUTDOWN_NOW ◄──────────────────────────────────────┘
"""

from enum import Enum
from typing import NamedTuple

from headrace.cluster.brokers import fence_broker
from headrace.cluster.decision import ControllerSettings, Decision, RefusedError, check_broker_epoch
from headrace.cluster.elections import broker_leaves, broker_returns, directory_fails, leads_something
from headrace.cluster.features import CORDONED_DIRECTORIES_SINCE, DIRECTORIES_SINCE
from headrace.cluster.image import Broker, Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.sessions import Sessions
from headrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.protocol.messages.metadata_records import BrokerRegistrationChangeRecord


class BrokerState(Enum):
    """Where a broker is in its life; see the head of this module."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


class Heartbeat(NamedTuple):
    """The answer to a heartbeat, and where the broker is after it; None if it is not the registered one."""

    response: BrokerHeartbeatResponse
    state: BrokerState | None


def decide_heartbeat(
    image: Image, settings: ControllerSettings, sessions: Sessions, request: BrokerHeartbeatRequest
) -> Decision[Heartbeat]:
    """Answer BrokerHeartbeat."""
    try:
        check_broker_epoch(image, request.broker_id, request.broker_epoch)
    except RefusedError as refused:
        return Decision((), Heartbeat(BrokerHeartbeatResponse(error_code=refused.code), None), refused.reason)
    broker = image.brokers[request.broker_id]
    state = current_state(broker, sessions)
    next_state = _next_state(image, sessions, broker, state, request)
    records = [] if next_state is state else _transition(image, settings, broker, next_state)
    records += _directory_changes(image.apply(records), settings, request)
    response = BrokerHeartbeatResponse(
        is_caught_up=_is_caught_up(broker, request),
        is_fenced=next_state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=next_state is BrokerState.SHUTDOWN_NOW,
    )
    notice = None if next_state is state else f"broker {broker.broker_id}: {state.value} -> {next_state.value}"
    return Decision(tuple(records), Heartbeat(response, next_state), notice)


def current_state(broker: Broker, sessions: Sessions) -> BrokerState:
    if sessions.shutdown_offset(broker.broker_id) is not None:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED


def _next_state(
    image: Image, sessions: Sessions, broker: Broker, state: BrokerState, request: BrokerHeartbeatRequest
) -> BrokerState:
    if state is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        may_serve = not request.want_fence and _is_caught_up(broker, request)
        return BrokerState.UNFENCED if may_serve else BrokerState.FENCED
    if state is BrokerState.UNFENCED:
        if request.want_shut_down:
            must_wait = not request.want_fence and leads_something(image, broker.broker_id)
            return BrokerState.CONTROLLED_SHUTDOWN if must_wait else BrokerState.SHUTDOWN_NOW
        return BrokerState.FENCED if request.want_fence else BrokerState.UNFENCED
    shutdown_offset = sessions.shutdown_offset(broker.broker_id)
    lowest = sessions.lowest_offset(image)
    assert shutdown_offset is not None, f"broker {broker.broker_id} is {state} without a shutdown offset"
    everybody_knows = lowest is None or shutdown_offset <= lowest
    may_go = everybody_knows and not leads_something(image, broker.broker_id)
    return BrokerState.SHUTDOWN_NOW if may_go else BrokerState.CONTROLLED_SHUTDOWN


def _is_caught_up(broker: Broker, request: BrokerHeartbeatRequest) -> bool:
    return request.current_metadata_offset >= broker.epoch


def _transition(image: Image, settings: ControllerSettings, broker: Broker, state: BrokerState) -> list[MetadataRecord]:
    if state is BrokerState.UNFENCED:
        unfenced = BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=-1)
        return [unfenced, *broker_returns(image, settings, broker.broker_id)]
    if state is BrokerState.CONTROLLED_SHUTDOWN:
        records = broker_leaves(image, settings, broker.broker_id)
        if broker.in_controlled_shutdown:
            return records
        return [BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, in_controlled_shutdown=1), *records]
    return fence_broker(image, settings, broker)


def _directory_changes(
    image: Image, settings: ControllerSettings, request: BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    broker = image.brokers[request.broker_id]
    records: list[MetadataRecord] = []
    failed = [each for each in broker.log_dirs if each in request.offline_log_dirs]
    if failed and image.metadata_version >= DIRECTORIES_SINCE:
        for directory in failed:
            records += directory_fails(image, settings, broker.broker_id, directory)
        left = [each for each in broker.log_dirs if each not in failed]
        if left:  # without any the broker cannot serve and says so by shutting down
            records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, log_dirs=left))
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and image.metadata_version >= CORDONED_DIRECTORIES_SINCE:
        known = broker.cordoned_log_dirs
        if known is None or set(cordoned) != set(known):
            records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, cordoned_log_dirs=cordoned))
    return records
