"""Resets and their undoing with a real broker; checkpoints are directories that nobody has to read here."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

import headrace
from headrace.client.admin import AsyncAdmin
from headrace.client.admin_groups import CommittedOffset
from headrace.client.topic_partition import TopicPartition
from headrace.streams import App, Json, PlanError, count, sum_
from headrace.streams.columns import col
from headrace.streams.ranges import Target
from headrace.streams.resetting import Reset, carry_out, forget_internal_topics, plan_reset, refuse_unfinished, undo
from headrace.streams.saved_plan import agree_on_plan, saved_plan
from headrace.streams.starting import complete_starts, read_starts
from headrace.streams.state_directory import AlreadyRunningError, RunLock, checkpoints
from tests.support.both_brokers import eventually, unique

Result = TypeVar("Result")


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> App:
    """It has a stream, a table, and a topic of its own between two queries; and it has run."""
    made = App(unique("reset"), bootstrap, state=tmp_path / "state")
    name = made.name
    orders = made.stream(f"{name}-orders", value=Json("id long, user string"))
    users = made.table(f"{name}-users", key="user", value=Json("tier string"))
    users.filter(col.tier == "gold").to(f"{name}-gold")
    counts = orders.group_by("user").agg(n=count(), name="counts").to_stream()
    counts.group_by("n").agg(m=sum_(col.n), name="sizes").to(f"{name}-sizes")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(f"{name}-orders", 2)
        admin.create_topic(f"{name}-users", 1)
        admin.create_topic(f"{name}.counts", 1)
    with headrace.Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(f"{name}-orders", partition=0, value=b"x", timestamp=1_700_000_000_000 + number).result()
        producer.send(f"{name}.counts", key="k", value=b"{}").result()
    agree_on_plan(made.plan, made.state, default_partitions=2)
    for query in ("counts", "sizes", "source-2"):
        (Path(made.state) / query / "offsets").mkdir(parents=True)
        (Path(made.state) / query / "offsets" / "0").write_text("v1")
    marked = {TopicPartition(f"{name}-orders", 0): CommittedOffset(10, -1, "the-query:3")}
    with headrace.Admin(bootstrap) as admin:
        admin.alter_group_offsets(f"{name}.counts", marked)
    return made


def asked(app: App, question: Callable[[AsyncAdmin], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with AsyncAdmin(app.bootstrap) as admin:
            return await question(admin)

    return asyncio.run(run())


def planned(app: App, target: Target) -> Reset:
    return asked(app, lambda admin: plan_reset(admin, [app.plan], app.state, target))


def reset(app: App, target: Target) -> Reset:
    plan = planned(app, target)
    asked(app, lambda admin: carry_out(admin, plan))
    return plan


def undone(app: App) -> tuple[str, ...]:
    return asked(app, lambda admin: undo(admin, app.name, app.state))


def committed(app: App, group: str) -> dict[TopicPartition, CommittedOffset]:
    with headrace.Admin(app.bootstrap) as admin:
        return admin.list_group_offsets(f"{app.name}.{group}")


def listed(app: App) -> list[str]:
    with headrace.Admin(app.bootstrap) as admin:
        return [group.id for group in admin.list_groups()]


def starts(app: App) -> dict[str, dict[int, int]]:
    return {
        query: {place.partition: offset for place, offset in offsets.items()}
        for query, offsets in read_starts(app.state).items()
    }


def test_a_plan_names_everything_and_changes_nothing(app: App) -> None:
    plan = planned(app, Target())
    assert plan.checkpoints == ("counts", "sizes", "source-2")
    assert list(plan.groups) == [f"{app.name}.counts"]
    assert plan.internal_topics == (f"{app.name}.counts",)
    assert {query: [each.offset for each in places] for query, places in plan.starts.items()} == {
        "source-2": [],
        "counts": [0, 0],
        "sizes": [],
    }, "a table and a topic of its own are read from their beginning in any case"
    assert checkpoints(app.state) == plan.checkpoints
    assert f"{app.name}.counts" in listed(app)


@pytest.mark.parametrize(
    ("target", "begins"),
    [
        (Target(), {0: 0, 1: 0}),
        (Target(offset=4), {0: 4, 1: 0}),
        (Target(time_ms=1_700_000_000_007), {0: 7, 1: 0}),
        (Target(time_ms=1_800_000_000_000), {0: 10, 1: 0}),
    ],
)
def test_where_the_next_run_begins(app: App, target: Target, begins: dict[int, int]) -> None:
    reset(app, target)
    assert starts(app)["counts"] == begins
    assert checkpoints(app.state) == ()
    assert saved_plan(app.state) is None, "another plan may begin here"
    assert f"{app.name}.counts" not in listed(app)


def test_offsets_of_what_the_app_does_not_read_are_refused(app: App) -> None:
    with pytest.raises(PlanError, match=r"the app reads no stream of other-0: it reads .*-orders-0, .*-orders-1"):
        planned(app, Target(offsets={TopicPartition("other", 0): 3}))


def test_what_is_told_to_spark_has_every_partition_that_there_is_when_it_starts(app: App) -> None:
    reset(app, Target(offset=4))
    queries = [query for query in _queries(app) if query.name == "counts"]
    with headrace.Admin(app.bootstrap) as admin:
        admin.create_partitions({f"{app.name}-orders": 3})
        admin.delete_records({TopicPartition(f"{app.name}-orders", 0): 6})
        told = complete_starts(admin, queries, read_starts(app.state))
    expected = f'{{"{app.name}-orders": {{"0": 6, "1": 0, "2": 0}}}}'
    assert told == {("counts", "source-1"): expected}


def _queries(app: App) -> Any:
    from headrace.streams.known_apps import queries_of

    return queries_of(app.plan)


def test_undo_brings_back_checkpoints_plan_and_markers(app: App) -> None:
    before, plan = committed(app, "counts"), saved_plan(app.state)
    reset(app, Target())
    assert undone(app) == ("counts", "sizes", "source-2")
    assert (Path(app.state) / "counts" / "offsets" / "0").read_text() == "v1"
    assert committed(app, "counts") == before
    assert saved_plan(app.state) == plan
    assert read_starts(app.state) == {}
    with pytest.raises(PlanError, match="nothing to undo"):
        undone(app)


def test_undo_after_a_second_reset_brings_back_what_was_before_the_first(app: App) -> None:
    reset(app, Target())
    reset(app, Target(offset=4))
    assert starts(app)["counts"] == {0: 4, 1: 0}
    assert undone(app) == ("counts", "sizes", "source-2")
    assert len(committed(app, "counts")) == 1


def test_topics_of_its_own_are_emptied_by_the_next_run_and_then_there_is_no_undo(app: App) -> None:
    reset(app, Target())
    with headrace.Admin(app.bootstrap) as admin:

        def is_there() -> bool:
            return f"{app.name}.counts" in [topic.name for topic in admin.list_topics()]

        assert is_there()
        forget_internal_topics(admin, app.state)
        assert not is_there()
        admin.create_topic(f"{app.name}.counts", 1)
        eventually(is_there)
        forget_internal_topics(admin, app.state)
        assert is_there(), "once is enough"
    assert starts(app)["counts"] == {0: 0, 1: 0}
    with pytest.raises(PlanError, match=r"cannot be undone any more.*has run since"):
        undone(app)


def test_an_app_that_runs_is_neither_reset_nor_restored(app: App) -> None:
    plan = planned(app, Target())
    with RunLock(app.state, app=app.name):
        with pytest.raises(AlreadyRunningError, match="runs already"):
            asked(app, lambda admin: carry_out(admin, plan))
        with pytest.raises(AlreadyRunningError, match="runs already"):
            undone(app)
    assert checkpoints(app.state) == plan.checkpoints


def test_a_reset_that_is_interrupted_can_be_repeated_or_undone(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    before = committed(app, "counts")
    refuse_unfinished(app.state)

    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(AsyncAdmin, "delete_groups", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reset(app, Target())
    assert checkpoints(app.state) == ()
    with pytest.raises(PlanError, match=r"was interrupted: do it again, or undo it"):
        refuse_unfinished(app.state)
    reset(app, Target())
    refuse_unfinished(app.state)
    assert undone(app) == ("counts", "sizes", "source-2")
    assert committed(app, "counts") == before


def test_an_app_looks_for_an_interrupted_reset_when_no_reset_can_be_at_work(app: App) -> None:
    unfinished = Path(app.state) / "@reset.new"
    with RunLock(app.state, app=app.name):
        unfinished.mkdir()
        with pytest.raises(AlreadyRunningError, match="runs already"):
            app.start()
    with pytest.raises(PlanError, match=r"was interrupted: do it again, or undo it"):
        app.start()
    RunLock(app.state, app=app.name).release()  # the app that was refused has let go of it


def test_a_reset_with_a_transaction_open_aborts_it(app: App) -> None:
    name = f"{app.name}.counts"
    with headrace.Producer(app.bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(f"{app.name}-gold", value=b"x").result()
        producer.send_offsets({TopicPartition(f"{app.name}-orders", 0): 11}, name)
        reset(app, Target())
        with pytest.raises(headrace.KafkaError):
            producer.commit_transaction()
    assert undone(app) == ("counts", "sizes", "source-2")
    (offset,) = committed(app, "counts").values()
    assert (offset.offset, offset.metadata) == (10, "the-query:3")
