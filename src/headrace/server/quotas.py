"""Quotas at work: who is too fast is told so, and not listened to for a while.

Theory. A client with a quota gets a `Meter` for each of its requests. The meter counts what the request costs (bytes
in, bytes out, time on the loop, partitions made or unmade), and if that is too much, it says for how long the client
must be silent: the answer tells it in `throttle_time_ms`, and the connection is muted, since a client may not care.
The request itself is served all the same, with two exceptions: the answer to a fetch is withheld and asked for again,
and newer versions of the calls that change topics refuse what is too much.

The time of a request is that between its arrival at the dispatcher and the return of its handler, in percent of the
one thread that serves; encoding the answer is counted after the answer, and waiting is not counted.

Everybody else pays for one look at `is_active`, and for one more at a dictionary when other clients have quotas.
"""

from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final, Generic, TypeVar

from headrace.cluster.decision import MutationQuota
from headrace.cluster.image import EMPTY_IMAGE, Image
from headrace.cluster.quotas import IP
from headrace.server.clock import Clock
from headrace.server.connection import Connection
from headrace.server.later import Later
from headrace.server.quotas_entities import (
    ANONYMOUS,
    CONNECTIONS,
    UNLIMITED,
    ClientLimits,
    Limit,
    connection_limits,
    limits_of,
    plain_address,
)
from headrace.server.quotas_rates import DEFAULT_WINDOWS, Rate, TokenBucket, Windows

S = TypeVar("S", bound=Rate | TokenBucket)
_Key = tuple[str, str, str]

MAX_CLIENTS: Final = 10_000  # whose quotas are remembered; looking them up again costs some microseconds
MAX_SENSORS: Final = 10_000  # rates that are kept, at 2 KB each
SENSOR_IDLE_MS: Final = 3_600_000  # after which a rate is forgotten: its client went away
_PERCENT_SECONDS: Final = 100 / 1e9  # of a nanosecond
_NO_LIMIT_BYTES: Final = 2**31 - 1


class Sensors(Generic[S]):
    """What is measured, by whom it is shared. Bounded: what was not used for longest goes first."""

    __slots__ = ("_make", "_sensors")

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._sensors: OrderedDict[_Key, S] = OrderedDict()  # in the order of their last use

    def __len__(self) -> int:
        return len(self._sensors)

    def get(self, key: _Key, *, now_ms: int) -> S:
        """The one that is there, or a new one."""
        sensor = self._sensors.get(key)
        if sensor is not None:
            self._sensors.move_to_end(key)
            return sensor
        self._make_room(now_ms)
        sensor = self._sensors[key] = self._make()
        return sensor

    def _make_room(self, now_ms: int) -> None:
        """For one more. Those of clients that went away are forgotten on the occasion."""
        while self._sensors:
            idle_ms = now_ms - next(iter(self._sensors.values())).used_ms
            if idle_ms < SENSOR_IDLE_MS and len(self._sensors) < MAX_SENSORS:
                return
            self._sensors.popitem(last=False)


