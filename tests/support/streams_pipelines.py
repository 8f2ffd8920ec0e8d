"""The pipelines that Kafka Streams judges, each in our language and as tests/interop/streams_judge knows it.

Topics are the streams `orders` and `payments`, the tables `users` and `profiles` by user, `cities`, and the global
table `items`. Every pipeline ends in a topic of its own name.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headrace.streams import (
    App,
    Json,
    Stream,
    Table,
    col,
    count,
    hopping,
    max_,
    min_,
    session,
    sliding,
    sum_,
    tumbling,
)
from headrace.streams.columns import Column
from headrace.streams.table import GlobalTable
from headrace.streams.windows import Window

SIZE_MS: Final = 60_000
HOP_MS: Final = 20_000
DIFFERENCE_MS: Final = 15_000
GAP_MS: Final = 20_000
BEFORE_MS: Final = 5_000
AFTER_MS: Final = 20_000


class Sources(NamedTuple):
    orders: Stream
    payments: Stream
    users: Table
    profiles: Table
    cities: Table
    items: GlobalTable


class Pipeline(NamedTuple):
    """`key` are the columns of its result's key. `is_stream`: results are facts, and not changes of a table.

    `has_other_times`: the timestamps of results are not those of Kafka Streams. `size` is the column that counts the
    rows of a table's group. One that all have left stays, with 0; there also if it came and went in one micro-batch.
    """

    build: Callable[[Sources], Table | Stream]
    judged: Mapping[str, Any]
    key: tuple[str, ...] = ("user",)
    is_stream: bool = False
    has_other_times: bool = False
    size: str | None = None


# What runs in one app, and so at a time: of operators with state in Python, each a process, not too many.
TOGETHER: Final = (
    ("running", "hopping-changes", "tumbling-final", "session-final"),
    ("join-streams-inner", "join-streams-left", "join-streams-outer"),
    ("sliding-changes", "sliding-final", "session-changes"),
    ("reduce", "reduce-tumbling", "fold", "fold-session"),
    ("cogroup", "group-table"),
    (
        *("join-table-inner", "join-table-left", "join-global-table-inner", "join-global-table-left"),
        *("filter-table", "to-table"),
    ),
    ("join-tables-inner", "join-tables-left", "join-tables-outer"),
    ("join-foreign-key-inner", "join-foreign-key-left"),
)


def sources(app: App) -> Sources:
    return Sources(
        app.stream("orders", key="user", value=Json("amount long, item string")),
        app.stream("payments", key="user", value=Json("paid long")),
        app.table("users", key="user", value=Json("age long, city string")),
        app.table("profiles", key="user", value=Json("nick string")),
        app.table("cities", key="city", value=Json("size long")),
        app.global_table("items", key="item", value=Json("price long")),
    )


def pipelines(*, grace_ms: int) -> dict[str, Pipeline]:
    """By name. `grace_ms` is that of the app."""
    return {
        **_aggregates(grace_ms),
        **_folds(grace_ms),
        **_joins_of_streams(grace_ms),
        **_lookups(),
        **_tables(),
        **_joins_of_tables(),
    }


# --- aggregates by expressions

_WINDOW_KEY: Final = ("user", "window_start", "window_end")
_TUMBLING: Final = {"window": "tumbling", "size_ms": SIZE_MS}
_HOPPING: Final = {"window": "hopping", "size_ms": SIZE_MS, "hop_ms": HOP_MS}
_SLIDING: Final = {"window": "sliding", "size_ms": DIFFERENCE_MS}
_SESSION: Final = {"window": "session", "size_ms": GAP_MS}
_WINDOWS: Final[dict[str, tuple[Window, dict[str, Any]]]] = {
    "tumbling": (tumbling(f"{SIZE_MS}ms"), _TUMBLING),
    "hopping": (hopping(f"{SIZE_MS}ms", f"{HOP_MS}ms"), _HOPPING),
    "sliding": (sliding(f"{DIFFERENCE_MS}ms"), _SLIDING),
    "session": (session(f"{GAP_MS}ms"), _SESSION),
}


def _summary() -> dict[str, Any]:
    return {"n": count(), "total": sum_(col.amount), "low": min_(col.amount), "high": max_(col.amount)}


def _aggregates(grace_ms: int) -> dict[str, Pipeline]:
    def windowed(kind: str, emit: Any) -> Pipeline:
        window, parameters = _WINDOWS[kind]
        name = f"{kind}-{emit}"
        return Pipeline(
            lambda of: of.orders.group_by().windowed(window).agg(**_summary(), name=name).emit(emit),
            {"operator": "aggregate", **parameters, "emit": emit, "grace_ms": grace_ms},
            _WINDOW_KEY,
        )

    return {
        "running": Pipeline(
            lambda of: of.orders.group_by().agg(**_summary(), name="running"), {"operator": "aggregate"}
        ),
        **{f"{kind}-changes": windowed(kind, "changes") for kind in ("hopping", "sliding", "session")},
        **{f"{kind}-final": windowed(kind, "final") for kind in ("tumbling", "sliding", "session")},
    }


# --- aggregates by functions

_SUMMARY: Final = "n long, total long, low long, high long"
Row = dict[str, Any]


def nothing() -> Row:
    return {"n": 0, "total": 0, "low": None, "high": None}


def summarised(before: Row, row: Row) -> Row:
    amount = row["amount"]
    return {
        "n": before["n"] + 1,
        "total": before["total"] + amount,
        "low": amount if before["low"] is None else min(before["low"], amount),
        "high": amount if before["high"] is None else max(before["high"], amount),
    }


def merged(one: Row, other: Row) -> Row:
    if one["low"] is None or other["low"] is None:
        return other if one["low"] is None else one
    return {
        "n": one["n"] + other["n"],
        "total": one["total"] + other["total"],
        "low": min(one["low"], other["low"]),
        "high": max(one["high"], other["high"]),
    }


def reduced(one: Row, other: Row) -> Row:
    """It can be told in which order the rows came."""
    return {
        **one,
        "amount": (31 * one["amount"] + other["amount"]) % 1_000_003,
        "item": one["item"] + other["item"],
    }


def with_order(before: Row, order: Row) -> Row:
    return {"n": before["n"] + 1, "total": before["total"] + order["amount"]}


def with_payment(before: Row, payment: Row) -> Row:
    return {"n": before["n"] + 1, "total": before["total"] - payment["paid"]}


def _folds(grace_ms: int) -> dict[str, Pipeline]:
    minutes, in_minutes = _WINDOWS["tumbling"]
    sessions, in_sessions = _WINDOWS["session"]
    return {
        "reduce": Pipeline(
            lambda of: of.orders.group_by().reduce(reduced, name="reduce"), {"operator": "aggregate", "fold": "reduce"}
        ),
        "fold": Pipeline(
            lambda of: of.orders.group_by().aggregate(nothing, summarised, _SUMMARY, name="fold"),
            {"operator": "aggregate"},
        ),
        "reduce-tumbling": Pipeline(
            lambda of: of.orders.group_by().windowed(minutes).reduce(reduced, name="reduce-tumbling"),
            {"operator": "aggregate", "fold": "reduce", **in_minutes, "emit": "changes", "grace_ms": grace_ms},
            _WINDOW_KEY,
        ),
        "fold-session": Pipeline(
            lambda of: (
                of.orders.group_by()
                .windowed(sessions)
                .aggregate(nothing, summarised, _SUMMARY, merge=merged, name="fold-session")
                .emit("final")
            ),
            {"operator": "aggregate", **in_sessions, "emit": "final", "grace_ms": grace_ms},
            _WINDOW_KEY,
        ),
        "cogroup": Pipeline(
            lambda of: (
                of.orders.group_by()
                .cogroup(with_order)
                .cogroup(of.payments.group_by(), with_payment)
                .aggregate(lambda: {"n": 0, "total": 0}, "n long, total long", name="cogroup")
            ),
            {"operator": "cogroup"},
        ),
    }


# --- joins

_WITHIN: Final = (f"{BEFORE_MS}ms", f"{AFTER_MS}ms")
_HOWS: Final = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def _joins_of_streams(grace_ms: int) -> dict[str, Pipeline]:
    def joined(how: str) -> Pipeline:
        name = f"join-streams-{how}"
        parameters = {"how": how, "before_ms": BEFORE_MS, "after_ms": AFTER_MS, "grace_ms": grace_ms}
        return Pipeline(
            lambda of: getattr(of.orders, _HOWS[how])(of.payments, within=_WITHIN, name=name),
            {"operator": "join-streams", **parameters},
            is_stream=True,
        )

    return {f"join-streams-{how}": joined(how) for how in _HOWS}


def _lookups() -> dict[str, Pipeline]:
    def with_table(how: str) -> Pipeline:
        name = f"join-table-{how}"
        return Pipeline(
            lambda of: getattr(of.orders, _HOWS[how])(of.users, name=name),
            {"operator": "join-table", "how": how},
            is_stream=True,
        )

    def with_global_table(how: str) -> Pipeline:
        name = f"join-global-table-{how}"
        return Pipeline(
            lambda of: getattr(of.orders, _HOWS[how])(of.items, on="item", name=name),
            {"operator": "join-global-table", "how": how},
            is_stream=True,
        )

    return {
        **{f"join-table-{how}": with_table(how) for how in ("inner", "left")},
        **{f"join-global-table-{how}": with_global_table(how) for how in ("inner", "left")},
    }


def _joins_of_tables() -> dict[str, Pipeline]:
    def by_key(how: str) -> Pipeline:
        name = f"join-tables-{how}"
        return Pipeline(
            lambda of: getattr(of.users, _HOWS[how])(of.profiles, name=name),
            {"operator": "join-tables", "how": how},
            # Of both sides' changes within a micro-batch it is not known which was the last.
            has_other_times=how != "inner",
        )

    def by_city(how: str) -> Pipeline:
        name = f"join-foreign-key-{how}"
        return Pipeline(
            lambda of: getattr(of.users, _HOWS[how])(of.cities, on="city", name=name),
            {"operator": "join-foreign-key", "how": how},
            has_other_times=True,  # as old as the younger row; there as the right row if that was the last to change
        )

    return {
        **{f"join-tables-{how}": by_key(how) for how in _HOWS},
        **{f"join-foreign-key-{how}": by_city(how) for how in ("inner", "left")},
    }


# --- tables


def _adult() -> Column:
    return col.age >= 18


def _tables() -> dict[str, Pipeline]:
    return {
        "filter-table": Pipeline(lambda of: of.users.filter(_adult()), {"operator": "filter-table"}),
        "to-table": Pipeline(lambda of: of.orders.to_table(), {"operator": "to-table"}),
        "group-table": Pipeline(
            lambda of: of.users.group_by("city").agg(n=count(), total=sum_(col.age), name="group-table"),
            {"operator": "group-table"},
            ("city",),
            has_other_times=True,  # of several changes of a row within a micro-batch only the last counts
            size="n",
        ),
    }
