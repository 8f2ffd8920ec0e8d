"""Which apps there are, by their state on this machine and by their groups in a cluster; and how far they are.

The groups of an app are `<app>.<query>`. One of an app that is not known here is recognised by its marker, and its app
is taken to be what stands before the first dot.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headrace.client.admin import AsyncAdmin
from headrace.client.admin_groups import CommittedOffset
from headrace.client.topic_partition import TopicPartition
from headrace.spark.markers import read_marker
from headrace.streams.app import state_home
from headrace.streams.errors import PlanError
from headrace.streams.plan import Plan
from headrace.streams.progress import AppProgress, app_progress
from headrace.streams.queries import Query, cut
from headrace.streams.rewrites import rewrite
from headrace.streams.saved_plan import saved_plan
from headrace.streams.shapes import Kind
from headrace.streams.starting import read_topics
from headrace.streams.state_directory import PROGRESS, is_running, read_json


@dataclass(frozen=True)
class KnownApp:
    """`state` is None for one that is only known by its groups, `plan` for one that has not run yet."""

    name: str
    state: str | None
    plan: Plan | None = None
    is_running: bool = False
    progress: AppProgress | None = None
    groups: tuple[str, ...] = ()


def app_in(directory: str, name: str) -> KnownApp:
    """What its state directory says of an app; a plan that cannot be read, as of another version, says nothing."""
    try:
        plan = saved_plan(directory)
    except PlanError:
        plan = None
    return KnownApp(name, directory, plan, is_running(directory), last_progress(directory))


def apps_of_this_machine(home: str | None = None) -> list[KnownApp]:
    """Those whose state is where it is unless an app says otherwise."""
    root = state_home() if home is None else home
    try:
        names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    except FileNotFoundError:
        return []
    found = [app_in(os.path.join(root, name), name) for name in names]
    return [known for known in found if known.plan is not None or known.is_running]


def last_progress(directory: str) -> AppProgress | None:
    try:
        written = read_json(directory, PROGRESS)
        return None if written is None else app_progress(written)
    except (PlanError, TypeError, KeyError):  # of another version
        return None


def queries_of(plan: Plan) -> tuple[Query, ...]:
    return cut(rewrite(plan))


async def apps_of_cluster(admin: AsyncAdmin, known: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Groups by app: of the apps that are known, and of those which their markers give away."""
    groups = sorted(group.id for group in await admin.list_groups() if "." in group.id)
    names = sorted(known, key=len, reverse=True)  # of sales and sales.eu, the longer one has sales.eu.source-1
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        app = next((name for name in names if group.startswith(f"{name}.")), None)
        if app is None and _has_marker(await admin.list_group_offsets(group)):
            app = group.partition(".")[0]
        if app is not None:
            found[app] = (*found.get(app, ()), group)
    return found


async def lags(admin: AsyncAdmin, app: str, queries: Iterable[Query]) -> dict[str, int]:
    """How many records each query has not read yet, by what its group has committed.

    Queries come after those whose topics they read, as `queries_of` has them, and are looked at one after the other:
    what one hands on to the next in the meantime may be counted twice, but is never missed. So nothing waits anywhere
    if all of them have no lag.
    """
    partitions = {topic.name: topic.partitions for topic in await admin.list_topics()}
    return {query.name: await _lag(admin, f"{app}.{query.name}", _places(query, partitions)) for query in queries}


async def _lag(admin: AsyncAdmin, group: str, places: Collection[TopicPartition]) -> int:
    """The ends come before the position, which can only be further by then."""
    firsts = await admin.list_offsets(dict.fromkeys(places, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(places, "latest"), read_committed=True)
    committed = await admin.list_group_offsets(group)
    return sum(max(end.offset - _position(place, committed, firsts[place].offset), 0) for place, end in ends.items())


def _places(query: Query, partitions: Mapping[str, int]) -> list[TopicPartition]:
    sources = [source for source in query.sources if source.shape.kind is not Kind.GLOBAL_TABLE]
    topics = {topic for source in sources for topic in read_topics(source, partitions)}
    return [TopicPartition(topic, number) for topic in sorted(topics) for number in range(partitions[topic])]


def _position(place: TopicPartition, committed: Mapping[TopicPartition, CommittedOffset], first: int) -> int:
    return max(committed[place].offset, first) if place in committed else first


def _has_marker(committed: Mapping[TopicPartition, CommittedOffset]) -> bool:
    return any(read_marker(each.metadata) is not None for each in committed.values())