class Quotas:
    """All quotas of a broker, as the newest image says, and how fast their clients are."""

    __slots__ = (
        "_buckets",
        "_clients",
        "_clock",
        "_connections",
        "_quotas",
        "_rates",
        "_windows",
        "is_active",
        "now_ns",
    )

    def __init__(
        self,
        clock: Clock,
        windows: Windows = DEFAULT_WINDOWS,
        controller_windows: Windows = DEFAULT_WINDOWS,
        *,
        now_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._clock = clock
        self._windows = windows
        self._quotas = EMPTY_IMAGE.client_quotas
        self._clients: dict[str | None, ClientLimits] = {}  # by client id
        self._connections: dict[str | None, float] = {}  # by address
        self._rates = Sensors(lambda: Rate(windows))
        self._buckets = Sensors(lambda: TokenBucket(controller_windows))
        self.now_ns = now_ns
        self.is_active = False  # does any client have a quota?

    def apply(self, _: Image, new: Image) -> None:
        """What `new` says holds from now on; how fast clients have been is remembered."""
        if new.client_quotas is not self._quotas:
            self._quotas = new.client_quotas
            self._clients.clear()
            self._connections = connection_limits(new.client_quotas)
            self.is_active = any(entity[0][0] != IP for entity in new.client_quotas)

    def meter(self, connection: Connection, client_id: str | None) -> "Meter | None":
        """For one request that arrives now; None if no quota holds for its client."""
        limits = self._clients.get(client_id)
        if limits is None:
            if len(self._clients) >= MAX_CLIENTS:
                self._clients.clear()
            limits = self._clients[client_id] = limits_of(self._quotas, user=ANONYMOUS, client_id=client_id or "")
        return None if limits is UNLIMITED else Meter(self, connection, limits)

    def connection_throttle_ms(self, address: str) -> int:
        """Somebody connects: 0 if he may, else how long he must wait."""
        if not self._connections:
            return 0
        address = plain_address(address)
        per_second = self._connections.get(address, self._connections.get(None))
        if per_second is None:
            return 0
        limit = Limit((CONNECTIONS, address, ""), per_second)
        throttle_ms = self.charge(limit, 1)
        if throttle_ms:
            self.charge(limit, -1)  # he did not get in
        return min(throttle_ms, self._windows.size_ms)

    # For meters

    def charge(self, limit: Limit, value: float) -> int:
        """Count it. For how long the client must be silent."""
        now_ms = self._clock.now_ms()
        rate = self._rates.get(limit.shared_by, now_ms=now_ms)
        rate.record(value, now_ms=now_ms)
        return rate.throttle_ms(limit.per_second, now_ms=now_ms)

    def charge_time(self, limit: Limit, nanoseconds: int) -> int:
        """The same for time on the loop. One window of silence is enough, however long a request took."""
        return min(self.charge(limit, nanoseconds * _PERCENT_SECONDS), self._windows.size_ms)

    def max_fetch_bytes(self, limit: Limit) -> int:
        """More than this in one answer could never be sent, however long the client waits."""
        return int(min(limit.per_second * self._windows.credit_seconds, _NO_LIMIT_BYTES))

    def mutations(self, limit: Limit, *, is_strict: bool) -> "Mutations":
        bucket = self._buckets.get(limit.shared_by, now_ms=self._clock.now_ms())
        return Mutations(bucket, limit.per_second, self._clock, is_strict=is_strict)

    def silence(self, connection: Connection, throttle_ms: int) -> None:
        connection.mute()
        self._clock.call_later(throttle_ms, connection.unmute)


class Meter:
    """What one request costs. Whatever it finds out mutes the connection at once."""

    __slots__ = (
        "_connection",
        "_is_timed",
        "_limits",
        "_mutations",
        "_quotas",
        "_since_ns",
        "_spent_ns",
        "throttle_ms",
    )

    def __init__(self, quotas: Quotas, connection: Connection, limits: ClientLimits) -> None:
        self._quotas = quotas
        self._connection = connection
        self._limits = limits
        self._mutations: Mutations | None = None
        self._since_ns = quotas.now_ns() if limits.request_time is not None else 0
        self._spent_ns: int | None = None  # None: it is still being served
        self._is_timed = False  # its time is counted
        self.throttle_ms = 0

    # For handlers

    @property
    def max_fetch_bytes(self) -> int:
        limit = self._limits.fetch
        return _NO_LIMIT_BYTES if limit is None else self._quotas.max_fetch_bytes(limit)

    def withholds(self, size_of_answer: Callable[[], int]) -> bool:
        """Count the answer to a fetch. True: it must not be sent, and an empty one takes its place."""
        self._count_time()
        limit = self._limits.fetch
        if limit is not None:
            size_bytes = size_of_answer()
            self._throttle(self._quotas.charge(limit, size_bytes))
            if self.throttle_ms:
                self._quotas.charge(limit, -size_bytes)
        return self.throttle_ms > 0

    def mutation_quota(self, *, is_strict: bool) -> MutationQuota | None:
        """For calls that create and delete partitions. None: there is no quota."""
        limit = self._limits.mutations
        if limit is not None:
            self._mutations = self._quotas.mutations(limit, is_strict=is_strict)
        return self._mutations

    # For the dispatcher

    def settle(self, response: Any, *, produced_bytes: int = 0) -> Any:
        """The request is served. Its response, which tells how long the client must be silent."""
        limit = self._limits.produce
        if produced_bytes and limit is not None:
            self._throttle(self._quotas.charge(limit, produced_bytes))
        if response is None:
            return response
        if isinstance(response, Later):
            self._spent_ns = self._quotas.now_ns() - self._since_ns
            return response.map(self._tell)
        return self._tell(response)

    def end(self) -> None:
        """The answer is encoded: count that, too."""
        limit = self._limits.request_time
        if limit is not None:
            self._quotas.charge_time(limit, self._quotas.now_ns() - self._since_ns)

    def _tell(self, response: Any) -> Any:
        self._count_time()
        if self._mutations is not None:
            self._throttle(self._mutations.throttle_ms)
        can_tell = self.throttle_ms and "throttle_time_ms" in response._fields
        return response._replace(throttle_time_ms=self.throttle_ms) if can_tell else response

    def _count_time(self) -> None:
        limit = self._limits.request_time
        if limit is None or self._is_timed:
            return
        self._is_timed = True
        now_ns = self._quotas.now_ns()
        spent_ns = now_ns - self._since_ns if self._spent_ns is None else self._spent_ns
        self._since_ns = now_ns
        self._throttle(self._quotas.charge_time(limit, spent_ns))

    def _throttle(self, throttle_ms: int) -> None:
        if throttle_ms > self.throttle_ms:
            self.throttle_ms = throttle_ms
            self._quotas.silence(self._connection, throttle_ms)


class Mutations:
    """The account of one request that changes topics: ask for each change (KIP-599).

    Strict: what comes when the bucket is empty is refused. Otherwise all is granted, and the client waits afterwards.
    """

    __slots__ = ("_bucket", "_clock", "_found_ms", "_is_strict", "_per_second", "_throttle_ms")

    def __init__(self, bucket: TokenBucket, per_second: float, clock: Clock, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._per_second = per_second
        self._clock = clock
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._found_ms = 0

    def __call__(self, partitions: int) -> bool:
        now_ms = self._clock.now_ms()
        bucket, per_second = self._bucket, self._per_second
        if self._is_strict and (throttle_ms := bucket.throttle_ms(per_second, now_ms=now_ms)):
            self._throttle_ms, self._found_ms = throttle_ms, now_ms
            return False
        bucket.record(partitions, per_second, now_ms=now_ms)
        if not self._is_strict and (throttle_ms := bucket.throttle_ms(per_second, now_ms=now_ms)):
            self._throttle_ms, self._found_ms = throttle_ms, now_ms
        return True

    @property
    def throttle_ms(self) -> int:
        """What is left of it: the commit has taken some of the time."""
        return max(0, self._throttle_ms - (self._clock.now_ms() - self._found_ms))
