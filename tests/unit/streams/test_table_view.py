"""Tables of an app, read from topics of a real broker while they change."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace
from headrace.streams import App, Json, PlanError, count, tumbling
from tests.support.both_brokers import unique


def minute(number: int) -> datetime:
    return datetime(2026, 1, 1, 0, number, tzinfo=UTC)


@pytest.fixture
def app(headrace_bootstrap: str) -> App:
    made = App(unique("views"), headrace_bootstrap)
    orders = made.stream("orders", value=Json("country string, city string"))
    orders.group_by("country").agg(n=count(), name="countries").to(f"{made.name}-countries")
    orders.group_by("country", "city").agg(n=count(), name="cities").to(f"{made.name}-cities")
    windows = orders.group_by("country").windowed(tumbling("1m"))
    windows.agg(n=count(), name="minutes").to(f"{made.name}-minutes")
    return made


def write(app: App, table: str, *rows: tuple[Any, Any]) -> None:
    """Keys and values as the sink would write them."""
    with headrace.Producer(app.bootstrap) as producer:
        for key, value in rows:
            encoded = key if isinstance(key, str) else json.dumps(key)
            producer.send(
                f"{app.name}-{table}", key=encoded, value=None if value is None else json.dumps(value).encode()
            )


def country(name: str, n: int) -> tuple[str, dict[str, Any]]:
    return name, {"country": name, "n": n}


def test_a_key_and_a_range_follow_the_topic(app: App) -> None:
    with app.query("countries") as view:
        assert view.get("DE") is None, "the topic is not even there"
        write(app, "countries", country("DE", 1), country("FR", 2), country("AT", 3))
        assert view.get("DE") == {"country": "DE", "n": 1}
        assert [row["country"] for row in view] == ["AT", "DE", "FR"]
        assert [row["country"] for row in view.range("B", "FR")] == ["DE"]
        assert [row["country"] for row in view.range("DE")] == ["DE", "FR"]
        write(app, "countries", country("DE", 5), ("FR", None))
        assert view.get("DE") == {"country": "DE", "n": 5}
        assert view.get("FR") is None
        assert len(view) == 2


def test_keys_of_several_columns(app: App) -> None:
    row = {"country": "DE", "city": "Ulm", "n": 1}
    write(app, "cities", ({"country": "DE", "city": "Ulm"}, row))
    with app.query("cities") as view:
        assert view.table.topic == f"{app.name}-cities"
        assert view.get("DE", "Ulm") == row
        assert view.get("DE", "Bonn") is None
        with pytest.raises(PlanError, match=r"the key of table 'cities' is \(country, city\), and was given \('DE',\)"):
            view.get("DE")
        write(app, "cities", ({"country": "DE", "city": "Ulm"}, None))
        assert view.get("DE", "Ulm") is None


def test_windows_of_a_key_and_of_all(app: App) -> None:
    for name, number, n in (("DE", 2, 7), ("DE", 1, 5), ("FR", 1, 6)):
        start = f"2026-01-01T00:{number:02d}:00.000000Z"
        end = f"2026-01-01T00:{number + 1:02d}:00.000000Z"
        key = {"country": name, "window_start": start, "window_end": end}
        write(app, "minutes", (key, {**key, "n": n}))
    with app.query("minutes") as view:
        assert [row["n"] for row in view.windows("DE")] == [5, 7]
        assert [row["n"] for row in view.windows("DE", since=minute(2))] == [7]
        assert [row["n"] for row in view.windows("DE", until=minute(2))] == [5]
        assert [row["n"] for row in view.windows(until=minute(2))] == [5, 6]
        latest = view.get("DE")
        assert latest is not None
        assert (latest["n"], latest["window_start"]) == (7, minute(2))
        assert (view.get("DE", window=minute(1)) or {})["n"] == 5
    with app.query("countries") as plain, pytest.raises(PlanError, match="has no windows"):
        plain.windows("DE")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (datetime(2026, 1, 1), r"datetime.datetime\(2026, 1, 1, 0, 0\) has no time zone: give a datetime with one"),
        ("2026-01-01", "'2026-01-01' is no bound of window_start: in the table 'minutes' it is a datetime with a time"),
    ],
)
def test_a_time_of_a_window_is_a_datetime_with_a_zone(app: App, given: Any, sentence: str) -> None:
    with app.query("minutes") as view:
        for ask in (
            lambda: view.windows("DE", since=given),
            lambda: view.windows(until=given),
            lambda: view.get("DE", window=given),
        ):
            with pytest.raises(PlanError, match=sentence):
                ask()
    with app.query("countries") as plain, pytest.raises(PlanError, match="has no windows"):
        plain.get("DE", window=minute(1))


def test_a_range_is_of_values_like_those_of_its_column(app: App) -> None:
    with app.query("countries") as view:
        for bounds in ((5, None), (None, b"DE")):
            with pytest.raises(PlanError, match="is no bound of country: in the table 'countries' it is a str"):
                view.range(*bounds)


def test_what_a_transaction_has_not_committed_is_not_there(app: App) -> None:
    topic = f"{app.name}-countries"
    write(app, "countries", country("DE", 1))
    with app.query("countries") as view, headrace.Producer(app.bootstrap, transactional_id=app.name) as producer:
        with producer.transaction():
            producer.send(topic, key="DE", value=b'{"country":"DE","n":2}').result()
            assert view.get("DE") == {"country": "DE", "n": 1}
        assert view.get("DE") == {"country": "DE", "n": 2}
        producer.begin_transaction()
        producer.send(topic, key="DE", value=b'{"country":"DE","n":3}').result()
        producer.abort_transaction()
        assert view.get("DE") == {"country": "DE", "n": 2}


def test_a_topic_that_is_made_anew_is_read_anew(app: App) -> None:
    write(app, "countries", country("DE", 1), country("FR", 1))
    with app.query("countries") as view, headrace.Admin(app.bootstrap) as admin:
        assert len(view) == 2
        admin.delete_topic(f"{app.name}-countries")
        assert len(view) == 0
        write(app, "countries", country("AT", 1))
        assert [row["country"] for row in view] == ["AT"]
        admin.delete_topic(f"{app.name}-countries")
        write(app, "countries", country("IT", 1), country("ES", 1))
        assert [row["country"] for row in view] == ["ES", "IT"], "though nobody has asked while it was away"
