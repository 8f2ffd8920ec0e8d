import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace.streams import App, Bytes, Json, Long, Own, PlanError, String
from headrace.streams.feeding import Record, encoded, source_of


def source(**options: Any) -> Any:
    return App("test", "x").stream("topic", **options).node


def test_a_row_is_encoded_as_its_source_reads_it() -> None:
    made = source(key="user", value=Json("id long, at timestamp, day date, price decimal(9,2)"))
    row = {
        "user": "a",
        "id": 1,
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "price": Decimal("1.50"),
    }
    key, value = encoded(made, row)
    assert key == b"a"
    assert json.loads(value or b"") == {
        "id": 1,
        "at": "2026-01-02T00:00:00+00:00",
        "day": "2026-01-02",
        "price": "1.50",
    }


def test_every_serde_writes_what_it_reads() -> None:
    assert encoded(source(value=String("text")), {"text": "ä"})[1] == "ä".encode()
    assert encoded(source(value=String("n", "long")), 5)[1] == b"5"
    assert encoded(source(value=Long("n")), -2)[1] == b"\xff" * 7 + b"\xfe"
    assert encoded(source(value=Bytes("raw")), {"raw": b"x"})[1] == b"x"
    assert (
        encoded(source(value=Own("n long", encode=lambda row: b"%d" % row["n"], decode=lambda raw: {})), {"n": 7})[1]
        == b"7"
    )
    assert encoded(source(key=Long("k"), value=String("t")), "t", key=1) == (b"\0" * 7 + b"\x01", b"t")


def test_bytes_stay_as_they_are_and_none_is_a_tombstone() -> None:
    made = source(key="user", value=Json("id long"))
    assert encoded(made, b"not json", key=b"\xff") == (b"\xff", b"not json")
    assert encoded(made, None, key="a") == (b"a", None)
    assert encoded(made, {"id": 1}) == (None, b'{"id": 1}')


def test_a_serde_without_encode_needs_bytes() -> None:
    with pytest.raises(PlanError, match="feed bytes"):
        encoded(source(value=Own("n long", decode=lambda raw: {})), {"n": 1})


def test_a_topic_is_found_by_name_and_by_pattern() -> None:
    app = App("test", "x")
    app.stream("a", value=String("t")).to("out")
    app.stream(re.compile("b-.*"), value=String("t")).to("out")
    assert source_of(app.plan, "a").topics == ("a",)
    assert source_of(app.plan, "b-1").pattern == "b-.*"
    with pytest.raises(PlanError, match="does not read the topic 'out'; it reads a"):
        source_of(app.plan, "out")


def test_a_record_reads_its_value() -> None:
    record = Record(b"k", b'{"a": 1}', datetime(2026, 1, 1, tzinfo=UTC))
    assert record.json == {"a": 1}
    assert record.text == '{"a": 1}'
    assert Record(b"k", None, record.timestamp).json is None
