"""What is written is checked as it is written: handles, columns, keys, names."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import headrace.streams
from headrace.streams import (
    App,
    Json,
    Long,
    PlanError,
    String,
    UnknownColumnError,
    avg,
    col,
    count,
    fn,
    hopping,
    max_,
    session,
    sum_,
    tumbling,
    value_state,
)
from headrace.streams.shapes import RESERVED
from tests.unit.streams.pipelines import new_app, orders_of, users_of


def test_an_operation_makes_a_new_handle_and_leaves_the_old_one() -> None:
    orders = orders_of(new_app())
    selected = orders.select("id")
    assert list(selected.columns) == ["id"]
    assert list(orders.columns) == ["id", "user", "country", "amount", "at"]
    assert selected.node.input is orders.node


def test_an_unknown_column_is_told_where_it_is_written_with_the_nearest() -> None:
    orders = orders_of(new_app())
    with pytest.raises(UnknownColumnError, match=r"filter: there is no column 'amuont'\. Did you mean 'amount'\?"):
        orders.filter(col.amuont > 100)
    with pytest.raises(UnknownColumnError, match="Did you mean 'country'"):
        orders.group_by("Country")
    with pytest.raises(UnknownColumnError, match="The columns are: id, user, country"):
        orders.select("zzz")
    with pytest.raises(UnknownColumnError, match="agg total"):
        orders.group_by("user").agg(total=sum_(col.sum))


def test_no_user_can_name_a_column_as_the_compiler_names_its_own() -> None:
    package = Path(headrace.streams.__file__).parent
    named = {
        name for path in package.rglob("*.py") for name in re.findall(r'Final = "(_[a-z_]+[a-z])"', path.read_text())
    }
    assert len(named) > 20
    assert named <= RESERVED


def test_hidden_columns_of_records_can_be_read_but_not_made() -> None:
    orders = orders_of(new_app())
    assert orders.select("id", partition=col._partition).columns["partition"] == "int"
    with pytest.raises(PlanError, match="hidden column"):
        orders.select(_time=col["at"])
    counted = orders.group_by("user").count().to_stream()
    assert counted.select(at=col._time).columns["at"] == "timestamp"
    with pytest.raises(UnknownColumnError, match="_partition"):
        counted.filter(col._partition > 0)


def test_the_key_stays_through_select_and_cannot_be_changed_by_it() -> None:
    orders = orders_of(new_app(), key="user")
    assert list(orders.select("id").columns) == ["user", "id"]
    assert list(orders.select("id", "user").columns) == ["id", "user"]
    with pytest.raises(PlanError, match="use select_key"):
        orders.select(user=fn.upper(col.user))


def test_select_key_takes_columns_that_are_there_and_new_ones() -> None:
    orders = orders_of(new_app())
    keyed = orders.select_key("user", day=col["at"].cast("date"))
    assert keyed.key == ("user", "day")
    assert keyed.columns["day"] == "date"
    with pytest.raises(PlanError, match="at least one column"):
        orders.select_key()


def test_an_expression_without_a_name_needs_one() -> None:
    orders = orders_of(new_app())
    with pytest.raises(PlanError, match=r"needs a name: write it as name=..., or \.alias"):
        orders.select(col.amount * 2)
    assert list(orders.select((col.amount * 2).alias("name")).columns) == ["name"]


def test_a_column_that_is_called_name_is_told_apart_from_the_name_of_the_operator() -> None:
    with pytest.raises(PlanError, match=r'\.alias\("name"\)'):
        orders_of(new_app()).select(name=col.user)


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(PlanError, match="amount is a double"):
        orders_of(new_app()).filter(col.amount)
    with pytest.raises(PlanError, match="needs a function"):
        orders_of(new_app()).filter("amount > 100")


def test_the_key_as_a_name_is_text_of_the_type_that_the_value_says() -> None:
    app = new_app()
    assert app.table("a", key="id", value=Json("id long, n int")).columns == {"id": "bigint", "n": "int"}
    assert app.table("b", key="id", value=Json("n int")).columns == {"id": "string", "n": "int"}
    with pytest.raises(PlanError, match="a bigint in the key and a string in the value"):
        app.table("c", key=Long("id"), value=Json("id string"))


def test_names_are_counted_per_kind_and_given_ones_are_unique() -> None:
    app = new_app()
    orders = orders_of(app)
    assert [orders.filter(col.id > 1).name, orders.select("id").name, orders.filter(col.id > 1).name] == [
        "filter-1",
        "select-1",
        "filter-2",
    ]
    assert orders.filter(col.id > 1, name="filter-3").name == "filter-3"
    assert orders.filter(col.id > 1).name == "filter-4"
    with pytest.raises(PlanError, match="two operators are called 'filter-3'"):
        orders.filter(col.id > 1, name="filter-3")
    with pytest.raises(PlanError, match="letters, digits"):
        orders.filter(col.id > 1, name="a b")


def test_the_plan_is_what_ends_in_a_topic() -> None:
    app = new_app()
    orders = orders_of(app)
    orders.filter(col.id > 1)
    assert app.plan.nodes() == ()
    orders.to("copy")
    assert [node.name for node in app.plan.nodes()] == ["source-1", "sink-1"]


def test_an_aggregation_is_emitted_in_one_way() -> None:
    app = new_app()
    windows = orders_of(app).group_by("user").windowed(tumbling("1m")).count()
    windows.to("running")
    windows.emit("final").to("final")
    with pytest.raises(PlanError, match="both with its changes and with its final results"):
        _ = app.plan


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda o, u: o.group_by("user").count().emit("final"), "needs a window"),
        (lambda o, u: o.group_by("user").count().filter(col.count > 1).emit("changes"), "right after agg"),
        (lambda o, u: o.group_by("user").count().emit("later"), '"changes" or "final"'),
        (lambda o, u: o.group_by(), "the stream has no key"),
        (lambda o, u: o.group_by("user").agg(), "needs something to compute"),
        (lambda o, u: o.group_by("user").agg(n=1), "use count()"),
        (lambda o, u: o.group_by("user").agg(user=count()), "'user' is there twice"),
        (lambda o, u: o.group_by("user").agg(n=max_(cast("Any", "id"))), "takes a column"),
        (lambda o, u: o.group_by("user").windowed("1m"), "windowed takes tumbling"),
        (lambda o, u: o.group_by("user").windowed(session("1m")).aggregate(dict, dict, "n int"), "merge= is needed"),
        (lambda o, u: o.group_by("user").aggregate(dict, dict, "n int", merge=dict), "only for them"),
        (lambda o, u: u.group_by("tier").agg(n=max_(col.user)), "cannot take back a row"),
        (lambda o, u: o.to_table(), "needs a key"),
        (lambda o, u: o.process(print, "id long"), "state per key"),
        (lambda o, u: o.select_key("id").process(print, "n int"), "'id' is not in it"),
        (lambda o, u: o.select_key("id").process(print, "id long", state={"a": 1}), "value_state"),
        (lambda o, u: o.select_key("id").process(print, "id long", timers="wall"), '"event" or "processing"'),
        (lambda o, u: o.deduplicate(within="1m"), "needs columns"),
        (lambda o, u: o.merge(o.select("id")), "the columns differ"),
        (lambda o, u: o.merge(o.select_key("id")), "the keys differ"),
        (lambda o, u: o.merge(o.select("user", "country", "amount", "at", id=col.id.cast("string"))), "use cast"),
        (lambda o, u: o.repartition(0), "above 0"),
        (lambda o, u: o.branch(), "needs conditions"),
        (lambda o, u: o.branch(a=col.id > 1, default="a"), "so is a condition"),
        (lambda o, u: o.map_values(dict, schema="id long", n=col.id), "takes one function"),
        (lambda o, u: o.select_key("id").map_values(dict, schema="id long"), "does not change: use map"),
        (lambda o, u: u.map_values(dict, schema="user string"), "does not change: use map"),
        (lambda o, u: o.map(dict, "id long", key="n"), "no column 'n'"),
        (lambda o, u: o.to("a b"), "a topic has 1 to 249"),
        (lambda o, u: o.to("a", value=Json("nope long")), "no column 'nope'"),
        (lambda o, u: u.to(col.tier), "one topic"),
        (lambda o, u: o.join(u), r"the table's key is \(user\)"),
        (lambda o, u: o.join(u, on=["user", "id"]), "names 2 columns"),
        (lambda o, u: o.join(u, on={"user": "tier"}), "each column of the table's key once"),
        (lambda o, u: o.join(u, on="user", within="1m"), "within= is for two streams"),
        (lambda o, u: o.outer_join(u, on="user", within="1m"), "within= is for two streams"),
        (lambda o, u: o.join(o.select("id", "user"), on="user"), "needs within="),
        (lambda o, u: o.join(o.select("id", "user"), on="user", within="1m"), "both sides have a column 'id'"),
        (lambda o, u: o.join(o.select("id"), within="1m"), "say by which columns"),
        (lambda o, u: o.join([], on="user"), "takes a stream, a table or a global table"),
        (lambda o, u: u.join(o), "join the stream with this table"),
        (lambda o, u: o.join(users_of(App("other", "x")), on="user"), "different apps"),
        (lambda o, u: o.group_by("user").cogroup(dict).cogroup(o.group_by("id"), dict), "the same names"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_sentence(write: Callable[[Any, Any], Any], sentence: str) -> None:
    app = new_app()
    with pytest.raises(PlanError, match=sentence):
        write(orders_of(app), users_of(app))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"guarantee": "at_most_once"}, "exactly_once, at_least_once"),
        ({"grace": "soon"}, "grace is 'soon'"),
        ({"trigger": "5"}, "trigger is '5'"),
        ({"dead_letters": "a b"}, "dead letters"),
        ({"partitions": 0}, "partitions is 0: it must be above 0"),
        ({"max_per_trigger": 0}, "max_per_trigger is 0: it must be above 0"),
        ({"lost": "ignore"}, 'lost is \'ignore\': it must be "stop" or "skip"'),
    ],
)
def test_options_of_an_app_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        App("sales", "localhost:9092", **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topics": []}, "needs a topic"),
        ({"topics": ["a", "a"]}, "named twice"),
        ({"topics": "a b"}, "a topic has"),
        ({"start": "now"}, "earliest"),
        ({"time": "when"}, "no column 'when'"),
        ({"value": "id long"}, "use Json"),
        ({"value": Json("_key string")}, "hidden column"),
    ],
)
def test_options_of_a_stream_are_checked(options: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"topics": "orders", "value": Json("id long")} | options
    with pytest.raises(PlanError, match=sentence):
        new_app().stream(given.pop("topics"), **given)


def test_an_app_needs_a_name_that_topics_can_have() -> None:
    with pytest.raises(PlanError, match="the name of the app"):
        App("my app", "localhost:9092")


def test_state_is_under_the_users_state_directory_by_the_apps_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/states")
    assert App("sales", "x").state == "/states/headrace/streams/sales"
    assert App("sales", "x", state="here").state == "here"


def test_the_result_of_a_window_has_it_in_its_key() -> None:
    table = (
        orders_of(new_app()).group_by(who=col.user).windowed(hopping("1h", "5m")).agg(n=count(), mean=avg(col.amount))
    )
    assert table.key == ("who", "window_start", "window_end")
    assert table.columns == {
        "who": "string",
        "window_start": "timestamp",
        "window_end": "timestamp",
        "n": "bigint",
        "mean": "double",
    }


def test_a_join_has_the_columns_of_both_and_the_key_of_the_left() -> None:
    app = new_app()
    joined = orders_of(app).left_join(users_of(app), on="user")
    assert list(joined.columns) == ["id", "user", "country", "amount", "at", "tier"]
    assert joined.key == ()


def test_topics_may_be_several_or_a_pattern() -> None:
    app = new_app()
    assert app.stream(["a", "b"], value=String("text")).node.topics == ("a", "b")  # type: ignore[attr-defined]
    assert app.stream(re.compile("a.*"), value=String("text")).node.pattern == "a.*"  # type: ignore[attr-defined]


def test_states_are_sorted_by_name() -> None:
    states = {"b": value_state("n long"), "a": value_state("n long", ttl="1h")}
    node: Any = orders_of(new_app()).select_key("id").process(print, "id long", state=states).node
    assert [name for name, _ in node.states] == ["a", "b"]
