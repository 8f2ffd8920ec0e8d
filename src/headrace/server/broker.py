"""One broker: everything wired by constructor calls that can be read from top to bottom.

Starting, in order: take the data directory; read the metadata log; bind the listeners; lead the quorum of one; find
the partitions that the metadata gives to this node; register, so that the cluster knows where it is reached; and only
then accept connections. A client that gets through finds everything in place.

Stopping, in order: no new connections; leave the cluster (a controlled shutdown, so that the next start knows that
nothing was lost); end the connections; let the worker finish; close the logs; say that the stop was clean.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom
from typing import Final

from headrace.cluster.control_records import VoterEndpoint, VoterNode
from headrace.cluster.decision import ControllerSettings
from headrace.cluster.features import SUPPORTED_FEATURES, default_levels
from headrace.cluster.image import EMPTY_IMAGE, Image, is_reserved_directory
from headrace.cluster.listeners import WILDCARDS, Listener
from headrace.cluster.quorum import OnDisk, Quorum, SnapshotPolicy
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.errors import StorageError
from headrace.log.fs import FileSystem, RealFileSystem
from headrace.log.meta_properties import MetaProperties
from headrace.protocol.messages import broker_registration
from headrace.protocol.messages.broker_registration import BrokerRegistrationRequest
from headrace.protocol.types import ZERO_UUID, uuid_to_text
from headrace.server.clock import Clock, LoopClock
from headrace.server.context import Context
from headrace.server.controller import Controller
from headrace.server.coordinators import Coordinators
from headrace.server.dispatch import Dispatcher
from headrace.server.fetch_sessions import FetchSessions
from headrace.server.group_commit import GroupCommit
from headrace.server.later import Later
from headrace.server.listener import ConnectionLimits, Listeners
from headrace.server.maintenance import Maintenance, MaintenanceSettings
from headrace.server.membership import Membership
from headrace.server.metadata_log import DIRECTORY as METADATA_DIRECTORY
from headrace.server.metadata_log import Found, MetadataLog
from headrace.server.node_configs import layers
from headrace.server.override_hosts import OverrideHosts
from headrace.server.partitions import Partitions
from headrace.server.producer_ids import ProducerIds
from headrace.server.quotas import Quotas
from headrace.server.quotas_rates import Windows
from headrace.server.reserve import Reserve
from headrace.server.settings import Settings
from headrace.server.start_error import StartError
from headrace.server.worker import Worker
from headrace.server.write_trouble import WriteTrouble

KRAFT_VERSION: Final = 1
_CLOSING_SYNCS: Final = 32  # threads, for some tens of milliseconds: the file system lets many wait for one commit

_LOG: Final = logging.getLogger(__name__)


class Broker:
    """A node that is broker and only controller. All of it lives on the thread of its loop."""

    def __init__(
        self,
        settings: Settings,
        data_directory: str,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock | None = None,
        fs: FileSystem | None = None,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """Take the data directory and read the metadata. Raises LogError, StartError, OSError."""
        fs = fs or RealFileSystem()
        self.settings = settings
        self._limits = settings.limits  # as they are configured now
        self._override_hosts = OverrideHosts(loop, self._limits.max_connections_per_ip_overrides)
        self._clock = clock or LoopClock(loop)
        self._random = SystemRandom()
        now_ms = self._clock.now_ms()
        # Logs get their topics' configs when the metadata is known. Recovery does without: it learns from the
        # cleaner's checkpoint which ones were compacted.
        self.logs = LogDirectory.open(
            fs,
            data_directory,
            lambda _: LogConfig(),
            now_ms=now_ms,
            cleaner_limits=settings.cleaner_limits,
            not_ours=(METADATA_DIRECTORY,),
        )
        with contextlib.ExitStack() as undo:  # whoever cannot start leaves the directory to others
            undo.callback(self._give_directory_back)
            self.meta = self._own(data_directory)
            self._worker = Worker(loop)
            undo.callback(self._worker.abandon)
            self._metadata_log = MetadataLog.open(
                fs,
                data_directory,
                clean=self.logs.was_clean,
                kraft_version=KRAFT_VERSION,
                now_ms=now_ms,
                segment_bytes=settings.number("metadata.log.segment.bytes"),
                segment_ms=settings.number("metadata.log.segment.ms"),
            )
            undo.callback(self._metadata_log.log.segments.close)
            self._tell_losses()
            found = self._read_metadata()
            self._refuse_logs_of_nobody(found.on_disk)
            if self.meta != self.logs.meta:
                self.logs.write_meta(self.meta)
            trouble = WriteTrouble()
            self.controller = Controller(
                self._metadata_log,
                self._quorum(found.on_disk, now_ms),
                found.replay,
                settings=self._controller_settings(),
                levels=default_levels(),
                session_timeout_ms=settings.number("broker.session.timeout.ms"),
                clock=self._clock,
                worker=self._worker,
                on_failure=on_failure,
                trouble=trouble,
                reserve=Reserve(fs, data_directory),
            )
            undo.pop_all()
        self._membership = Membership(
            settings.node_id,
            self.controller,
            self._clock,
            heartbeat_interval_ms=settings.number("broker.heartbeat.interval.ms"),
            kraft_version=KRAFT_VERSION,
            on_failure=on_failure,
        )
        self._flushes = GroupCommit(self._worker)
        self.partitions = Partitions(settings.node_id, self.logs, self._flushes, self._clock, settings.static, trouble)
        producer_ids = ProducerIds(self.controller, settings.node_id)
        self._coordinators = Coordinators(
            settings.values, self.partitions, self._clock, lambda: uuid_to_text(self._new_id()), producer_ids
        )
        self._quotas = Quotas(self._clock, self._windows("quota"), self._windows("controller.quota"))
        context = Context(
            node_id=settings.node_id,
            cluster_id=self.cluster_id,
            clock=self._clock,
            controller=self.controller,
            partitions=self.partitions,
            fetch_sessions=FetchSessions(
                slots=settings.number("max.incremental.fetch.session.cache.slots"),
                max_response_bytes=settings.number("fetch.max.bytes"),
            ),
            producer_ids=producer_ids,
            coordinators=self._coordinators,
            quotas=self._quotas,
        )
        maintenance = MaintenanceSettings.from_broker(settings.values)
        self._maintenance = Maintenance(
            self.partitions, fs, self.logs, self._worker, self._flushes, self._clock, maintenance
        )
        self.dispatcher = Dispatcher(context)
        self._listeners = Listeners(
            loop,
            self.dispatcher.serve,
            self._limits_by_address(),
            clock=self._clock,
            throttle_ms=self._quotas.connection_throttle_ms,
            windows=self._windows("quota"),
        )
        self.listeners: tuple[Listener, ...] = ()  # as clients are told, once they are bound
        self._is_stopping = False  # perhaps before it has started: then it never does

    def _own(self, path: str) -> MetaProperties:
        """Whose directory this is; a new one is to become this node's. Raises StartError."""
        meta = self.logs.meta
        node_id = self.settings.node_id
        if meta is None:
            meta = MetaProperties(uuid_to_text(self._new_id()), node_id, self._new_id())
        elif meta.node_id is None:
            raise StartError(
                f"cannot start on {path}: its meta.properties does not say to which node it belongs.\n"
                "  Bring back the file as it was, or use another data directory."
            )
        elif meta.node_id != node_id:
            raise StartError(
                f"cannot start on {path}: it belongs to node {meta.node_id}, and node.id is {node_id}.\n"
                f"  Use another data directory, or start with --set node.id={meta.node_id}."
            )
        if meta.directory_id is None or meta.cluster_id is None:
            meta = meta._replace(
                cluster_id=meta.cluster_id or uuid_to_text(self._new_id()),
                directory_id=meta.directory_id or self._new_id(),
            )
        return meta

    def _give_directory_back(self) -> None:
        """As it was found, if that was clean."""
        if self.logs.broker_epoch is None:
            self.logs.abandon()
        else:
            with contextlib.suppress(StorageError):
                self.logs.close(broker_epoch=self.logs.broker_epoch)

    def _new_id(self) -> bytes:
        """A random uuid whose text does not begin with a dash, which tools would take for an option."""
        while True:
            new = self._random.randbytes(16)
            if not is_reserved_directory(new) and not uuid_to_text(new).startswith("-"):
                return new

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id or ""

    @property
    def directory_id(self) -> bytes:
        return self.meta.directory_id or ZERO_UUID

    def _tell_losses(self) -> None:
        """What could not be read; `partitions` tells about those logs that belong to a topic."""
        for warning in self.logs.warnings:
            _LOG.warning("%s", warning)
        report = self._metadata_log.log.recovery_report
        if report is not None and report.loss:
            _LOG.warning("[%s] was not closed well: %s", METADATA_DIRECTORY, report.loss)

    def _read_metadata(self) -> Found:
        """Raises StartError, since nothing can be served without them."""
        try:
            return self._metadata_log.read()
        except ValueError as error:  # bytes that are no records, or records that contradict one another
            raise StartError(f"cannot start on {self.logs.path}: its metadata cannot be read: {error}") from error

    def _refuse_logs_of_nobody(self, on_disk: OnDisk) -> None:
        """Without any metadata, the logs would be taken for those of deleted topics, and go. Raises StartError."""
        place = next(iter(self.logs), None)
        if place is not None and on_disk.log_end_offset == 0:
            raise StartError(
                f"cannot start on {self.logs.path}: it has logs, such as {place}, and no metadata that says whose.\n"
                f"  Bring {METADATA_DIRECTORY} back from where it is, or use another data directory."
            )

    def _quorum(self, on_disk: OnDisk, now_ms: int) -> Quorum:
        """Raises StartError."""
        number = self.settings.number
        policy = SnapshotPolicy(
            number("metadata.log.max.record.bytes.between.snapshots"), number("metadata.log.max.snapshot.interval.ms")
        )
        me = VoterNode(self.settings.node_id, self.directory_id, ())
        try:
            return Quorum(me, on_disk, kraft_version=KRAFT_VERSION, policy=policy, now_ms=now_ms)
        except ValueError as error:
            raise StartError(f"cannot start on {self.logs.path}: {error}.") from error

    def _controller_settings(self) -> ControllerSettings:
        settings = self.settings
        return ControllerSettings(
            node_id=settings.node_id,
            cluster_id=self.cluster_id,
            static=settings.static,
            default_partitions=settings.number("num.partitions"),
            default_replication_factor=settings.number("default.replication.factor"),
            delete_topic_enable=bool(settings.values["delete.topic.enable"]),
        )

    def _windows(self, kind: str) -> Windows:
        number = self.settings.number
        return Windows(number(f"{kind}.window.num"), number(f"{kind}.window.size.seconds") * 1000)

    # Starting

    def start(self) -> Later[None]:
        """Resolved when clients can connect. Raises OSError if a listener cannot be bound."""
        bound = [listener._replace(port=self._listeners.bind(listener).port) for listener in self.settings.listeners]
        self.listeners = tuple(map(_reachable, self.settings.told(bound)))
        # There is no listener for controllers alone: what they answer, this node answers where clients come.
        first = self.listeners[0]
        self.controller.quorum.reached_at(VoterEndpoint(self.settings.controller_listener, first.host, first.port))
        self.controller.subscribe(self.partitions.apply)
        self.controller.subscribe(self._coordinators.image_changed)
        self.controller.subscribe(self._quotas.apply)
        self.controller.subscribe(self._follow_configs)
        ready: Later[None] = Later()
        self.controller.start().then(lambda _: self._register(ready))
        return ready

    def _register(self, ready: Later[None]) -> None:
        if self._is_stopping:
            return
        # What the log said before this start has been committed without anybody listening.
        self.partitions.apply(EMPTY_IMAGE, self.controller.image)
        self.partitions.delete_strays()
        self._quotas.apply(EMPTY_IMAGE, self.controller.image)
        self._follow_configs(EMPTY_IMAGE, self.controller.image)
        self._membership.join(self._registration()).then(lambda _: self._serve(ready))

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.settings.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=self._new_id(),
            listeners=[
                broker_registration.Listener(each.name, each.host, each.port, self.settings.protocols[each.name])
                for each in self.listeners
            ],
            features=[
                broker_registration.Feature(name, levels.lowest, levels.highest)
                for name, levels in SUPPORTED_FEATURES.items()
            ],
            rack=self.settings.text("broker.rack"),
            log_dirs=[self.directory_id],
            previous_broker_epoch=-1 if self.logs.broker_epoch is None else self.logs.broker_epoch,
        )

    def _follow_configs(self, old: Image, new: Image) -> None:
        """What was changed while the broker runs."""
        if new.configs is not old.configs:
            settings = self.settings.with_changes(*layers(new, self.controller.settings))
            self._limits = settings.limits
            self._apply_limits()
            self._override_hosts.follow(self._limits.max_connections_per_ip_overrides, self._apply_limits)
            self.logs.cleaner.limits = settings.cleaner_limits
            self._maintenance.configure(MaintenanceSettings.from_broker(settings.values))

    def _apply_limits(self) -> None:
        self._listeners.limits = self._limits_by_address()

    def _limits_by_address(self) -> ConnectionLimits:
        overrides = self._override_hosts.by_address(self._limits.max_connections_per_ip_overrides)
        return self._limits._replace(max_connections_per_ip_overrides=overrides)

    def _serve(self, ready: Later[None]) -> None:
        if self._is_stopping:
            return
        self._maintenance.start()
        self._coordinators.start(self.controller.image)
        self._listeners.start()
        ready.resolve(None)

    # Stopping

    def stop(self) -> Later[None]:
        """Leave the cluster, also in the middle of the start; resolved when `close` may follow."""
        self._listeners.stop_accepting()
        self._cancel_timers()
        return self._membership.leave()

    def _cancel_timers(self) -> None:
        self._is_stopping = True
        self._membership.stop()
        self._maintenance.stop()
        self._coordinators.stop()

    def close(self) -> None:
        """Close everything, cleanly if `stop` was waited for. Raises StorageError."""
        self._listeners.close()
        self._worker.close()
        self._maintenance.close()
        self._flushes.close()
        with ThreadPoolExecutor(_CLOSING_SYNCS, thread_name_prefix="headrace-close") as syncers:
            self.logs.close(
                broker_epoch=self._membership.broker_epoch, run_all=syncers.map, others=[self._metadata_log.log]
            )

    def kill(self) -> None:
        """End as if the process had died: what is written is there, nothing else is, and the next start recovers."""
        self._cancel_timers()
        self._listeners.close()
        self._worker.abandon()
        self._maintenance.close()
        self._flushes.close()
        self._metadata_log.log.segments.close()
        self.logs.abandon()

    def idle(self) -> Later[None]:
        """Resolved when the worker has done all that it was given, and all that this led to."""
        return self._worker.idle()


def _reachable(listener: Listener) -> Listener:
    """What clients are told of it: where it is bound to every interface, how this machine is called."""
    return listener._replace(host=socket.gethostname()) if listener.host in ("", *WILDCARDS) else listener
