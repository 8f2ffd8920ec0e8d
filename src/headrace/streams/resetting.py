"""Setting an app back: its state is moved aside, its offsets are forgotten, and it begins again where it is told.

What a reset does, in this order, so that one that is interrupted can be repeated or undone:

1. What the app's groups have committed is kept, in `@reset.new/reset.json`; markers are part of it.
2. Plan and checkpoints are moved there. Then it is the app's `@reset`, in place of that of an earlier reset.
3. The groups are deleted, and `@start.json` says where the next run begins.

Topics of the app's own between two queries are emptied by the next run, when it starts: until then `undo` brings
everything back, and the app goes on as if nothing had been. After a run it can only be undone if there are none.
"""

import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.admin import Admin, AsyncAdmin
from headrace.client.admin_groups import CommittedOffset
from headrace.client.errors import PartialError, UnknownGroupError, UnknownTopicError
from headrace.client.topic_partition import TopicPartition
from headrace.spark.markers import marker_group
from headrace.streams.errors import PlanError
from headrace.streams.known_apps import queries_of
from headrace.streams.plan import Plan
from headrace.streams.queries import Query
from headrace.streams.ranges import Place, Target, places
from headrace.streams.saved_plan import FILE as PLAN
from headrace.streams.starting import offsets_from_json, offsets_to_json, stream_partitions
from headrace.streams.state_directory import (
    RESET,
    START,
    RunLock,
    checkpoints,
    read_json,
    remove,
    write_json,
)

_UNFINISHED: Final = "@reset.new"
_NOTES: Final = "reset.json"
_DELETION_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1

Committed = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True)
class Reset:
    """What is to be done. `starts` are by query; `groups` have what they have committed."""

    app: str
    state: str
    checkpoints: tuple[str, ...]
    groups: Mapping[str, Committed]
    internal_topics: tuple[str, ...]
    starts: Mapping[str, tuple[Place, ...]]


async def plan_reset(admin: AsyncAdmin, plans: Iterable[Plan], state: str, target: Target) -> Reset:
    """Of an app by its plans: that of its file if it is known, and that of its last run; the first says what it reads.

    Raises KafkaError, and PlanError if the target names partitions that the app does not read.
    """
    known = list(plans)
    app, queries = known[0].app, queries_of(known[0])
    every = {query.name: query for plan in reversed(known) for query in queries_of(plan)}
    names = sorted({*every, *checkpoints(state)})
    internal = {str(sink.topic) for query in every.values() for sink in query.sinks if sink.internal}
    topics = {topic.name: topic.partitions for topic in await admin.list_topics()}
    listed = {group.id for group in await admin.list_groups()}
    groups = [group for name in names for group in groups_of(app, name) if group in listed]
    return Reset(
        app=app,
        state=state,
        checkpoints=checkpoints(state),
        groups={group: await admin.list_group_offsets(group) for group in groups},
        internal_topics=tuple(sorted(internal & topics.keys())),
        starts=await _starts(admin, queries, topics, target),
    )


def groups_of(app: str, query: str) -> tuple[str, str]:
    """Where a query's offsets and markers are."""
    return f"{app}.{query}", marker_group(f"{app}.{query}")


async def carry_out(admin: AsyncAdmin, reset: Reset) -> None:
    """Raises AlreadyRunningError, KafkaError, OSError. If it is interrupted, it can be repeated, or undone."""
    with RunLock(reset.state, app=reset.app):
        groups = await _stable(admin, reset)
        _move_aside(reset, groups)
        await _delete_groups(admin, reset.groups)
        starts = {
            query: offsets_to_json({each.partition: each.offset for each in starts})
            for query, starts in reset.starts.items()
        }
        write_json(reset.state, START, {"queries": starts, "forget": list(reset.internal_topics)})
        _put_in_place(reset.state)


async def undo(admin: AsyncAdmin, app: str, state: str) -> tuple[str, ...]:
    """Bring back what the last reset has moved aside; which checkpoints that are. Raises PlanError, KafkaError."""
    with RunLock(state, app=app):
        aside, notes = _notes(state)
        if notes is None:
            raise PlanError(f"nothing to undo: {state} has nothing that a reset has moved aside")
        if notes.get("topics_gone"):
            raise PlanError(
                f"this reset cannot be undone any more: {app!r} has run since, and its own topics "
                f"({', '.join(notes['topics'])}) were emptied for that. What the reset has moved aside is in {aside}"
            )
        groups = {group: _committed(offsets) for group, offsets in notes["groups"].items()}
        current = [group for name in checkpoints(state) for group in groups_of(app, name)]
        await _delete_groups(admin, {*groups, *current})
        for group, offsets in groups.items():
            if offsets:
                await admin.alter_group_offsets(group, offsets)
        if aside.endswith(RESET):  # all of it was moved, so what is here now is of runs since
            for name in (*checkpoints(state), PLAN, START):
                _discard(os.path.join(state, name))
        for name in notes["moved"]:
            if os.path.exists(os.path.join(aside, name)):
                _discard(os.path.join(state, name))
                os.rename(os.path.join(aside, name), os.path.join(state, name))
        shutil.rmtree(aside)
        return checkpoints(state)


