"""This node as a member of the cluster: it registers, tells the controller again and again that it lives, and leaves.

States
    outside     before `join`, and after `leave`; heartbeats are not sent
    member      registered with an epoch; a heartbeat every broker.heartbeat.interval.ms, which also is the controller's
                tick
    forgotten   unregistered while it lived: as in Kafka it stays so until it is started again
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Final

from headrace.log.checkpoints import NO_BROKER_EPOCH
from headrace.log.errors import StorageError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.server.clock import Clock, Timer
from headrace.server.controller import Controller
from headrace.server.later import Later
from headrace.server.start_error import StartError

_LOG: Final = logging.getLogger(__name__)
_REGISTRATION_VERSION: Final = 4


class Membership:
    """`on_failure` hears why it cannot be a member."""

    def __init__(
        self,
        node_id: int,
        controller: Controller,
        clock: Clock,
        *,
        heartbeat_interval_ms: int,
        kraft_version: int,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._clock = clock
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._kraft_version = kraft_version
        self._on_failure = on_failure
        self._timer: Timer | None = None
        self._is_forgotten = False
        self._is_stopped = False
        self.broker_epoch = NO_BROKER_EPOCH

    def join(self, request: BrokerRegistrationRequest) -> Later[None]:
        """Resolved when the controller has heard of this node, and let it in."""
        joined: Later[None] = Later()
        outcome = self._controller.office.register_broker(
            request,
            version=_REGISTRATION_VERSION,
            kraft_version=self._kraft_version,
            now_ms=self._clock.now_ms(),
        )
        try:
            self._controller.append(outcome).then(lambda response: self._registered(response, joined))
        except StorageError as error:
            self._on_failure(error)
        return joined

    def _registered(self, response: BrokerRegistrationResponse, joined: Later[None]) -> None:
        if response.error_code:
            code = ErrorCode(response.error_code)
            self._on_failure(StartError(f"the cluster does not take this broker: {code.name}"))
            return
        self.broker_epoch = response.broker_epoch
        try:
            self._heartbeat().then(lambda _: self._joined(joined))
        except StorageError as error:
            self._on_failure(error)

    def _joined(self, joined: Later[None]) -> None:
        self._beat_later()
        joined.resolve(None)
        self._controller.tick()  # not at the first beat: who is started and stopped at once must shorten its log, too

    def _heartbeat(self, *, want_shut_down: bool = False) -> Later[BrokerHeartbeatResponse]:
        """Tell the controller that this broker lives, or wants to leave."""
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._controller.committed_offset,
            want_shut_down=want_shut_down,
        )
        return self._controller.append(self._controller.office.heartbeat(request, now_ms=self._clock.now_ms()))

    def _beat_later(self) -> None:
        if self._is_stopped:  # while it joined
            return
        self._timer = self._clock.call_later(self._heartbeat_interval_ms, self._beat)

    def _beat(self) -> None:
        with contextlib.suppress(StorageError):  # of a disk without room, which the controller tells
            self._heartbeat().then(self._heard)
        self._controller.tick()
        self._beat_later()

    def _heard(self, response: BrokerHeartbeatResponse) -> None:
        if bool(response.error_code) != self._is_forgotten:
            self._is_forgotten = not self._is_forgotten
            if self._is_forgotten:
                _LOG.warning(
                    "[broker %d] is not registered any more (%s), and leads nothing; start it again to bring it back",
                    self._node_id,
                    ErrorCode(response.error_code).name,
                )

    def stop(self) -> None:
        """No more heartbeats."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def leave(self) -> Later[None]:
        """Resolved when the controller has moved away what this node led, or cannot be told."""
        self.stop()
        left: Later[None] = Later()
        self._ask_to_leave(left)
        return left

    def _ask_to_leave(self, left: Later[None]) -> None:
        def heard(response: BrokerHeartbeatResponse) -> None:
            if response.should_shut_down or response.error_code:
                left.resolve(None)
            else:
                self._ask_to_leave(left)

        try:
            self._heartbeat(want_shut_down=True).then(heard)
        except StorageError:
            left.resolve(None)  # without a word in the metadata, as after a crash
