"""A coordinator on this node: requests find their shard, decisions are written, replayed and answered.

Theory. The keys of a coordinator (groups, transactional ids) are spread over the partitions of its topic; whoever leads
a partition runs its shard. A shard only computes (`coordinator.result` has the theory); this is the road around it:

    route     the partition of the key; led by this node, else the client looks for the coordinator again
    load      the first time: the partition's records are replayed, some of them at once, the rest between requests
    decide    the shard says what to write and whom to answer
    write     one batch, synchronously; then replayed, so that the next decision sees it
    answer    when the high watermark has passed the batch

This file is the first step; coordinator_place.py has the others.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import count
from typing import Final, Generic, TypeAlias

from headrace.cluster.image import Image
from headrace.coordinator.result import Marking, Overdue, Producer, Step, Ticket
from headrace.protocol.apis import RecordType
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.text_hash import spread
from headrace.server.clock import Clock
from headrace.server.coordinator_place import Place, R, Refuse, S
from headrace.server.later import Later
from headrace.server.partition import Partition
from headrace.server.partitions import Partitions

LOAD_AGAIN_MS: Final = 1_000  # after a write failed, if nobody asks earlier
_SET_MS: Final = 1_000  # a clock that goes wrong by so much between two looks was set
_KEPT_KEYS: Final = 10_000  # whose hashes are remembered: a group asks again and again

OnMarking: TypeAlias = Callable[[Marking, int, Callable[[], bool]], None]

_spread: Final = lru_cache(_KEPT_KEYS)(spread)


class CoordinatorRuntime(Generic[S]):
    """All shards of one coordinator that this node runs.

    `on_marking` gets the markers that a shard orders, the epoch of the coordinator, and what says whether that shard is
    still here: whatever takes its place orders them again. `on_overdue` gets what waits for a producer id.
    """

    def __init__(
        self,
        topic: str,
        types: Mapping[int, RecordType],
        make_shard: Callable[[Image], S],
        partitions: Partitions,
        clock: Clock,
        on_marking: OnMarking | None = None,
        on_overdue: Callable[[Overdue], None] = lambda _: None,
    ) -> None:
        self.topic = topic
        self.types = types
        self.make_shard = make_shard
        self.partitions = partitions
        self.clock = clock
        self.on_marking = on_marking
        self.on_overdue = on_overdue
        self.tickets = count(1)
        self._image: Image | None = None
        self.partition_count = 0  # of the topic; 0 as long as it does not exist
        self._places: dict[int, Place[S]] = {}
        self._seen_ms = clock.now_ms()  # when the clock was last compared
        self._day_ms = self._seen_ms - clock.steady_ms()  # what the time of day is ahead of the time that passes
        self._is_stopped = False

    def start(self, image: Image) -> None:
        """Load what this node leads, bit by bit: time-outs and expiry must not wait for the first request."""
        self._take(image)
        self._is_stopped = False
        self._load_next(iter(range(self.partition_count)))

    def _load_next(self, indexes: Iterator[int]) -> None:
        index = next(indexes, None)
        if index is not None and not self._is_stopped:
            self._find(index)
            self.clock.call_later(0, lambda: self._load_next(indexes))

    @property
    def image(self) -> Image:
        """The newest; there is none before the start."""
        assert self._image is not None
        return self._image

    @property
    def shards(self) -> list[S]:
        """All that are here, those that are loading included."""
        return [place.shard for place in self._places.values()]

    def index_of(self, key: str) -> int | None:
        """The partition of the topic that a key belongs to; None as long as the topic does not exist."""
        partition_count = self.partition_count
        return _spread(key, partition_count) if partition_count else None

    # Requests

    def submit(
        self, key: str, decide: Callable[[S, Ticket], Step], refuse: Refuse[R], *, is_light: bool = False
    ) -> R | Later[R]:
        """Decide in the shard of `key`; the answer when it is given and committed, or `refuse(code)`.

        `is_light`: the decision leaves nothing behind but its records, so that a write that is refused is the loss of
        the one who asked, and of nobody else.
        """
        place = self._place_of(key)
        if isinstance(place, ErrorCode):
            return refuse(place)
        return place.decide(decide, refuse, is_light=is_light)

    def advance(self, key: str, decide: Callable[[S], Step]) -> None:
        """Decide something that nobody has asked for. Forgotten if the shard is not here any more."""
        place = self._place_of(key)
        if not isinstance(place, ErrorCode):
            place.carry_out_all(iter((decide(place.shard),)))

    def glance(self, key: str, read: Callable[[S], R]) -> R | None:
        """What the shard of `key` says now, for a decision that follows at once; None if it is not here and loaded."""
        place = self._place_of(key)
        return None if isinstance(place, ErrorCode) else read(place.shard)

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

    def loaded_place(self, index: int) -> "Place[S] | None":
        """The shard of a partition, if it is loaded and this node leads it."""
        self.follow_clock()
        place = self._places.get(index)
        return place if place is not None and place.is_loaded and place.is_current else None

    def _place_of(self, key: str) -> "Place[S] | ErrorCode":
        index = self.index_of(key)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if index is None else self._find(index)

    def _find(self, index: int) -> "Place[S] | ErrorCode":
        """The shard of a partition, if it is here and loaded; what to tell the client otherwise."""
        self.follow_clock()
        place = self._places.get(index)
        if place is None or not place.is_current:
            if place is not None:
                self.drop(index)
            if self._is_stopped:
                return ErrorCode.NOT_COORDINATOR
            partition = self.partitions.leader(self.topic, index)
            if not isinstance(partition, Partition):
                return ErrorCode.NOT_COORDINATOR
            place = self._places[index] = Place(self, partition, self.image)
            place.load()
        return place if place.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    # The world

    def drop(self, index: int) -> None:
        """The shard is not valid any more; whoever waits must ask again."""
        place = self._places.pop(index, None)
        if place is not None:
            place.abandon()

    def start_again(self, index: int) -> None:
        """As `drop`; but time-outs must not wait until somebody asks."""
        self.drop(index)
        self.clock.call_later(LOAD_AGAIN_MS, lambda: self._load_next(iter((index,))))

    def follow_clock(self) -> None:
        """Deadlines are times of day, and stand for time that passes: if the clock was set, they are set with it.

        Before anything that looks at them. Otherwise a clock that is set forward would end all sessions, and one that
        is set back would let the dead live.
        """
        now_ms = self.clock.now_ms()
        if 0 <= now_ms - self._seen_ms < _SET_MS:  # nearly always, and cheap
            return
        self._seen_ms = now_ms
        day_ms = now_ms - self.clock.steady_ms()
        by_ms, self._day_ms = day_ms - self._day_ms, day_ms
        if abs(by_ms) >= _SET_MS:
            for place in self._places.values():
                place.clock_set(by_ms)

    def _take(self, image: Image) -> None:
        self._image = image
        topic_id = image.topic_ids.get(self.topic)
        self.partition_count = 0 if topic_id is None else len(image.topics[topic_id].partitions)

    def image_changed(self, _: Image, image: Image) -> None:
        self._take(image)
        for index, place in list(self._places.items()):
            if place.is_current:
                place.image_changed()
            else:
                self.drop(index)

    def stop(self) -> None:
        self._is_stopped = True
        for index in list(self._places):
            self.drop(index)
