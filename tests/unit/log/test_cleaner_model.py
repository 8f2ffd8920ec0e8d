"""Compaction against its own model: the newest offsets by key, computed from the whole history in the plainest way.

What the model predicts is exact: which records are there after each round. Beyond it, what readers rely on must hold
after every step: offsets and records never change, the committed state is the same, no aborted record comes alive,
tombstones are visible long enough, and a replay of the batches gives each producer the state that it had.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.cleaner_keys import ENTRY_BYTES
from headrace.log.cleaner_run import CleanerLimits
from headrace.protocol.compression import Codec
from tests.support.compaction import (
    COMPACT,
    CompactedLog,
    check_transactions,
    final_state,
    producer_facts,
    read_all,
    read_committed,
    replayed_producers,
)

KEYS = [b"a", b"b", b"c"]
PRODUCERS = [1, 2]


class Written(NamedTuple):
    key: bytes
    value: bytes | None
    transaction: int | None  # its number; None outside transactions


class Model:
    def __init__(self) -> None:
        self.history: dict[int, Written] = {}  # every record ever, by offset
        self.outcomes: dict[int, bool | None] = {}  # transaction -> committed, or None while it is open
        self.open: dict[int, int] = {}  # producer -> its open transaction
        self.present: set[int] = set()  # the offsets that must be in the log
        self.first_cleaned_ms: dict[int, int] = {}  # of tombstones

    def wrote(self, offset: int, key: bytes, value: bytes | None, transaction: int | None) -> None:
        self.history[offset] = Written(key, value, transaction)
        self.present.add(offset)

    def begin(self, producer: int) -> int:
        transaction = self.open.setdefault(producer, len(self.outcomes))
        self.outcomes.setdefault(transaction, None)
        return transaction

    def end(self, producer: int, *, commit: bool) -> None:
        self.outcomes[self.open.pop(producer)] = commit

    def is_committed(self, offset: int) -> bool:
        transaction = self.history[offset].transaction
        return transaction is None or self.outcomes[transaction] is True

    def cleaned(self, *, mapped_to: int, touched_to: int, now_ms: int, retention_ms: int) -> None:
        newest = {
            self.history[offset].key: offset
            for offset in sorted(self.history)
            if offset < mapped_to and self.is_committed(offset)
        }
        for offset in sorted(self.present):
            if offset >= touched_to:
                break
            record = self.history[offset]
            is_tombstone = record.value is None
            if not self.is_committed(offset) or (offset < mapped_to and newest[record.key] != offset):
                self.present.remove(offset)
            elif is_tombstone and offset not in self.first_cleaned_ms:
                self.first_cleaned_ms[offset] = now_ms
            elif is_tombstone and offset < mapped_to and now_ms >= self.first_cleaned_ms[offset] + retention_ms:
                self.present.remove(offset)


class Story:
    """Runs steps against a log and the model, and compares after each."""

    def __init__(self, limit_keys: int | None, segment_bytes: int) -> None:
        limits = CleanerLimits() if limit_keys is None else CleanerLimits(dedupe_buffer_bytes=limit_keys * ENTRY_BYTES)
        self.log = CompactedLog(replace(COMPACT, segment_bytes=segment_bytes), limits=limits)
        self.model = Model()

    def write(self, pairs: list[tuple[bytes, bytes | None]], producer: int | None, codec: Codec) -> None:
        transaction = None
        if producer in self.model.open:  # inside its transaction a producer writes nothing else
            transaction = self.model.begin(producer)
        result = self.log.append(*pairs, producer=producer, transactional=transaction is not None, codec=codec)
        for index, (key, value) in enumerate(pairs):
            self.model.wrote(result.base_offset + index, key, value, transaction)

    def begin(self, producer: int) -> None:
        self.model.begin(producer)

    def end(self, producer: int, commit: bool, transaction_version: int) -> None:
        if producer in self.model.open and producer in self.log.epochs:
            self.log.end(producer, commit=commit, transaction_version=transaction_version)
            self.model.end(producer, commit=commit)

    def clean(self) -> None:
        done = self.log.clean()
        if done is not None:
            plan, outcome = done
            assert plan.sources[-1].end_offset <= min(
                self.log.log.last_stable_offset, self.log.log.segments.active.base_offset
            )
            assert outcome.end_offset > plan.first_dirty_offset  # a round always gets on
            self.model.cleaned(
                mapped_to=outcome.end_offset,
                touched_to=max((group.sources[-1].end_offset for group in outcome.groups), default=0),
                now_ms=self.log.now_ms,
                retention_ms=COMPACT.delete_retention_ms,
            )

    def compare(self) -> None:
        log, model = self.log.log, self.model
        records = read_all(log)
        assert [record.offset for record in records] == sorted(model.present)
        assert all((record.key, record.value) == model.history[record.offset][:2] for record in records)
        committed = read_committed(log)
        stable = log.last_stable_offset
        assert [record.offset for record in committed] == [
            offset for offset in sorted(model.present) if model.is_committed(offset) and offset < stable
        ]
        whole = {
            model.history[offset].key: model.history[offset].value
            for offset in sorted(model.history)
            if model.is_committed(offset) and offset < stable
        }
        assert final_state(committed) == {key: value for key, value in whole.items() if value is not None}
        for offset, first_ms in model.first_cleaned_ms.items():
            superseded = any(
                other > offset and model.history[other].key == model.history[offset].key for other in model.history
            )
            if not superseded and self.log.now_ms < first_ms + COMPACT.delete_retention_ms:
                assert offset in {record.offset for record in records}
        check_transactions(log)
        assert producer_facts(replayed_producers(log)) == producer_facts(log.producers)


_PAIRS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"1", b"2", b"3"])), min_size=1, max_size=4)
_CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP])
_STEP = st.one_of(
    st.tuples(st.just("write"), _PAIRS, st.sampled_from([None, *PRODUCERS]), _CODECS),
    st.tuples(st.just("begin"), st.sampled_from(PRODUCERS)),
    st.tuples(st.just("transaction"), st.sampled_from(PRODUCERS), _PAIRS, st.booleans(), st.sampled_from([1, 2])),
    st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans(), st.sampled_from([1, 2])),
    st.just(("roll",)),
    st.tuples(st.just("clean"), st.sampled_from([0, 1, 999, 1000])),
    st.tuples(st.just("clean"), st.sampled_from([0, 1, 999, 1000])),
    st.tuples(st.just("reopen"), st.booleans()),
)


_SEGMENT_BYTES = st.sampled_from([1 << 20, 1 << 20, 400])  # the small one makes several groups of a round


def tell(steps: list[tuple[object, ...]], limit_keys: int | None, segment_bytes: int) -> None:
    story = Story(limit_keys, segment_bytes)
    for step in [*steps, ("clean", 0)]:
        match step:
            case ("write", list(pairs), producer, Codec() as codec):
                story.write(pairs, producer if isinstance(producer, int) else None, codec)
            case ("begin", int(producer)):
                story.begin(producer)
            case ("transaction", int(producer), list(pairs), bool(commit), int(version)):
                story.begin(producer)
                story.write(pairs, producer, Codec.NONE)
                story.end(producer, commit, version)
            case ("end", int(producer), bool(commit), int(version)):
                story.end(producer, commit, version)
            case ("roll",):
                story.log.roll()
            case ("clean", int(later_ms)):
                story.log.roll()
                story.log.now_ms += later_ms
                story.clean()
            case ("reopen", bool(clean)):
                story.log.reopen(clean=clean)
        story.compare()


@given(st.lists(_STEP, min_size=8, max_size=30), st.sampled_from([None, None, 1, 3]), _SEGMENT_BYTES)
@settings(max_examples=120, deadline=None)
def test_compaction_keeps_exactly_what_the_model_keeps(
    steps: list[tuple[object, ...]], limit_keys: int | None, segment_bytes: int
) -> None:
    tell(steps, limit_keys, segment_bytes)


@pytest.mark.slow
@given(st.lists(_STEP, min_size=20, max_size=80), st.sampled_from([None, 1, 2, 3]), _SEGMENT_BYTES)
@settings(max_examples=250, deadline=None)
def test_compaction_keeps_exactly_what_the_model_keeps_over_long_stories(
    steps: list[tuple[object, ...]], limit_keys: int | None, segment_bytes: int
) -> None:
    tell(steps, limit_keys, segment_bytes)
