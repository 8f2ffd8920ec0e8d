"""One shard of a coordinator on this node, and the partition that it lives in: load, decide, write, answer.

States
    loading    the log is replayed, some of it at a time; whoever asks is told COORDINATOR_LOAD_IN_PROGRESS. The log may
               grow meanwhile (markers), and metadata may change: the loader reads to the end that there is when it gets
               there, and the shard is told of the newest image before anything else
    loaded     decisions are written and replayed at once, answered when they are committed
    dropped    the partition moved, or a write failed: everybody who waits is told to ask again, and nothing more is
               heard of this one. After a failed write the runtime makes a new one soon, asked or not, for the sake of
               time-outs

Reads take the same road as decisions, without records, so nobody is told of what may still be lost. A decision that
changed nothing but what it wrote (`is_light`) fails alone.

Invariants
    the shard's hard state is the replay of the log up to _last_offset
    an answer is given when the high watermark has passed all that was read or written before it
    each ticket in _pending is answered once, by its step or by the drop
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from headrace.cluster.image import Image
from headrace.coordinator.result import NO_PRODUCER_ID, Answer, Marking, Producer, Step, Ticket
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import EncodeError
from headrace.protocol.internal_records import CoordinatorRecord, encode_coordinator_record
from headrace.protocol.record_encoding import Row, seal_row, seal_rows
from headrace.server.clock import Timer
from headrace.server.coordinator_loading import replay_log
from headrace.server.later import Later
from headrace.server.log_errors import LOG_ERRORS, code_of
from headrace.server.partition import Partition

if TYPE_CHECKING:
    from headrace.server.coordinator_runtime import CoordinatorRuntime

_LOG: Final = logging.getLogger(__name__)
_RECORDS_AT_ONCE: Final = 1_000  # replayed between two turns of the loop: some ten milliseconds
_NEVER: Final = 1 << 62
# What the log refuses, and what a record has no room for: a name in a request may be longer than one in a record.
_UNWRITABLE: Final = (*LOG_ERRORS, EncodeError)

R = TypeVar("R")


class Shard(Protocol):
    """What the road asks of a state machine."""

    def replay(self, record: CoordinatorRecord, *, producer_id: int = ...) -> None: ...
    def replay_end(self, producer: Producer, *, committed: bool) -> None: ...
    def loaded(self, now_ms: int) -> None: ...
    def tick(self, now_ms: int) -> Iterator[Step]: ...
    def image_changed(self, image: Image, now_ms: int) -> Iterator[Step]: ...
    def clock_set(self, by_ms: int) -> None: ...
    @property
    def next_deadline_ms(self) -> int | None: ...


S = TypeVar("S", bound=Shard)
Refuse = Callable[[ErrorCode], R]


class Place(Generic[S]):
    """One shard and the partition that it lives in."""

    __slots__ = (
        "_due_ms",
        "_image",
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

    def __init__(self, runtime: "CoordinatorRuntime[S]", partition: Partition, image: Image) -> None:
        self._runtime = runtime
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.shard = runtime.make_shard(image)
        self._image = image  # the newest that the shard has heard of
        self.is_loaded = False
        self._loading: Iterator[int] = iter(())
        self._pending: dict[Ticket, tuple[Later[Any], Refuse[Any]]] = {}  # bounded by the requests in flight
        self._last_offset = -1  # of what this shard read or wrote
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
        self._runtime.follow_clock()
        self._last_offset = self.partition.log.log_end_offset - 1
        self.is_loaded = True
        self.shard.loaded(self._runtime.clock.now_ms())
        self.image_changed()  # while it was loading
        if self.is_loaded:
            self.carry_out_all(self.shard.tick(self._runtime.clock.now_ms()))  # what was due while nobody was there

    def image_changed(self) -> None:
        """Tell the shard, unless it knows, or must be loaded first: it compares the image with the one before."""
        image = self._runtime.image
        if self.is_loaded and image is not self._image:
            self._image = image
            self.carry_out_all(self.shard.image_changed(image, self._runtime.clock.now_ms()))

    def __repr__(self) -> str:
        return f"[{self._runtime.topic}-{self.partition.index} epoch {self.leader_epoch}]"

    # Deciding

    def decide(self, decide: Callable[[S, Ticket], Step], refuse: Refuse[R], *, is_light: bool) -> R | Later[R]:
        ticket = next(self._runtime.tickets)
        step = decide(self.shard, ticket)
        try:
            self._write(step)
        except _UNWRITABLE as error:
            if is_light and self.partition.log.failure is None:
                return refuse(ErrorCode.INVALID_REQUEST if isinstance(error, EncodeError) else code_of(error))
            _LOG.error("%s starts again, since a write failed: %s", self, error)
            self._fail()
            return refuse(ErrorCode.NOT_COORDINATOR)
        answers = step.answers
        if len(answers) == 1 and answers[0][0] == ticket and self._is_committed:
            self._say(step)
            self._set_timer()
            if step.markings:
                # How it ends is decided; whoever asked need not wait until it is carried out.
                self._runtime.clock.call_soon(partial(self._order, step.markings))
            response: R = answers[0][1]
            return response
        later: Later[R] = Later()
        self._pending[ticket] = (later, refuse)
        self._hand_out(step)
        return later

    def carry_out_all(self, steps: Iterator[Step]) -> None:
        for step in steps:
            try:
                self._write(step)
            except _UNWRITABLE as error:
                _LOG.error("%s starts again, since a write failed: %s", self, error)
                self._fail()
                return
            self._hand_out(step)
            if not self.is_loaded:  # what the step led to has failed, and others decide from now on
                return
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
        records = step.records
        producer = step.producer
        producer_id = NO_PRODUCER_ID
        if producer is not None:
            producer_id = producer.producer_id
            batch = seal_rows(
                _rows(records, now_ms), producer_id=producer_id, producer_epoch=producer.epoch, transactional=True
            )
        elif len(records) == 1:
            kind, key, version, value = records[0]
            batch = seal_row(*encode_coordinator_record(kind, key, value, version), now_ms)
        else:
            batch = seal_rows(_rows(records, now_ms))
        self._append(batch, records, now_ms, producer_id)

    def write_encoded(self, batch: bytearray, records: Sequence[CoordinatorRecord], now_ms: int) -> None:
        """A decision whose records are sealed in `batch` already. Raises one of LOG_ERRORS: nothing was written."""
        self._append(batch, records, now_ms, NO_PRODUCER_ID)
        self._set_timer()

    def _append(self, batch: bytearray, records: Sequence[CoordinatorRecord], now_ms: int, producer_id: int) -> None:
        self._last_offset = self.partition.append_as_coordinator(batch, now_ms=now_ms).last_offset
        replay = self.shard.replay
        for record in records:
            replay(record, producer_id=producer_id)

    # Answering

    @property
    def _is_committed(self) -> bool:
        return self._last_offset < self.partition.log.high_watermark

    def _hand_out(self, step: Step) -> None:
        """The answers and markers of what is written, when it is committed."""
        self._say(step)
        for overdue in step.overdue:
            self._runtime.on_overdue(overdue)
        if step.answers or step.markings:
            if self._is_committed:
                self._deliver(step)
            else:
                self.partition.wait(self._last_offset, _Uncommitted(self, step), 0)
        self._set_timer()

    def _say(self, step: Step) -> None:
        for notice in step.notices:
            _LOG.info("%s", notice)

    def _deliver(self, step: Step) -> None:
        for ticket, response in step.answers:
            pending = self._pending.pop(ticket, None)
            if pending is not None:
                pending[0].resolve(response)
        self._order(step.markings)

    def _order(self, markings: Sequence[Marking]) -> None:
        """Have markers written, as long as this shard is the one that answers for them."""
        on_marking = self._runtime.on_marking
        if on_marking is not None:
            for marking in markings:
                on_marking(marking, self.leader_epoch, self._is_here)

    def _is_here(self) -> bool:
        return self.is_loaded

    def committed(self, step: Step, code: ErrorCode) -> None:
        """What the step wrote is committed, or never will be."""
        if code is ErrorCode.NONE:
            self._deliver(step)
        else:
            self._fail()

    def _fail(self) -> None:
        self._runtime.start_again(self.partition.index)

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

    def clock_set(self, by_ms: int) -> None:
        """The timer counts the time that passes, and is right as it is."""
        self.shard.clock_set(by_ms)
        self._due_ms += by_ms

    def _time_has_come(self) -> None:
        self._runtime.follow_clock()
        self._timer = None
        self._due_ms = _NEVER
        self.carry_out_all(self.shard.tick(self._runtime.clock.now_ms()))


def _rows(records: Sequence[CoordinatorRecord], now_ms: int) -> list[Row]:
    """Raises EncodeError."""
    return [
        (*encode_coordinator_record(record.type, record.key, record.value, record.version), now_ms, None)
        for record in records
    ]


class _Uncommitted:
    """A step whose records are written and not yet committed."""

    __slots__ = ("_place", "_step")

    def __init__(self, place: Place[Any], step: Step) -> None:
        self._place = place
        self._step = step

    def settle(self, _: int, code: ErrorCode) -> None:
        self._place.committed(self._step, code)
