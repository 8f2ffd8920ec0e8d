"""`headrace pipeline` without Spark: files, plans, lists, tables and resets, with a real broker."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from rich.console import Console

import headrace as client
from headrace.cli.pipeline import complete_files, complete_pipelines
from headrace.cli.pipeline_view import LINE_SECONDS, Lines, Screen, bar, cells
from headrace.client.admin_groups import CommittedOffset
from headrace.client.topic_partition import TopicPartition
from headrace.streams.loading import load_app
from headrace.streams.progress import AppProgress, QueryProgress
from headrace.streams.saved_plan import agree_on_plan
from headrace.streams.state_directory import PROGRESS, RunLock, write_json
from tests.support.both_brokers import unique
from tests.support.command_line import done, headrace
from tests.support.no_java import environment_without_java

PIPELINE = """
from headrace.streams import App, Json, col, count, tumbling

app = App("{name}", "{bootstrap}")
orders = app.stream("{name}-orders", value=Json("id long, country string"))
orders.filter(col.id > 1).to("{name}-big")
by_country = orders.group_by("country")
by_country.agg(n=count(), name="countries").to("{name}-countries")
by_country.windowed(tumbling("1m")).agg(n=count(), name="minutes").to("{name}-minutes")
"""


@pytest.fixture
def name() -> str:
    return unique("pipeline")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "headrace" / "streams"


@pytest.fixture
def file(tmp_path: Path, home: Path, name: str, headrace_bootstrap: str) -> str:
    path = tmp_path / "sales.py"
    path.write_text(PIPELINE.format(name=name, bootstrap=headrace_bootstrap))
    return str(path)


@pytest.fixture
def ran(file: str, name: str, home: Path, headrace_bootstrap: str) -> str:
    """As if it had run over three of the five records of its topic."""
    app = load_app(file)
    with client.Admin(headrace_bootstrap) as admin:
        admin.create_topic(f"{name}-orders", 1)
        with client.Producer(headrace_bootstrap) as producer:
            for number in range(5):
                producer.send(f"{name}-orders", value=b"{}", timestamp=1_700_000_000_000 + number).result()
            for country, n in (("DE", 3), ("FR", 1), ("AT", 2)):
                value = json.dumps({"country": country, "n": n}).encode()
                producer.send(f"{name}-countries", key=country, value=value)
            for minute, n in ((0, 4), (1, 5)):
                window = {
                    "country": "DE",
                    "window_start": f"2026-01-01T00:0{minute}:00.000000Z",
                    "window_end": f"2026-01-01T00:0{minute + 1}:00.000000Z",
                }
                key, value = json.dumps(window), json.dumps({**window, "n": n}).encode()
                producer.send(f"{name}-minutes", key=key, value=value)
        place = TopicPartition(f"{name}-orders", 0)
        admin.alter_group_offsets(f"{name}.countries", {place: CommittedOffset(3, -1, "some-query:1")})
    agree_on_plan(app.plan, app.state, default_partitions=2)
    (home / name / "countries" / "offsets").mkdir(parents=True)
    return name


def progress(name: str, bootstrap: str) -> AppProgress:
    queries = (QueryProgress("source-1", 4, 500, 12.34, 7), QueryProgress("countries", 5, 100, 2.0, 1, None, 3, 4096))
    return AppProgress(name, bootstrap, "local[2]", 77, "here", 1_000.0, 1_010.0, queries)


# describe


def test_a_plan_is_shown_as_text_as_a_picture_and_as_json(file: str, name: str, headrace_bootstrap: str) -> None:
    shown = done("pipeline", "describe", file)
    assert f"app {name}: 3 queries" in shown.out
    assert "It does not run. Its state is to be in" in shown.out
    assert done("pipeline", "describe", file, "--mermaid").out.startswith("flowchart LR")
    (described,) = done("pipeline", "describe", file, "--json").objects
    assert (described["app"], described["running"], described["bootstrap"]) == (name, False, headrace_bootstrap)
    assert [query["name"] for query in described["queries"]] == ["source-1", "countries", "minutes"]
    assert described["queries"][1] == {
        "name": "countries",
        "mode": "update",
        "reads": [f"{name}-orders"],
        "writes": [f"{name}-countries"],
        "state": ["countries"],
        "progress": {**described["queries"][1]["progress"], "lag": 0},
    }
    assert described["plan"]["app"] == name


def test_one_that_does_not_run_has_the_lag_of_its_groups(ran: str, file: str, headrace_bootstrap: str) -> None:
    for which in (file, ran):
        (described,) = done("pipeline", "describe", which, "--json", bootstrap=headrace_bootstrap).objects
        lags = {query["name"]: query["progress"]["lag"] for query in described["queries"]}
        assert lags == {"source-1": 5, "countries": 2, "minutes": 5}


def test_one_that_runs_is_shown_with_what_it_says_itself(ran: str, home: Path, headrace_bootstrap: str) -> None:
    with RunLock(str(home / ran), app=ran):
        assert "It is starting." in done("pipeline", "describe", ran).out
        write_json(str(home / ran), PROGRESS, progress(ran, headrace_bootstrap).as_json())
        shown = done("pipeline", "describe", ran)
        assert "in process 77 of here." in shown.out
        assert shown.out.splitlines()[-1].split() == ["countries", "2", "100", "1", "-", "3", "4.0", "KiB", "0"]
        (described,) = done("pipeline", "describe", ran, "--json").objects
        assert (described["running"], described["pid"]) == (True, 77)
        assert described["queries"][0]["progress"]["rows_per_second"] == 12.3
    assert "It does not run; it ended" in done("pipeline", "describe", ran).out


def test_a_plan_is_shown_without_a_broker(file: str) -> None:
    shown = done("pipeline", "describe", file, bootstrap="127.0.0.1:1")
    assert "3 queries" in shown.out
    assert "Lag is not known: Nobody listens at 127.0.0.1:1" in shown.err


def test_what_is_not_there_is_told_with_what_might_be_meant(ran: str, tmp_path: Path) -> None:
    wrong = headrace("pipeline", "describe", ran[:-1] + "x")
    assert wrong.code == 2
    assert f"Did you mean {ran}?" in wrong.err
    assert "there is no file" in headrace("pipeline", "describe", str(tmp_path / "no.py")).err
    (tmp_path / "broken.py").write_text("import nothing_at_all\n")
    broken = headrace("pipeline", "describe", str(tmp_path / "broken.py"))
    assert (broken.code, "ModuleNotFoundError" in broken.err) == (2, True)
    assert headrace("pipeline", "describe", ran, "--json", "--mermaid").code == 2


def test_a_shell_is_told_apps_of_this_machine_and_to_look_for_files(ran: str) -> None:
    context, parameter = click.Context(click.Command("describe")), click.Argument(["app"])
    found = [(item.type, item.value) for item in complete_pipelines(context, parameter, ran[:4])]
    assert found == [("plain", ran), ("file", ran[:4])]
    assert [item.type for item in complete_files(context, parameter, "sal")] == ["file"]


# list


def test_pipelines_of_this_machine_and_of_the_cluster(ran: str, headrace_bootstrap: str, home: Path) -> None:
    other = unique("elsewhere")
    with client.Admin(headrace_bootstrap) as admin:
        place = TopicPartition(f"{ran}-orders", 0)
        admin.alter_group_offsets(f"{other}.source-1", {place: CommittedOffset(1, -1, "a-query:0")})
        admin.alter_group_offsets(f"{other}x.no-marker", {place: 1})
    listed = {each["app"]: each for each in done("pipeline", "list", "--json", bootstrap=headrace_bootstrap).objects}
    assert listed[ran] == {
        "app": ran,
        "running": False,
        "groups": [f"{ran}.countries"],
        "lag": 12,
        "state": str(home / ran),
    }
    assert listed[other] == {
        "app": other,
        "running": None,
        "groups": [f"{other}.source-1"],
        "lag": None,
        "state": None,
    }
    assert f"{other}x" not in listed
    rows = {row[0]: row for row in done("pipeline", "list", bootstrap=headrace_bootstrap).rows}
    assert rows[ran][1:4] == ["no", "1", "12"]
    assert rows[other][1:5] == ["?", "1", "-", "elsewhere"]
    alone = done("pipeline", "list", "--json", bootstrap="127.0.0.1:1")
    assert [each["app"] for each in alone.objects] == [ran]
    assert "Only pipelines of this machine are known" in alone.err


def test_without_pipelines_and_without_a_broker_there_is_nothing_to_list(home: Path) -> None:
    assert not home.exists()
    assert headrace("pipeline", "list", bootstrap="127.0.0.1:1").code == 3


# query


def test_rows_by_key_range_and_window(ran: str, file: str) -> None:
    def rows(*arguments: str) -> list[dict[str, Any]]:
        return done("pipeline", "query", file, *arguments, "--json").objects

    assert rows("countries", "--key", "DE") == [{"country": "DE", "n": 3}]
    assert rows(f"{ran}-countries", "--key", "country=DE") == [{"country": "DE", "n": 3}]
    assert [row["country"] for row in rows("countries")] == ["AT", "DE", "FR"]
    assert [row["country"] for row in rows("countries", "--from", "B", "--to", "F")] == ["DE"]
    assert [row["country"] for row in rows("countries", "--limit", "1")] == ["AT"]
    assert [row["n"] for row in rows("minutes", "--key", "DE", "--from", "2026-01-01T00:01Z")] == [5]
    assert [row["n"] for row in rows("minutes", "--to", "2026-01-01T00:01Z")] == [4]
    assert rows("minutes", "--limit", "1")[0]["window_start"] == "2026-01-01T00:00:00Z"
    table = done("pipeline", "query", ran, "countries", bootstrap=load_app(file).bootstrap)
    assert table.rows == [["AT", "2"], ["DE", "3"], ["FR", "1"]]


def test_questions_without_an_answer(ran: str, file: str) -> None:
    nothing = headrace("pipeline", "query", file, "countries", "--key", "XX")
    assert (nothing.code, nothing.out) == (1, "")
    assert "countries has no such row" in nothing.err
    both = headrace("pipeline", "query", file, "countries", "--key", "DE", "--from", "A")
    assert (both.code, "exclude one another" in both.err) == (2, True)
    wrong = headrace("pipeline", "query", file, "minutes", "--key", "a=1", "--key", "b=2")
    assert (wrong.code, "Write --key country=…" in wrong.err) == (2, True)
    assert "is no time" in headrace("pipeline", "query", file, "minutes", "--from", "latest").err
    stream = headrace("pipeline", "query", file, f"{ran}-big")
    assert (stream.code, "is a stream" in stream.err) == (2, True)
    assert headrace("pipeline", "query", file, "countries", bootstrap="127.0.0.1:1").code == 3


# reset


def test_a_reset_is_planned_carried_out_and_undone(ran: str, file: str, home: Path, headrace_bootstrap: str) -> None:
    dry = done("pipeline", "reset", file, "--to-earliest", "--dry-run")
    assert f"Groups that are deleted, with their markers: {ran}.countries" in dry.out
    assert dry.err == "This was a dry run: nothing has changed.\n"
    assert (home / ran / "countries").exists()
    (planned,) = done("pipeline", "reset", ran, "--to-offset", "2", "--json", bootstrap=headrace_bootstrap).objects
    assert (planned["done"], planned["checkpoints"], planned["groups"]) == (True, ["countries"], [f"{ran}.countries"])
    assert {(each["query"], each["offset"]) for each in planned["starts"]} == {
        ("source-1", 2),
        ("countries", 2),
        ("minutes", 2),
    }
    assert not (home / ran / "countries").exists()
    back = done("pipeline", "reset", ran, "--undo", bootstrap=headrace_bootstrap)
    assert back.out == f"{ran} goes on where it was before the reset: countries.\n"
    assert (home / ran / "countries").exists()
    again = headrace("pipeline", "reset", file, "--undo")
    assert (again.code, "nothing to undo" in again.err) == (2, True)


def test_where_to(ran: str, file: str) -> None:
    def offsets(*arguments: str) -> set[int]:
        (planned,) = done("pipeline", "reset", file, *arguments, "--dry-run", "--json").objects
        return {each["offset"] for each in planned["starts"]}

    assert offsets("--to-earliest") == {0}
    assert offsets("--to-offset", f"{ran}-orders:0=4") == {4}
    assert offsets("--to-offset", f"{ran}-orders=3") == {3}
    assert offsets("--to-time", "@1700000000002") == {2}
    assert offsets("--to-time", "1s ago") == {5}
    for arguments in ([], ["--to-earliest", "--to-offset", "1"], ["--to-offset", "x"], ["--to-time", "soon"]):
        assert headrace("pipeline", "reset", file, *arguments).code == 2, arguments


def test_a_cluster_that_takes_too_long_is_not_waited_for(ran: str, file: str, home: Path) -> None:
    slow = headrace("pipeline", "reset", file, "--to-earliest", "--timeout", "0.000001")
    assert (slow.code, "has not answered everything within 1e-06 s" in slow.err) == (3, True)
    assert (home / ran / "countries").exists()
    shown = done("pipeline", "describe", file, "--timeout", "0.000001")
    assert "Lag is not known: The cluster has not answered" in shown.err


def test_one_that_runs_is_not_reset(ran: str, file: str, home: Path) -> None:
    with RunLock(str(home / ran), app=ran):
        refused = headrace("pipeline", "reset", file, "--to-earliest")
        assert (refused.code, f"{ran} runs: stop it first" in refused.err) == (2, True)
        assert headrace("pipeline", "reset", file, "--undo").code == 2
        assert headrace("pipeline", "reset", file, "--to-earliest", "--dry-run").code == 0


def test_state_whose_plan_cannot_be_read_can_be_reset_by_the_file(ran: str, file: str, home: Path) -> None:
    (home / ran / "plan.json").write_text("{}")
    by_name = headrace("pipeline", "reset", ran, "--to-earliest")
    assert (by_name.code, "this is not a plan that Headrace has written" in by_name.err) == (2, True)
    done("pipeline", "reset", file, "--to-earliest")
    assert not (home / ran / "countries").exists()
    assert not (home / ran / "plan.json").exists()


# run, before Spark starts


def test_what_can_be_known_before_spark_starts_is_said_before(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = headrace("pipeline", "run", file, "--master", "sparc://host")
    assert (wrong.code, "there is no Spark master 'sparc://host'" in wrong.err) == (2, True)
    away = headrace("pipeline", "run", file, "--master", "spark://127.0.0.1:1")
    assert (away.code, "no Spark master answers at spark://127.0.0.1:1" in away.err) == (2, True)
    assert headrace("pipeline", "run", file, bootstrap="127.0.0.1:1").code == 3
    elsewhere = headrace("pipeline", "run", file, "--state", "s3a://bucket/state")
    assert (elsewhere.code, "state is 's3a://bucket/state': it must be a directory" in elsewhere.err) == (2, True)
    (tmp_path / "loose.py").write_text(Path(file).read_text() + 'orders.filter(col.id > 1, name="forgotten")\n')
    loose = headrace("pipeline", "run", str(tmp_path / "loose.py"), "--master", "sparc://host")
    assert "leaves out forgotten, from where no topic is written: end what is to be run" in loose.err
    described = headrace("pipeline", "describe", str(tmp_path / "loose.py"), bootstrap="127.0.0.1:1")
    assert "left out, since no topic is written from there: forgotten" in described.out
    assert "--trigger is 'often'" in headrace("pipeline", "run", file, "--trigger", "often").err
    assert (
        "'--max-per-trigger': 0 is not in the range" in headrace("pipeline", "run", file, "--max-per-trigger", "0").err
    )
    (tmp_path / "two.py").write_text(Path(file).read_text() + 'two = App("two", "localhost:9092")\n')
    several = headrace("pipeline", "run", str(tmp_path / "two.py"))
    assert (several.code, "has several apps: app, two" in several.err) == (2, True)
    nothing = headrace("pipeline", "run", f"{tmp_path / 'two.py'}:two")
    assert (nothing.code, "writes nothing" in nothing.err) == (2, True)
    for variable, value in environment_without_java(tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("headrace.spark.java._of_wheel", lambda: None)
    no_java = headrace("pipeline", "run", file)
    assert (no_java.code, "Spark needs Java 17 or newer" in no_java.err) == (2, True)


# what is seen


def test_lines_come_for_queries_that_have_moved_and_not_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = Lines(as_json=False, clock=lambda: now[0])

    def shown(*reports: str, at_once: bool = False) -> list[str]:
        queries = tuple(QueryProgress(f"q{index}", 1, 10, 2.0, reported=text) for index, text in enumerate(reports))
        lines.show(AppProgress("sales", "", "", 1, "", 0.0, 1.0, queries), at_once=at_once)
        return [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]

    assert shown("a", "a") == ["sales.q0", "sales.q1"]
    assert shown("b", "b") == []
    assert shown("b", "a", at_once=True) == ["sales.q0"]
    now[0] += LINE_SECONDS
    assert shown("b", "b") == ["sales.q1"]


def test_a_terminal_has_a_table_that_is_drawn_anew() -> None:
    out = io.StringIO()
    with Screen(Console(file=out, force_terminal=True, width=120)) as screen:
        screen.show(progress("sales", "localhost:9092"))
        first = out.getvalue()
        screen.show(progress("sales", "localhost:9092"))
    assert "sales, for 10s" in first
    assert "4.0 KiB" in first
    assert "\x1b[1A" in out.getvalue()[len(first) :], "the cursor goes up, and the table is written over"


def test_a_bar_is_for_people_who_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, seen in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr("sys.stderr", stream)
        with bar(200) as advance:
            advance(50)
            advance(250)
        assert ("250/250" in stream.getvalue()) is seen


def test_cells_of_a_query() -> None:
    watermark = datetime(2026, 1, 1, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    query = QueryProgress("users", 3, 12_345, 1234.5, 1_000, watermark, 2_000, 4096, 7)
    assert cells(query) == ["users", "1,234", "12,345", "1,000", "2026-01-01T00:00:00Z", "2,000", "4.0 KiB", "7"]
    assert cells(QueryProgress("users")) == ["users", "0", "0", "-", "-", "-", "-", "0"]
