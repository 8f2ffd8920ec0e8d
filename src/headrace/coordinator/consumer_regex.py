"""Subscriptions by pattern: when the topics that they stand for are looked up, and what follows (KIP-848).

Theory. Members may have a pattern beside the topics that they name. What a group's patterns stand for is looked up for
all of them at once, by a job that runs beside the requests; a record keeps the result for each pattern. It is looked up

    when a pattern is new to the group
    after topics were created, or the coordinator moved
    every group.consumer.regex.refresh.interval.ms

as soon as a heartbeat comes, but not more often than every ten seconds. When the result differs, the group's epoch
grows, and members learn of it as of any other change.

A job compares many names with patterns that clients wrote, so it works in slices: each counts its steps, and the next
one is due at once, after whatever else is waiting.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final

from headrace.coordinator.batches import in_batches, size_of
from headrace.coordinator.consumer_deadlines import REGEX
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import ConsumerMember
from headrace.coordinator.consumer_records import epoch_record, regex_record
from headrace.coordinator.consumer_subscriptions import ResolvedRegex
from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import consumer_group_regex
from headrace.coordinator.re2_pattern import Pattern, PatternError
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.regex_job import RegexJob
from headrace.coordinator.result import Step
from headrace.coordinator.shard_state import DeadlineKey, ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord

MIN_INTERVAL_MS: Final = 10_000  # between two look-ups of a group
STEPS_AT_ONCE: Final = 20_000  # of a job: some milliseconds, or twenty for a pattern that wants to be slow
NO_VERSION: Final = 0  # of the metadata, which is not numbered here: whoever takes over looks again


class RegexChange(Enum):
    """What a member's pattern means for its group."""

    NONE = 0  # it is the same
    CHANGED = 1  # it is another, and nobody knows yet what it stands for
    RESOLVED = 2  # it is another, or gone, and all is known


def follow_regex(
    state: ShardState, group: ConsumerGroup, before: ConsumerMember, updated: ConsumerMember, draft: Draft, now_ms: int
) -> RegexChange:
    """Take a member's pattern in, and start a job if it is time for one. Raises RefusedError."""
    change, is_new = RegexChange.NONE, False
    if before.regex != updated.regex:
        change, is_new = _change(group, before.regex or "", updated.regex or "", draft)
    if is_new or group.subscriptions.regexes:
        _start_job_if_due(state, group, before, updated, now_ms, is_new=is_new)
    return change


def _change(group: ConsumerGroup, old: str, new: str, draft: Draft) -> tuple[RegexChange, bool]:
    """The change, and whether the group sees the new pattern for the first time."""
    regexes = group.subscriptions.regexes
    if old and regexes.get(old) == 1:
        draft.write(consumer_group_regex(group.group_id, old, None))
    if new and new not in regexes:
        try:
            Pattern(new)
        except PatternError as error:
            message = f"SubscribedTopicRegex `{new}` is not a valid regular expression: {error}."
            raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error
        return RegexChange.CHANGED, True
    is_known = new in group.subscriptions.resolved if new else bool(old)
    return RegexChange.RESOLVED if is_known else RegexChange.CHANGED, False


def _start_job_if_due(
    state: ShardState,
    group: ConsumerGroup,
    before: ConsumerMember,
    updated: ConsumerMember,
    now_ms: int,
    *,
    is_new: bool,
) -> None:
    resolved = group.subscriptions.resolved
    looked_ms = next((each.timestamp_ms for each in resolved.values()), None)
    if looked_ms is not None and looked_ms > now_ms:
        looked_ms = None  # the clock was set back since then
    if group.group_id in state.regex_jobs or (looked_ms is not None and now_ms <= looked_ms + MIN_INTERVAL_MS):
        return
    regexes = dict(group.subscriptions.regexes)
    if before.regex and regexes.get(before.regex) == 1:
        del regexes[before.regex]
    if updated.regex:
        regexes.setdefault(updated.regex, 1)
    is_old = looked_ms is None or now_ms > looked_ms + state.settings.consumer_regex_refresh_interval_ms
    if regexes and (is_new or is_old or group.is_regex_stale or len(regexes) != len(resolved)):
        state.regex_jobs[group.group_id] = RegexJob(regexes, state.image.topic_ids, now_ms)
        state.deadlines.set((REGEX, group.group_id), now_ms)
        group.is_regex_stale = False


def go_on(state: ShardState, key: DeadlineKey, now_ms: int) -> Iterator[Step]:
    """The next slice of a job; at its end, what it found."""
    group_id = key[1]
    job = state.regex_jobs[group_id]
    if not job.work(STEPS_AT_ONCE):
        state.deadlines.set(key, now_ms + 1)  # others have their turn before
        return
    del state.regex_jobs[group_id]
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        yield from _take_over(state, group, job)


def _take_over(state: ShardState, group: ConsumerGroup, job: RegexJob) -> Iterator[Step]:
    """As many patterns at once as fit into a batch. What they change goes with them, so nothing of it can be lost."""
    most_bytes = state.settings.max_record_bytes(state.image) - size_of(epoch_record(group.group_id, group.epoch, 0))
    records = []
    for regex, topics in job.found.items():
        record = regex_record(group.group_id, regex, ResolvedRegex(topics, NO_VERSION, job.started_ms))
        if size_of(record) > most_bytes:
            draft = Draft()
            draft.notice(f"[group {group.group_id}] pattern {regex} stands for more topics than can be written")
            yield draft.step()
            record = regex_record(group.group_id, regex, ResolvedRegex(frozenset(), NO_VERSION, job.started_ms))
        records.append(record)
    for batch in in_batches(records, most_records=len(records), most_bytes=most_bytes):
        draft = Draft()
        _change_patterns(state, group, batch, draft)
        yield draft.step()


def _change_patterns(
    state: ShardState, group: ConsumerGroup, records: Iterable[CoordinatorRecord], draft: Draft
) -> None:
    subscriptions = group.subscriptions.copy()
    is_changed = False
    for record in records:
        regex: str = record.key.regular_expression
        value: Any = record.value
        if regex not in subscriptions.regexes:
            continue  # nobody has it any more
        known = subscriptions.resolved.get(regex)
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        is_changed |= resolved.topics != (frozenset() if known is None else known.topics)
        subscriptions.set_resolved(regex, resolved)
        draft.write(record)
    metadata_hash = state.topic_hashes.of_topics(subscriptions.topics)
    if is_changed or metadata_hash != group.metadata_hash:
        epoch = group.epoch + 1
        draft.write(epoch_record(group.group_id, epoch, metadata_hash))
        draft.notice(f"[group {group.group_id} epoch {epoch}] is to be assigned anew: patterns stand for other topics")
        group.is_metadata_stale = False
