"""How plans are cut. The golden texts show whole examples; here is one rule at a time."""

from typing import Any

import pytest

from headrace.streams import App, Json, avg, col, count, hopping, session, sliding, tumbling
from headrace.streams.plan import DeadLetters, Sink
from headrace.streams.queries import Query, cut, traits
from headrace.streams.rewrites import rewrite
from tests.unit.streams.pipelines import PIPELINES, new_app, orders_of, users_of


def queries_of(app: App) -> list[tuple[str, str, list[str], list[str]]]:
    """Name, mode, topics in, topics out."""
    return [
        (
            query.name,
            query.mode,
            [topic for source in query.sources for topic in source.topics],
            [str(sink.topic) for sink in query.sinks],
        )
        for query in cut(rewrite(app.plan))
    ]


def test_stateless_sinks_that_share_a_source_are_one_query_and_others_are_not() -> None:
    app = new_app()
    orders, other = orders_of(app), app.stream("other", value=Json("id long"))
    orders.select("id").to("a")
    other.to("b")
    orders.to("c")
    assert queries_of(app) == [
        ("source-1", "append", ["orders"], ["a", "c"]),
        ("source-2", "append", ["other"], ["b"]),
    ]


def test_a_merge_joins_the_queries_of_its_sources() -> None:
    app = new_app()
    orders, other = orders_of(app).select("id"), app.stream("other", value=Json("id long"))
    orders.to("a")
    other.to("b")
    orders.merge(other).to("c")
    assert queries_of(app) == [("source-1", "append", ["orders", "other"], ["a", "b", "c"])]


def test_what_is_merged_of_an_operator_with_state_and_a_stream_is_read_from_topics_by_a_query_of_its_own() -> None:
    app = new_app()
    orders, other = orders_of(app).select("id"), app.stream("other", value=Json("id long"))
    once = orders.deduplicate("id", within="1h", name="once")
    once.merge(other).to("merged")
    once.to("once")
    assert queries_of(app) == [
        ("once", "append", ["orders"], ["sales.once", "once"]),
        ("sales.once", "append", ["sales.once", "other"], ["merged"]),
    ]


def test_so_it_is_if_both_come_from_one_stream() -> None:
    app = new_app()
    orders = orders_of(app).select("id")
    orders.deduplicate("id", within="1h", name="once").merge(orders.filter(col.id > 1)).to("merged")
    assert [query[2:] for query in queries_of(app)] == [
        (["orders"], ["sales.once"]),
        (["sales.once", "orders"], ["merged"]),
    ]


def test_it_may_come_from_a_stream_that_others_only_pass_through_or_join_with_a_global_table() -> None:
    app = new_app()
    rates = app.global_table("rates", key="country", value=Json("country string, rate double"))
    orders = orders_of(app)
    rated = orders.join(rates, on="country").select("id")
    rated.deduplicate("id", within="1h", name="once").merge(orders.select("id")).to("merged")
    orders.to("copy")
    assert queries_of(app) == [
        ("source-2", "append", ["orders", "rates"], ["copy", "sales.select-1"]),
        ("once", "append", ["sales.select-1"], ["sales.once"]),
        ("sales.once", "append", ["sales.once", "orders"], ["merged"]),
    ]


def test_a_global_table_does_not_join_queries() -> None:
    app = new_app()
    rates = app.global_table("rates", key="country", value=Json("country string, rate double"))
    orders_of(app).join(rates, on="country").to("a")
    app.stream("other", value=Json("country string")).join(rates, on="country").to("b")
    assert [query[3] for query in queries_of(app)] == [["a"], ["b"]]


def test_state_behind_a_global_table_is_cut_off_from_it_and_a_global_table_behind_state_is_not() -> None:
    app = new_app()
    rates = app.global_table("rates", key="country", value=Json("country string, rate double"))
    counts = orders_of(app).group_by("country").count(name="counts").to_stream().join(rates, on="country", name="rated")
    counts.to("rated")
    assert queries_of(app) == [("counts", "update", ["orders", "rates"], ["rated"])]
    rest = counts.filter(col.rate > 1, name="high").group_by("rate").count("n", name="rates")
    rest.to("n")
    assert queries_of(app) == [
        ("counts", "update", ["orders", "rates"], ["rated", "sales.high"]),
        ("rates", "update", ["sales.high"], ["n"]),
    ]


