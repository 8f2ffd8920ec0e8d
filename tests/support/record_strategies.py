"""Records and batches for hypothesis: nulls, headers, gaps, zeros, and timestamps that go back and forth."""

from hypothesis import strategies as st

from headrace.protocol.batch import BatchHeader, verify
from headrace.protocol.compression import Codec
from headrace.protocol.records import NewRecord, Record, build_batch, read_records, rebuild_batch

# Zeros and short lengths make values look like records, which is what the columnar reader has to see through.
lookalikes = st.lists(st.sampled_from([0, 0, 0, 1, 2, 12, 14, 16, 0x80, 0x90, 0xFF]), max_size=40).map(bytes)
contents = st.none() | st.binary(max_size=200) | lookalikes
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4).map(tuple)
timestamps = st.integers(-1, 2**45) | st.sampled_from([0, 1_700_000_000_000, 1_700_000_000_001])
codecs = st.sampled_from(Codec)
new_records = st.builds(NewRecord, timestamps, contents, contents, st.just(()) | headers)
record_lists = st.lists(new_records, min_size=1, max_size=80) | st.lists(
    st.builds(NewRecord, st.just(1_700_000_000_000), st.none(), lookalikes), min_size=1, max_size=80
)


@st.composite
def batches(draw: st.DrawFn, base_offset: int = 0) -> bytearray:
    """One batch as a log may hold it: new, or with gaps that compaction has left, or emptied by it."""
    producer_id = draw(st.sampled_from([-1, 7, 8]))
    batch = build_batch(
        draw(record_lists),
        base_offset=base_offset,
        codec=draw(codecs),
        log_append_time_ms=draw(st.none() | timestamps),
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=-1 if producer_id < 0 else draw(st.integers(0, 2**31 - 1)),
        transactional=producer_id >= 0 and draw(st.booleans()),
        leader_epoch=draw(st.integers(-1, 5)),
    )
    if draw(st.booleans()):
        return batch
    header, records = opened(batch)
    kept = [record for record in records if draw(st.booleans())]
    return rebuild_batch(header, kept, delete_horizon_ms=draw(st.none() | st.integers(0, 2**45)))


@st.composite
def logs(draw: st.DrawFn, max_batches: int = 5) -> bytes:
    """Several batches behind one another, with gaps in their offsets."""
    log = bytearray()
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, max_batches))):
        batch = draw(batches(base_offset=offset))
        offset = verify(batch).next_offset + draw(st.integers(0, 3))
        log += batch
    return bytes(log)


def opened(batch: bytes | bytearray) -> tuple[BatchHeader, list[Record]]:
    return verify(batch), list(read_records(batch))