def refuse_unfinished(state: str) -> None:
    """An app whose reset was interrupted does not run: it might do half of its work twice. Raises PlanError."""
    if os.path.exists(os.path.join(state, _UNFINISHED)):
        raise PlanError(f"a reset of {state} was interrupted: do it again, or undo it (headrace pipeline reset --undo)")


def forget_internal_topics(admin: Admin, state: str) -> None:
    """At the first start after a reset: the app's own topics are deleted, to be made anew. Raises KafkaError."""
    start = read_json(state, START)
    if not start or not start.get("forget"):
        return
    aside, notes = _notes(state)
    if notes is not None:
        write_json(aside, _NOTES, {**notes, "topics_gone": True})
    for topic in start["forget"]:
        try:
            admin.delete_topic(topic)
        except UnknownTopicError:
            continue
    deadline = time.monotonic() + _DELETION_SECONDS
    while left := {topic.name for topic in admin.list_topics()} & set(start["forget"]):
        if time.monotonic() > deadline:
            raise PlanError(f"the topic {min(left)} does not go away: it was deleted {_DELETION_SECONDS:g} s ago")
        time.sleep(_POLL_SECONDS)
    write_json(state, START, {**start, "forget": []})


async def _starts(
    admin: AsyncAdmin, queries: Iterable[Query], topics: Mapping[str, int], target: Target
) -> dict[str, tuple[Place, ...]]:
    partitions = {query.name: stream_partitions(query, topics) for query in queries}
    found = await places(admin, target, (each for listed in partitions.values() for each in listed))
    return {name: tuple(found[each] for each in listed) for name, listed in partitions.items()}


async def _stable(admin: AsyncAdmin, reset: Reset) -> dict[str, Committed]:
    """What the groups have committed, when nothing can change it any more: a driver that was killed, or that runs where
    nobody knows, may have a transaction open."""
    ids = {transaction.id for transaction in await admin.list_transactions(states=["Ongoing"])} & reset.groups.keys()
    if ids:
        await admin.fence_producers(ids)
    return {group: await admin.list_group_offsets(group, require_stable=True) for group in reset.groups}


def _move_aside(reset: Reset, groups: Mapping[str, Committed]) -> None:
    state, aside = reset.state, os.path.join(reset.state, _UNFINISHED)
    moved = [name for name in (*reset.checkpoints, PLAN, START) if os.path.exists(os.path.join(state, name))]
    notes = read_json(aside, _NOTES)
    if notes is None:
        os.makedirs(aside, exist_ok=True)
        notes = {
            "at": time.time(),
            "moved": moved,
            "topics": list(reset.internal_topics),
            "groups": {group: _noted(offsets) for group, offsets in groups.items()},
        }
        write_json(aside, _NOTES, notes)
    for name in moved:
        if os.path.exists(os.path.join(aside, name)):  # this reset was begun before, and has written it
            _discard(os.path.join(state, name))
        else:
            os.rename(os.path.join(state, name), os.path.join(aside, name))


def _put_in_place(state: str) -> None:
    """A reset of what was reset before, and has not run since, leaves what can be undone as it is."""
    aside, before = os.path.join(state, _UNFINISHED), os.path.join(state, RESET)
    if os.path.exists(before) and not checkpoints(aside):
        shutil.rmtree(aside)
        return
    _discard(before)
    os.rename(aside, before)


def _notes(state: str) -> tuple[str, Any]:
    """Of a reset that was interrupted, else of the last one: where its things are, and what it has noted, or None."""
    for name in (_UNFINISHED, RESET):
        notes = read_json(os.path.join(state, name), _NOTES)
        if notes is not None:
            return os.path.join(state, name), notes
    return os.path.join(state, RESET), None


def _noted(offsets: Committed) -> dict[str, Any]:
    return {
        "offsets": offsets_to_json({place: each.offset for place, each in offsets.items()}),
        "metadata": {str(place): each.metadata for place, each in offsets.items()},
    }


def _committed(noted: Mapping[str, Any]) -> dict[TopicPartition, CommittedOffset]:
    offsets = offsets_from_json(noted["offsets"])
    return {place: CommittedOffset(offset, -1, noted["metadata"][str(place)]) for place, offset in offsets.items()}


async def _delete_groups(admin: AsyncAdmin, groups: Iterable[str]) -> None:
    try:
        await admin.delete_groups(groups)
    except UnknownGroupError:
        pass
    except PartialError as error:
        failures = [each for each in error.errors.values() if not isinstance(each, UnknownGroupError)]
        if failures:
            raise failures[0] from None


def _discard(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        remove(*os.path.split(path))