def test_rows_without_a_key_keep_that_of_their_record_through_a_topic_of_the_app() -> None:
    app = new_app()
    rates = app.global_table("rates", key="country", value=Json("rate double"))
    orders_of(app).join(rates, on="country", name="rated").deduplicate("id", within="1m").to("once")
    first, second = cut(app.plan)
    assert [(sink.internal, sink.key) for sink in first.sinks] == [(True, None)]
    assert [(source.internal, source.key) for source in second.sources] == [(True, None)]


def test_a_join_with_a_table_may_stand_before_windows_but_not_between_two_operators_of_sparks() -> None:
    app = new_app()
    orders, users = orders_of(app), users_of(app)
    orders.join(users, on="user").group_by("tier").windowed(tumbling("1m")).count(name="one").emit("final").to("a")
    once = orders.deduplicate("id", within="1m", name="once").join(users, on="user", name="known")
    once.group_by("tier").windowed(tumbling("1m")).count(name="two").emit("final").to("b")
    assert queries_of(app) == [
        ("one", "append", ["orders", "users"], ["a"]),
        ("known", "append", ["orders", "users"], ["sales.known"]),
        ("two", "append", ["sales.known"], ["b"]),
    ]


def test_a_deduplication_has_a_watermark_of_its_own() -> None:
    app = new_app()
    paid = app.stream("payments", value=Json("id long, cents long"), name="payments")
    once = orders_of(app).deduplicate("id", within="1h", name="once")
    joined = once.join(paid, on="id", within="1m", name="joined")
    joined.deduplicate("user", within="1d", name="rare").to("rare")
    assert [(query.name, [node.name for node in query.stateful]) for query in cut(rewrite(app.plan))] == [
        ("once", ["once"]),
        ("joined", ["joined"]),
        ("rare", ["rare"]),
    ]


def test_a_join_with_a_table_may_stand_before_and_behind_a_deduplication() -> None:
    app = new_app()
    known = orders_of(app).join(users_of(app), on="user", name="known")
    known.deduplicate("id", within="1h", name="once").to("once")
    assert [query[0] for query in queries_of(app)] == ["once"]
    other = new_app()
    once = orders_of(other).deduplicate("id", within="1h", name="once")
    once.join(users_of(other), on="user", name="known").to("known")
    assert [query[0] for query in queries_of(other)] == ["known"]


def test_timers_in_stream_time_are_cut_off_from_state_with_a_watermark_of_its_own() -> None:
    app = new_app()
    known = orders_of(app).deduplicate("id", within="1h", name="once").join(users_of(app), on="user", name="known")
    known.select_key("user").process(print, "user string", timers="event", on_timer=print, name="timed").to("timed")
    assert [query[0] for query in queries_of(app)] == ["known", "timed"]


def test_all_sinks_of_one_aggregate_are_one_query() -> None:
    app = new_app()
    counts = orders_of(app).group_by("user").count(name="counts")
    counts.to("counts")
    counts.filter(col.count > 10).to("busy")
    assert queries_of(app) == [("counts", "update", ["orders"], ["counts", "busy"])]


def test_a_running_aggregate_feeding_an_append_only_join_is_cut() -> None:
    app = new_app()
    running = orders_of(app).group_by("user").count(name="running").to_stream()
    other = app.stream("other", key="user", value=Json("user string, n long"))
    running.outer_join(other, within="1m", name="joined").to("joined")
    assert queries_of(app) == [
        ("running", "update", ["orders"], ["sales.running"]),
        ("joined", "append", ["sales.running", "other"], ["joined"]),
    ]


def test_final_windows_feeding_an_append_only_join_are_not_cut() -> None:
    app = new_app()
    final = orders_of(app).group_by("user").windowed(tumbling("1m")).count(name="final").emit("final").to_stream()
    other = app.stream("other", value=Json("user string, n long"))
    final.outer_join(other, on="user", within="1m", name="joined").to("joined")
    assert queries_of(app) == [("joined", "append", ["orders", "other"], ["joined"])]


def test_an_inner_join_may_be_followed_by_final_windows_and_not_by_running_ones() -> None:
    for emit, expected in (("final", 1), ("changes", 2)):
        app = new_app()
        payments = app.stream("payments", value=Json("id long, paid double"))
        joined = orders_of(app).join(payments, on="id", within="1m", name="joined")
        joined.group_by("user").windowed(tumbling("1m")).agg(n=count(), name="n").emit(emit).to("n")
        assert len(cut(app.plan)) == expected, emit


