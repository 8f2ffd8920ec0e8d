"""A coordinator on this node: requests find their shard, decisions are written, replayed and answered.

Theory. The keys of a coordinator (groups, transactional ids) are spread over the partitions of its topic; whoever leads
a partition runs its shard. A shard only computes (`coordinator.result` has the theory); this is the road around it:

    route     the partition of the key; led by this node, else the client looks for the coordinator again
    load      the first time: the partition's records are replayed, some of them at once, the rest between requests
    decide    the shard says what to write and whom to answer
    write     one batch, synchronously; then replayed, so that the next decision sees it
    answer    when the high watermark has passed the batch

Reads take the same road without records, so nobody is told of what may still be lost. If the partition moves or a write
fails, the shard is dropped and everybody who waits is told to ask again; the next request loads a new one.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.cluster.image import Image
from headrace.coordinator.result import Answer, Marking, Producer, Step, Ticket
from headrace.protocol.apis import RecordType
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import EncodeError
from headrace.protocol.internal_records import CoordinatorRecord, encode_coordinator_record
from headrace.protocol.records import NewRecord, build_batch
from headrace.protocol.text_hash import spread
from headrace.server.clock import Clock, Timer
from headrace.server.coordinator_loading import replay_log
from headrace.server.later import Later
from headrace.server.log_errors import LOG_ERRORS, code_of
from headrace.server.partition import Partition
from headrace.server.partitions import Partitions

_LOG: Final = logging.getLogger(__name__)
_RECORDS_AT_ONCE: Final = 1_000  # replayed between two turns of the loop: some ten milliseconds
_NEVER: Final = 1 << 62
# What the log refuses, and what a record has no room for: a name in a request may be longer than one in a record.
_UNWRITABLE: Final = (*LOG_ERRORS, EncodeError)

R = TypeVar("R")


class Shard(Protocol):
    """What the runtime asks of a state machine."""

    def replay(self, record: CoordinatorRecord, *, producer_id: int = ...) -> None: ...
    def replay_end(self, producer: Producer, *, committed: bool) -> None: ...
    def loaded(self, now_ms: int) -> None: ...
    def tick(self, now_ms: int) -> Iterator[Step]: ...
    def image_changed(self, image: Image, now_ms: int) -> Iterator[Step]: ...
    @property
    def next_deadline_ms(self) -> int | None: ...


S = TypeVar("S", bound=Shard)
Refuse = Callable[[ErrorCode], R]


class CoordinatorRuntime(Generic[S]):
    """All shards of one coordinator that this node runs.

    `on_marking` gets the markers that a shard orders, and the epoch of the coordinator.
    """

    def __init__(
        self,
        topic: str,
        types: Mapping[int, RecordType],
        make_shard: Callable[[Image], S],
        partitions: Partitions,
        clock: Clock,
        on_marking: Callable[[Marking, int], None] | None = None,
    ) -> None:
        self.topic = topic
        self.types = types
        self.make_shard = make_shard
        self.partitions = partitions
        self.clock = clock
        self.on_marking = on_marking
        self.tickets = count(1)
        self._image: Image | None = None
        self._places: dict[int, _Place[S]] = {}

    def start(self, image: Image) -> None:
        """Load what this node leads, bit by bit: time-outs and expiry must not wait for the first request."""
        self._image = image
        self._load_next(iter(range(self.partition_count)))

    def _load_next(self, indexes: Iterator[int]) -> None:
        index = next(indexes, None)
        if index is not None:
            self._find(index)
            self.clock.call_later(0, lambda: self._load_next(indexes))

    @property
    def partition_count(self) -> int:
        """0 as long as the topic does not exist."""
        image = self._image
        topic_id = None if image is None else image.topic_ids.get(self.topic)
        return 0 if image is None or topic_id is None else len(image.topics[topic_id].partitions)

    def index_of(self, key: str) -> int | None:
        """The partition of the topic that a key belongs to; None as long as the topic does not exist."""
        partition_count = self.partition_count
        return spread(key, partition_count) if partition_count else None

    # Requests

    def submit(
        self, key: str, decide: Callable[[S, Ticket], Step], refuse: Refuse[R], *, is_light: bool = False
    ) -> Later[R]:
        """Decide in the shard of `key`; the answer when it is given and committed, or `refuse(code)`.

        `is_light`: the decision leaves nothing behind but its records, so that a write that is refused is the loss of
        the one who asked, and of nobody else.
        """
        later: Later[R] = Later()
        place = self._place_of(key)
        if isinstance(place, ErrorCode):
            later.resolve(refuse(place))
        else:
            place.decide(decide, later, refuse, is_light=is_light)
        return later

    def advance(self, key: str, decide: Callable[[S], Step]) -> None:
        """Decide something that nobody has asked for. Forgotten if the shard is not here any more."""
        place = self._place_of(key)
        if not isinstance(place, ErrorCode):
            place.carry_out_all(iter((decide(place.shard),)))

    def look(self, key: str, read: Callable[[S], R], refuse: Refuse[R]) -> Later[R]:
        """What the shard of `key` says, when all that it rests on is committed."""
        place = self._place_of(key)
        if not isinstance(place, ErrorCode):
            return place.look(read, refuse)
        later: Later[R] = Later()
        later.resolve(refuse(place))
        return later

    def look_everywhere(self, read: Callable[[S], R], refuse: Refuse[R]) -> list[Later[R]]:
        """What each shard of this node says; refused by those that are still loading."""
        laters = []
        for index in range(self.partition_count):
            place = self._find(index)
            if not isinstance(place, ErrorCode):
                laters.append(place.look(read, refuse))
            elif place is not ErrorCode.NOT_COORDINATOR:
                laters.append(Later())
                laters[-1].resolve(refuse(place))
        return laters

    def end_transaction(self, index: int, producer: Producer, *, committed: bool) -> None:
        """A marker was written to this partition of the topic."""
        place = self._places.get(index)
        if place is not None and place.is_loaded:
            place.shard.replay_end(producer, committed=committed)

    def _place_of(self, key: str) -> "_Place[S] | ErrorCode":
        index = self.index_of(key)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if index is None else self._find(index)

    def _find(self, index: int) -> "_Place[S] | ErrorCode":
        """The shard of a partition, if it is here and loaded; what to tell the client otherwise."""
        place = self._places.get(index)
        if place is None or not place.is_current:
            if place is not None:
                self.drop(index)
            partition = self.partitions.leader(self.topic, index)
            if not isinstance(partition, Partition):
                return ErrorCode.NOT_COORDINATOR
            assert self._image is not None
            place = self._places[index] = _Place(self, partition, self.make_shard(self._image))
            place.load()
        return place if place.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    # The world

    def drop(self, index: int) -> None:
        """The shard is not valid any more; whoever waits must ask again."""
        place = self._places.pop(index, None)
        if place is not None:
            place.abandon()

    def image_changed(self, _: Image, image: Image) -> None:
        self._image = image
        for index, place in list(self._places.items()):
            if not place.is_current:
                self.drop(index)
            elif place.is_loaded:
                place.carry_out_all(place.shard.image_changed(image, self.clock.now_ms()))

    def stop(self) -> None:
        for index in list(self._places):
            self.drop(index)


class _Place(Generic[S]):
    """One shard and the partition that it lives in."""

    __slots__ = (
        "_due_ms",
        "_last_offset",
        "_loading",
        "_pending",
        "_runtime",
        "_timer",
        "is_loaded",
        "leader_epoch",
        "partition",
        "shard",
    )

    def __init__(self, runtime: CoordinatorRuntime[S], partition: Partition, shard: S) -> None:
        self._runtime = runtime
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.shard = shard
        self.is_loaded = False
        self._loading: Iterator[int] = iter(())
        self._pending: dict[Ticket, tuple[Later[Any], Refuse[Any]]] = {}  # bounded by the requests in flight
        self._last_offset = -1  # of what this shard wrote
        self._timer: Timer | None = None
        self._due_ms = _NEVER

    @property
    def is_current(self) -> bool:
        """Does this node still lead the partition, in the same epoch?"""
        partition = self.partition
        return (
            partition.is_leader
            and partition.leader_epoch == self.leader_epoch
            and self._runtime.partitions.has(partition)
        )

    # Loading

    def load(self) -> None:
        self._loading = replay_log(self.partition.log, self._runtime.types, self.shard)
        self._load_more()

    def _load_more(self) -> None:
        """Some of what is left; the rest after others have had their turn."""
        replayed = 0
        try:
            for records in self._loading:
                replayed += records
                if replayed >= _RECORDS_AT_ONCE:
                    self._timer = self._runtime.clock.call_later(0, self._load_more)
                    return
        except (*LOG_ERRORS, OSError) as error:
            _LOG.error("%s cannot be loaded: %s", self, error)
            self._fail()
            return
        self._timer = None
        self.is_loaded = True
        now_ms = self._runtime.clock.now_ms()
        self.shard.loaded(now_ms)
        self.carry_out_all(self.shard.tick(now_ms))  # what was due while nobody was there

    def __repr__(self) -> str:
        return f"[{self._runtime.topic}-{self.partition.index} epoch {self.leader_epoch}]"

    # Deciding

    def decide(
        self, decide: Callable[[S, Ticket], Step], later: Later[Any], refuse: Refuse[Any], *, is_light: bool
    ) -> None:
        ticket = next(self._runtime.tickets)
        self._pending[ticket] = (later, refuse)
        step = decide(self.shard, ticket)
        try:
            self._write(step)
        except _UNWRITABLE as error:
            if not is_light or self.partition.log.failure is not None:
                _LOG.error("%s starts again, since a write failed: %s", self, error)
                self._fail()
                return
            del self._pending[ticket]
            is_unspeakable = isinstance(error, EncodeError)
            later.resolve(refuse(ErrorCode.INVALID_REQUEST if is_unspeakable else code_of(error)))
            return
        self._hand_out(step)

    def carry_out_all(self, steps: Iterator[Step]) -> None:
        for step in steps:
            try:
                self._write(step)
            except _UNWRITABLE as error:
                _LOG.error("%s starts again, since a write failed: %s", self, error)
                self._fail()
                return
            self._hand_out(step)
        self._set_timer()

    def look(self, read: Callable[[S], R], refuse: Refuse[R]) -> Later[R]:
        later: Later[R] = Later()
        response = read(self.shard)
        if self._is_committed:
            later.resolve(response)
        else:
            ticket = next(self._runtime.tickets)
            self._pending[ticket] = (later, refuse)
            self._hand_out(Step(answers=(Answer(ticket, response),)))
        return later

    def _write(self, step: Step) -> None:
        """Raises one of _UNWRITABLE."""
        if not step.records:
            return
        now_ms = self._runtime.clock.now_ms()
        rows = [
            NewRecord(now_ms, *encode_coordinator_record(record.type, record.key, record.value, record.version))
            for record in step.records
        ]
        producer = step.producer
        if producer is None:
            batch = build_batch(rows)
            producer_id = -1
        else:
            producer_id = producer.producer_id
            batch = build_batch(rows, producer_id=producer_id, producer_epoch=producer.epoch, transactional=True)
        self._last_offset = self.partition.append_as_coordinator(batch, now_ms=now_ms).last_offset
        replay = self.shard.replay
        for record in step.records:
            replay(record, producer_id=producer_id)

    # Answering

    @property
    def _is_committed(self) -> bool:
        return self._last_offset < self.partition.log.high_watermark

    def _hand_out(self, step: Step) -> None:
        """The answers and markers of what is written, when it is committed."""
        for notice in step.notices:
            _LOG.info("%s", notice)
        if step.answers or step.markings:
            if self._is_committed:
                self._deliver(step)
            else:
                self.partition.wait(self._last_offset, _Uncommitted(self, step), 0)
        self._set_timer()

    def _deliver(self, step: Step) -> None:
        for ticket, response in step.answers:
            pending = self._pending.pop(ticket, None)
            if pending is not None:
                pending[0].resolve(response)
        if self._runtime.on_marking is not None:
            for marking in step.markings:
                self._runtime.on_marking(marking, self.leader_epoch)

    def committed(self, step: Step, code: ErrorCode) -> None:
        """What the step wrote is committed, or never will be."""
        if code is ErrorCode.NONE:
            self._deliver(step)
        else:
            self._fail()

    def _fail(self) -> None:
        self._runtime.drop(self.partition.index)

    def abandon(self) -> None:
        """Whoever waits must look for the coordinator again."""
        if self._timer is not None:
            self._timer.cancel()
        self.is_loaded = False
        self._loading = iter(())
        pending, self._pending = self._pending, {}
        for later, refuse in pending.values():
            later.resolve(refuse(ErrorCode.NOT_COORDINATOR))

    # Time

    def _set_timer(self) -> None:
        """A call at the next deadline, unless one comes earlier anyway."""
        deadline_ms = self.shard.next_deadline_ms
        if deadline_ms is None or deadline_ms >= self._due_ms or not self.is_loaded:
            return
        if self._timer is not None:
            self._timer.cancel()
        clock = self._runtime.clock
        self._due_ms = deadline_ms
        self._timer = clock.call_later(max(deadline_ms - clock.now_ms(), 0), self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self._due_ms = _NEVER
        self.carry_out_all(self.shard.tick(self._runtime.clock.now_ms()))


class _Uncommitted:
    """A step whose records are written and not yet committed."""

    __slots__ = ("_place", "_step")

    def __init__(self, place: _Place[Any], step: Step) -> None:
        self._place = place
        self._step = step

    def settle(self, _: int, code: ErrorCode) -> None:
        self._place.committed(self._step, code)
