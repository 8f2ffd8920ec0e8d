"""Functions that raise, with a real Spark on the topics of a test: who leaves as a dead letter, and who goes on."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.streams import App, Json, Own, col, count, tumbling, vectorized
from headrace.streams.compiler.app_test import AppTest
from headrace.streams.failing import MAX_ERROR_LENGTH
from headrace.streams.feeding import Record

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

AT = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


def inverse(row: dict[str, Any]) -> dict[str, Any]:
    return {"inverse": 1 / row["n"]}


@vectorized
def sixths(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return {"sixth": pc.divide(6, rows["n"]), "together": pa.array([len(rows)] * len(rows))}


def times(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number in range(row["n"]):
        yield {"number": number}
        if row["name"] == "half":
            raise ValueError("x" * 10 * MAX_ERROR_LENGTH)


def encode(row: dict[str, Any]) -> bytes:
    return str(row["name"]).encode("ascii")


def add(so_far: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    so_far["names"].append(row["name"])
    return so_far if 6 / row["n"] else {}


def add_count(so_far: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    so_far["names"].append(str(row["count"]))
    return so_far if 1 / (row["count"] - 1) else {}


def count_on(paper: Path) -> Callable[[dict[str, Any]], None]:
    def add_line(row: dict[str, Any]) -> None:
        with paper.open("a") as file:
            print(row["name"], file=file)

    return add_line


def numbers_app(peeked: Path) -> App:
    app = App("numbers", "nowhere:1", dead_letters="dead", grace="0s", partitions=1)
    numbers = app.stream("numbers", value=Json("name string, n long"), key="user")

    def look(row: dict[str, Any]) -> None:
        with peeked.open("a") as file:
            print(row["name"], file=file)
        if row["name"] == "unlucky":
            raise LookupError(row["name"])

    inverted = numbers.map_values(inverse, schema="inverse double", name="inverse")
    inverted.to("inverted")
    inverted.filter(col.inverse > 0.5).to("big")
    numbers.filter(lambda row: row["name"].startswith("o"), name="starting").to("starting")
    numbers.flat_map(times, "number long", name="times").to("times")
    numbers.map_values(lambda row: {"text": row["n"]}, schema="text boolean", name="typed").to("typed")
    numbers.map_values(lambda row: {"half": row["n"] / 2}, schema="half long", name="halves").to("halves")
    numbers.map_values(sixths, schema="sixth long, together long", name="sixths").to("sixths")
    numbers.filter(vectorized(lambda rows: pc.greater(rows["n"], 2)), name="above-2").to("above-2")
    numbers.check(vectorized(lambda rows: pc.less(rows["n"], 5)), "not below 5", name="under-5").to("under-5")
    seen = numbers.peek(look, name="look")
    seen.to("seen")
    seen.select("n").to("seen-too")
    numbers.check(col.n < 5, "n must be below 5", name="below-5").to("below-5")
    numbers.check(lambda row: row["name"][0] != "o", name="no-o").foreach(count_on(peeked.with_name("counted")))
    parts = numbers.branch(none=col.n.is_null(), low=lambda row: row["n"] < 2, default="high", name="parts")
    for name, part in parts.items():
        part.to(name)
    parts["low"].merge(parts["high"]).to("both")
    numbers.to("encoded", value=Own("name string", encode=encode), name="encoded")
    # Before state, behind state, and between two operators with state.
    good = numbers.filter(lambda row: row["n"] / row["n"], name="good")
    counts = good.group_by("user").agg(count=count(), name="counts").to_stream()
    counts.check(col.count < 3, name="few").to("few")
    counts.map_values(lambda row: {"left": 1 / (3 - row["count"])}, schema="left double", name="left").to("left")
    spans = app.stream("spans", value=Json("n long"), key="user")  # for itself, since it takes one step more
    tens = spans.group_by("user").windowed(tumbling("10s")).agg(c=count(), name="tens").emit("final").to_stream()
    limited = tens.filter(lambda row: 1 / (row["c"] - 1) < 2, name="limited")
    limited.group_by("user").windowed(tumbling("1m")).agg(m=count(), name="minutes").emit("final").to("minutes")
    # In folds: over records of two streams, and over rows that are no records any more.
    totals = numbers.group_by("user").cogroup(add).cogroup(counts.group_by("user"), add_count)
    totals.aggregate(lambda: {"names": []}, "names array<string>", name="totals").to("totals")
    return app


@pytest.fixture(scope="module")
def peeked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peeked") / "rows"


@pytest.fixture(scope="module")
def ran(spark: SparkSession, peeked: Path) -> Iterator[AppTest]:
    with numbers_app(peeked).test(spark) as test:
        test.feed("numbers", {"name": "one", "n": 1}, {"name": "two", "n": 2}, key="a", at=AT)
        test.feed("numbers", {"name": "zero", "n": 0}, {"name": "half", "n": 3}, key="b", at=AT)
        test.feed("numbers", {"name": "unlucky", "n": 4}, {"name": "ö", "n": 5}, {"n": None}, key="c", at=AT)
        for user in "aabbccc":
            test.feed("spans", {"n": 1}, key=user, at=AT)
        test.run()
        test.feed("numbers", {"name": "later", "n": 6}, key="a", at="2026-01-01T00:10:00Z")
        test.feed("spans", {"n": 1}, key="a", at="2026-01-01T00:10:00Z")
        test.run()
        yield test


def values(test: AppTest, topic: str, column: str) -> list[Any]:
    """In order, since those of several feeds come in any."""
    return sorted((record.json[column] for record in test.read(topic)), key=str)


@pytest.fixture(scope="module")
def dead(ran: AppTest) -> dict[str, list[Record]]:
    """By operator."""
    found: dict[str, list[Record]] = {}
    for record in ran.read("dead"):
        found.setdefault(header(record, "operator") or "", []).append(record)
    return {name: sorted(records, key=lambda each: int(header(each, "offset") or 0)) for name, records in found.items()}


def header(record: Record, name: str) -> str | None:
    value = dict(record.headers).get(f"headrace.{name}")
    return None if value is None else value.decode()


def test_a_row_for_which_a_function_raises_leaves_once_and_the_others_go_on(
    ran: AppTest, dead: dict[str, list[Record]]
) -> None:
    assert values(ran, "inverted", "inverse") == [1 / 6, 0.2, 0.25, 1 / 3, 0.5, 1.0]
    assert values(ran, "big", "inverse") == [1.0]
    zero, none = dead["inverse"]
    assert (zero.key, zero.json, zero.timestamp) == (b"b", {"name": "zero", "n": 0}, AT)
    headers = dict(zero.headers)
    assert headers.pop("headrace.failed-at")
    assert headers == {
        "headrace.error": b"ZeroDivisionError: division by zero",
        "headrace.app": b"numbers",
        "headrace.operator": b"inverse",
        "headrace.function": b"tests.spark.test_streams_dead_letters.inverse",
        "headrace.topic": b"numbers",
        "headrace.partition": b"0",
        "headrace.offset": b"2",
        "headrace.timestamp": b"2026-01-01T00:00:10.000000Z",
    }
    assert (header(none, "error") or "").startswith("TypeError: unsupported operand")


def test_a_condition_that_raises(ran: AppTest, dead: dict[str, list[Record]]) -> None:
    assert values(ran, "starting", "name") == ["one"]
    (none,) = dead["starting"]
    assert none.json == {"n": None}


def test_of_a_record_whose_rows_come_half_way_there_are_none_and_long_errors_are_cut(
    ran: AppTest, dead: dict[str, list[Record]]
) -> None:
    assert len(ran.read("times")) == 1 + 2 + 0 + 4 + 5 + 6
    half = next(record for record in dead["times"] if record.json.get("name") == "half")
    error = header(half, "error") or ""
    assert error.startswith("ValueError: xxx")
    assert len(error) == MAX_ERROR_LENGTH


def test_what_does_not_fit_the_schema_is_the_fault_of_its_row(ran: AppTest, dead: dict[str, list[Record]]) -> None:
    assert [record.json["text"] for record in ran.read("typed")] == [None]
    assert len(dead["typed"]) == 7
    assert "does not fit the schema" in (header(dead["typed"][0], "error") or "")


def test_numbers_are_not_cut_to_whole_ones(ran: AppTest, dead: dict[str, list[Record]]) -> None:
    assert values(ran, "halves", "half") == [0, 1, 2, 3]
    one, half, _, _ = dead["halves"]
    assert (one.json["name"], half.json["name"]) == ("one", "half")
    assert (
        header(one, "error")
        == "what it gave does not fit the schema: ValueError: 0.5 is not a whole number, which int64 needs"
    )


def test_peek_sees_each_row_once_and_passes_it_on(ran: AppTest, dead: dict[str, list[Record]], peeked: Path) -> None:
    expected = [None, "half", "later", "one", "two", "zero", "ö"]
    assert values(ran, "seen", "name") == expected
    assert len(ran.read("seen-too")) == len(expected)
    assert [record.json["name"] for record in dead["look"]] == ["unlucky"]
    assert sorted(peeked.read_text().splitlines()) == sorted([*map(str, expected), "unlucky"])


def test_a_row_that_a_check_refuses_is_dead_with_its_bytes_and_the_message(
    ran: AppTest, dead: dict[str, list[Record]]
) -> None:
    assert values(ran, "below-5", "n") == [0, 1, 2, 3, 4]
    large, none, later = dead["below-5"]
    assert (large.key, large.value, large.timestamp) == (b"c", '{"name": "ö", "n": 5}'.encode(), AT)
    assert (none.json, later.json["n"]) == ({"n": None}, 6), "what is NULL is not true"
    headers = dict(large.headers)
    assert headers.pop("headrace.failed-at")
    assert headers == {
        "headrace.error": b"n must be below 5",
        "headrace.app": b"numbers",
        "headrace.operator": b"below-5",
        "headrace.topic": b"numbers",
        "headrace.partition": b"0",
        "headrace.offset": b"5",
        "headrace.timestamp": b"2026-01-01T00:00:10.000000Z",
    }


def test_a_check_by_a_function_refuses_by_what_it_says_and_by_what_it_raises(dead: dict[str, list[Record]]) -> None:
    assert [(record.json.get("name"), header(record, "error")) for record in dead["no-o"]] == [
        ("one", "it is not true that <lambda>()"),
        (None, "TypeError: 'NoneType' object is not subscriptable"),
    ]


def test_a_vectorized_function_is_called_for_single_rows_only_if_it_fails_for_all_of_them(
    ran: AppTest, dead: dict[str, list[Record]]
) -> None:
    found = [(record.json["sixth"], record.json["together"]) for record in ran.read("sixths")]
    assert sorted(found, key=str) == [(1, 1), (1, 1), (1, 1), (2, 1), (3, 1), (6, 1), (None, 1)]
    (zero,) = dead["sixths"]
    assert (zero.json["name"], header(zero, "error")) == ("zero", "pyarrow.lib.ArrowInvalid: divide by zero")
    assert header(zero, "function") == "tests.spark.test_streams_dead_letters.sixths"


def test_vectorized_conditions(ran: AppTest, dead: dict[str, list[Record]]) -> None:
    assert values(ran, "above-2", "n") == [3, 4, 5, 6]
    assert "above-2" not in dead
    assert values(ran, "under-5", "n") == [0, 1, 2, 3, 4]
    refused = [(record.json["n"], header(record, "error")) for record in dead["under-5"]]
    assert refused == [(5, "not below 5"), (None, "not below 5"), (6, "not below 5")]


def test_a_check_behind_state_has_the_row(ran: AppTest, dead: dict[str, list[Record]]) -> None:
    assert sorted((record.json["user"], record.json["count"]) for record in ran.read("few")) == [
        ("a", 2),
        ("b", 1),
        ("c", 2),
    ]
    (record,) = dead["few"]
    assert (record.key, record.json, header(record, "row")) == (b"a", {"user": "a", "count": 3}, "json")
    assert header(record, "error") == "it is not true that count < 3"


@pytest.mark.usefixtures("ran")
def test_foreach_is_called_once_for_each_row_though_nothing_is_written(peeked: Path) -> None:
    assert sorted(peeked.with_name("counted").read_text().split()) == ["half", "later", "two", "unlucky", "zero", "ö"]


def test_a_branch_asks_a_function_only_if_no_choice_before_it_is_taken(
    ran: AppTest, dead: dict[str, list[Record]]
) -> None:
    assert values(ran, "none", "n") == [None]
    assert values(ran, "low", "n") == [0, 1]
    assert values(ran, "high", "n") == [2, 3, 4, 5, 6]
    assert values(ran, "both", "n") == [0, 1, 2, 3, 4, 5, 6]
    assert "parts" not in dead


def test_what_cannot_be_encoded_is_dead(ran: AppTest, dead: dict[str, list[Record]]) -> None:
    encoded = {b"one", b"two", b"zero", b"half", b"unlucky", b"None", b"later"}
    assert {record.value for record in ran.read("encoded")} == encoded
    (record,) = dead["encoded"]
    assert record.json["name"] == "ö"
    assert (header(record, "error") or "").startswith("UnicodeEncodeError")


def test_a_function_before_state_fails_once_and_its_row_is_not_counted(
    ran: AppTest, dead: dict[str, list[Record]]
) -> None:
    assert [record.json["n"] for record in dead["good"]] == [0, None]
    assert [header(record, "topic") for record in dead["good"]] == ["numbers", "numbers"]
    left = [(record.json["user"], record.json["left"]) for record in ran.read("left")]
    assert sorted(left) == [("a", 1.0), ("b", 0.5), ("c", 1.0)]
    counted = {row["user"]: row["count"] for row in ran.table("counts").values()}  # written to no topic but the app's
    assert counted == {"a": 3, "b": 1, "c": 2}


def test_a_fold_goes_on_without_the_rows_for_which_it_raises(ran: AppTest, dead: dict[str, list[Record]]) -> None:
    """Of records the letter has the bytes, of other rows the columns; either function has changed what it was given."""
    found = {row["user"]: sorted(row["names"]) for row in ran.table("totals").values()}
    assert found == {"a": ["2", "3", "later", "one", "two"], "b": ["half"], "c": ["2", "unlucky", "ö"]}
    records, rows = ([each for each in dead["totals"] if header(each, "row") == kind] for kind in (None, "json"))
    assert [(each.key, each.json) for each in records] == [(b"b", {"name": "zero", "n": 0}), (b"c", {"n": None})]
    assert [(each.key, each.json) for each in rows] == [(b"b", {"user": "b", "count": 1})]
    assert header(records[0], "error") == "ZeroDivisionError: division by zero"
    assert (header(records[0], "topic"), header(records[0], "timestamp")) == ("numbers", "2026-01-01T00:00:10.000000Z")
    assert (header(records[0], "function") or "").endswith(".add")


def test_behind_state_the_dead_letter_is_the_row(dead: dict[str, list[Record]]) -> None:
    (record,) = dead["left"]
    assert (record.key, record.json) == (b"a", {"user": "a", "count": 3})
    assert (header(record, "row"), header(record, "topic"), header(record, "offset")) == ("json", None, None)


def test_between_two_operators_with_state_the_dead_letter_is_the_row_and_the_second_does_not_see_it(
    ran: AppTest, dead: dict[str, list[Record]]
) -> None:
    assert "limited" not in dead
    ran.feed("spans", {"n": 1}, {"n": 1}, key="a", at="2026-01-01T01:00:00Z")
    ran.feed("spans", {"n": 1}, key="a", at="2026-01-01T02:00:00Z")
    ran.run()
    assert sorted((record.json["user"], record.json["m"]) for record in ran.read("minutes")) == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
    ]
    (lonely,) = [record for record in ran.read("dead") if header(record, "operator") == "limited"]
    assert (lonely.json["user"], lonely.json["c"], lonely.json["window_start"][11:16]) == ("a", 1, "00:10")
    assert (header(lonely, "row"), header(lonely, "topic")) == ("json", None)
    assert b'"user":"a"' in (lonely.key or b"")


def test_without_dead_letters_a_row_that_a_check_refuses_stops_the_app(spark: SparkSession) -> None:
    app = App("checked", "nowhere:1", partitions=1)
    numbers = app.stream("numbers", value=Json("n long"))
    numbers.check(col.n > 1, "n must be above 1", name="above-1").to("above-1")
    with app.test(spark) as test:
        test.feed("numbers", {"n": 2}, {"n": 1})
        with pytest.raises(
            StreamingQueryException,
            match=r"above-1: the record at offset 1 of numbers-0 is refused: n must be above 1\. Give .*dead_letters=",
        ):
            test.run()


def test_without_dead_letters_what_does_not_fit_the_schema_stops_the_app(spark: SparkSession) -> None:
    app = App("strict", "nowhere:1", partitions=1)
    numbers = app.stream("numbers", value=Json("n long"))
    numbers.map_values(lambda row: {"text": row["n"]}, schema="text boolean", name="typed").to("typed")
    with app.test(spark) as test:
        test.feed("numbers", {"n": 1})
        with pytest.raises(
            StreamingQueryException, match="typed fails for the record at offset 0 of numbers-0: what it gave"
        ):
            test.run()