def test_an_outer_join_is_cut_off_from_what_follows_it() -> None:
    for join, expected in (("left_join", ["n"]), ("outer_join", ["joined", "n"])):
        app = new_app()
        payments = app.stream("payments", value=Json("id long, paid double"))
        joined = getattr(orders_of(app), join)(payments, on="id", within="1m", name="joined")
        joined.group_by("user").windowed(tumbling("1m")).agg(n=count(), name="n").emit("final").to("n")
        assert [query.name for query in cut(app.plan)] == expected


def test_state_of_our_own_may_be_followed_by_a_running_aggregate() -> None:
    app = new_app()
    enriched = orders_of(app).join(users_of(app), on="user", name="lookup")
    enriched.group_by("tier").count(name="tiers").to("tiers")
    assert queries_of(app) == [("tiers", "update", ["orders", "users"], ["tiers"])]


def test_windows_of_our_own_are_cut_off_from_all_state_before_and_after_them() -> None:
    app = new_app()
    minutes = orders_of(app).group_by("user").windowed(tumbling("1m")).agg(n=count(), name="minutes").emit("final")
    near = minutes.to_stream().group_by("user").windowed(sliding("1h")).count(name="near")
    near.to_stream().group_by("count").reduce(max, name="most").to("out")
    assert queries_of(app) == [
        ("minutes", "append", ["orders"], ["sales.minutes"]),
        ("near", "append", ["sales.minutes"], ["sales.near"]),
        ("most", "append", ["sales.near"], ["out"]),
    ]


def test_groups_of_a_table_are_state_of_our_own_which_others_may_follow() -> None:
    app = new_app()
    tiers = users_of(app).group_by("tier").count(name="tiers")
    tiers.to_stream().group_by("count").reduce(max, name="most").to("out")
    assert queries_of(app) == [("most", "append", ["users"], ["out"])]


def test_a_query_comes_after_those_whose_topics_it_reads() -> None:
    app = new_app()
    first = orders_of(app).group_by("user").count(name="first")
    second = first.to_stream().group_by("count").count("users", name="second")
    second.to_stream().group_by("users").count("counts", name="third").to("third")
    names = [query.name for query in cut(app.plan)]
    assert names == ["first", "second", "third"]


def test_dead_letters_of_a_source_are_written_by_one_query() -> None:
    app = App("sales", "x", dead_letters="dead")
    orders, other = orders_of(app), app.stream("other", value=Json("id long"))
    orders.to("copy")
    orders.group_by("user").count(name="users").to("users")
    other.group_by("id").count(name="ids").to("ids")
    assert [(name, outputs) for name, _, _, outputs in queries_of(app)] == [
        ("source-1", ["copy", "dead"]),
        ("users", ["users"]),
        ("ids", ["ids"]),
        ("source-2.dead", ["dead"]),
    ]


@pytest.mark.parametrize(
    ("window", "emit", "modes"),
    [
        (tumbling("1m"), "changes", {"update"}),
        (tumbling("1m"), "final", {"append"}),
        (hopping("1m", "1s"), "final", {"append"}),
        (session("1m"), "final", {"append"}),
        (session("1m"), "changes", {"append", "update"}),
        (sliding("1m"), "changes", {"append", "update"}),
    ],
)
def test_the_modes_of_windows(window: Any, emit: Any, modes: set[str]) -> None:
    table = orders_of(new_app()).group_by("user").windowed(window).agg(mean=avg(col.amount)).emit(emit)
    assert traits(table.node).modes == modes


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.__name__)
def test_cutting_loses_no_sink_and_every_internal_topic_is_written_before_it_is_read(pipeline: Any) -> None:
    app = pipeline()
    queries = cut(rewrite(app.plan))
    written = [sink for query in queries for sink in query.sinks]
    users = [sink for sink in written if not sink.internal and not isinstance(sink, DeadLetters)]
    assert sorted(sink.name for sink in users) == sorted(sink.name for sink in app.plan.sinks)
    assert len({query.name for query in queries}) == len(queries)
    known: set[object] = set()
    for query in queries:
        assert all(source.topics[0] in known for source in query.sources if source.internal), query.name
        known |= {sink.topic for sink in query.sinks if sink.internal}
        assert _one_result(query)


def _one_result(query: Query) -> bool:
    """A query ends in at most one stateful operator, from which all its sinks hang without another."""
    followed = {
        below.name for node in query.nodes() if node.stateful or isinstance(node, Sink) for below in node.inputs
    }
    return len([node for node in query.stateful if node.name not in followed]) <= 1
