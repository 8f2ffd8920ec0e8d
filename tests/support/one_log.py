"""A log that batches come to together or one by one: it must be the same. Plain batches, and those that are not."""

from collections.abc import Sequence

from hypothesis import strategies as st

from headrace.log.append import AppendResult
from headrace.log.config import LogConfig
from headrace.log.errors import LogError, StorageError
from headrace.log.even_append import EvenBatches, append_even
from headrace.log.log import Log
from headrace.log.memory_fs import MemoryFileSystem
from headrace.log.run_append import append_run
from headrace.protocol.batch import write_crc
from headrace.protocol.compression import Codec
from headrace.protocol.errors import CorruptBatchError
from tests.support.log_batches import EPOCH, NOW_MS, a_batch, append, values_of

DIRECTORY = "/data/t-0"
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=150, segment_ms=1000, max_message_bytes=300)
PRODUCER = 7
BEFORE, GAP = 9, 13


class OneLog:
    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.fs = MemoryFileSystem()
        self.fs.make_dir("/data")
        self.config = config
        self._even: dict[tuple[int, int], EvenBatches] = {}
        self.log = Log.open(self.fs, DIRECTORY, config, clean=False, now_ms=NOW_MS)
        for sequence in range(2):
            append(self.log, b"before", producer=PRODUCER, sequence=sequence)

    def run(self, *batches: bytearray) -> list[int]:
        """The base offsets of those that were written together."""
        placed = append_run(self.log, [memoryview(batch) for batch in batches], EPOCH)
        return [base_offset for _, _, base_offset, _, _ in placed]

    def even(self, *batches: bytearray, epoch: int = EPOCH) -> list[int]:
        """The same of batches of one size that lie in a buffer with gaps between them."""
        count, size = len(batches), len(batches[0])
        even = self._even.get((size, count))
        if even is None:
            even = self._even[size, count] = EvenBatches(at=BEFORE, distance=size + GAP, size=size, count=count)
        buffer = bytearray(b"!" * BEFORE + (b"?" * GAP).join(batches) + b"behind")
        return [*(append_even(self.log, buffer, even, epoch) or ())]

    def append_together(self, batches: Sequence[bytearray]) -> list[object]:
        """As far as they go together, and the others one by one."""
        results: list[object] = []
        rest = [memoryview(batch) for batch in batches]
        while rest:
            try:
                placed = append_run(self.log, rest, EPOCH)
            except StorageError:
                placed = []
            results += [
                AppendResult((base_offset, last_offset, timestamp, -1, False))
                for _, _, base_offset, last_offset, timestamp in placed
            ]
            rest = rest[len(placed) :]
            if rest:
                results.append(self.append_alone(rest.pop(0)))
        return results

    def append_alone(self, batch: bytearray | memoryview) -> object:
        """What became of it: a result, or the reason why there is none."""
        try:
            return self.log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
        except (LogError, CorruptBatchError) as error:
            return type(error), str(error)

    def known(self) -> object:
        """All that the log tells, and all that it leaves on the disk."""
        log = self.log
        active = log.active
        here = (log.log_end_offset, log.failure, values_of(log), log.producers.to_snapshot())
        counts = (active.size, active.max_timestamp, active.max_timestamp_offset, active.first_timestamp)
        batches = [
            (state.producer_id, state.next_sequence, state.last_timestamp, list(state.batches))
            for state in log.producers
        ]
        log.close()
        files = {name: self.fs.read_bytes(f"{DIRECTORY}/{name}") for name in self.fs.list_dir(DIRECTORY)}
        return here, counts, batches, files


def plain(*values: bytes, **details: object) -> bytearray:
    return a_batch(*values, **details)  # type: ignore[arg-type]


def of_producer(sequence: int, *values: bytes, **details: object) -> bytearray:
    return plain(*values, producer=PRODUCER, sequence=sequence, **details)


def damaged() -> bytearray:
    batch = a_batch(b"damaged")
    batch[-1] ^= 1
    return batch


LENGTH_AT, ATTRIBUTES_AT, DELTA_AT, COUNT_AT = 8, 21, 23, 57


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def changed(*changes: tuple[int, bytes]) -> bytearray:
    """A batch with another header, and the CRC that belongs to it."""
    batch = a_batch(b"changed")
    for place, value in changes:
        batch[place : place + len(value)] = value
    write_crc(memoryview(batch), 0, len(batch))
    return batch


NOT_PLAIN = {
    "damaged": damaged(),
    "too short": bytearray(60),
    "empty": bytearray(),
    "cut off": a_batch(b"cut")[:-1],
    "two": a_batch() + a_batch(),
    "another magic": a_batch()[:16] + b"\1" + a_batch()[17:],
    "another length": changed((LENGTH_AT, int32(60))),
    "a gap": changed((DELTA_AT, int32(1))),
    "no records": changed((COUNT_AT, int32(0))),
    "no records and no delta": changed((DELTA_AT, int32(-1)), (COUNT_AT, int32(0))),
    "more records than bytes": changed((DELTA_AT, int32(998)), (COUNT_AT, int32(999))),
    "another codec": changed((ATTRIBUTES_AT, b"\0\5")),
    "time of the log": changed((ATTRIBUTES_AT, b"\0\10")),
    "control": changed((ATTRIBUTES_AT, b"\0\40")),
    "another attribute": changed((ATTRIBUTES_AT, b"\200\0")),
    "transactional": plain(b"t", producer=PRODUCER, sequence=2, transactional=True),
    "too large": plain(b"x" * 300),
    "too late": plain(timestamps=[NOW_MS + 10_000]),
    "too new": plain(timestamps=[NOW_MS + (1 << 50)]),
    "of a producer": of_producer(2),
}

batches = st.one_of(
    st.builds(
        lambda values, time, codec: plain(*values, timestamps=[time] * len(values), codec=codec),
        st.lists(st.binary(max_size=60), min_size=1, max_size=3),
        st.sampled_from([NOW_MS, NOW_MS + 1, NOW_MS - 1, NOW_MS + 400, NOW_MS + 900, NOW_MS + 1100, -1]),
        st.sampled_from([Codec.NONE, Codec.GZIP]),
    ),
    st.builds(
        lambda sequence, count, producer, time: plain(
            *[b"p"] * count, producer=producer, sequence=sequence, timestamps=[time] * count
        ),
        st.integers(0, 12),
        st.integers(1, 3),
        st.sampled_from([PRODUCER, PRODUCER, 8]),
        st.sampled_from([NOW_MS, NOW_MS + 5, NOW_MS - 5]),
    ),
    st.sampled_from(sorted(NOT_PLAIN)).map(lambda kind: bytearray(NOT_PLAIN[kind])),
)
in_sequence = st.integers(2, 12).map(lambda count: [of_producer(2 + index) for index in range(count)])
offers = st.lists(st.one_of(st.lists(batches, max_size=8), in_sequence), max_size=6)
