"""Values as people and programs read them."""

import json

import pytest

from headrace.cli.output import (
    CHUNK_ROWS,
    Column,
    TableWriter,
    jsonable,
    print_json,
    show_bytes,
    show_fields,
    show_size,
    show_time,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "<null>"),
        (b"", "<empty>"),
        (b"plain text", "plain text"),
        ("grüße 🚀".encode(), "grüße 🚀"),
        (b"a\nb\x1b[m", r"a\nb\x1b[m"),
        (b"\x00\xff\x01", "0x00ff01"),
        (b"ab\xe4", "0x6162e4"),
        (b"a" * 10, "a" * 10),
        (b"a" * 11, "aaaaaaaaaa… (11 bytes)"),
        (b"\xff" * 2000, "0xffffffffff… (2,000 bytes)"),
        ("ü".encode() * 500, "üüüüüüüüüü… (1,000 bytes)"),
        (b"a" + "€".encode() * 500, "a€€€€€€€€€… (1,501 bytes)"),
    ],
)
def test_bytes_are_text_where_they_are_text_and_bounded(value: bytes | None, shown: str) -> None:
    assert show_bytes(value, limit=10) == shown


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (-1, "-"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (2**63 - 1, str(2**63 - 1)),
    ],
)
def test_times_are_utc_with_milliseconds(timestamp: int, shown: str) -> None:
    assert show_time(timestamp) == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 40, "5,120.0 GiB")]
)
def test_sizes_have_a_unit(size: int, shown: str) -> None:
    assert show_size(size) == shown


def test_decoded_fields_are_one_line() -> None:
    fields = {"name": "orders", "ids": [1, 2], "on": True, "raw": b"\xff", "inner": {"a": None}, "text": "a\nb"}
    assert show_fields(fields) == r"name=orders ids=[1 2] on=true raw=0xff inner={a=<null>} text=a\nb"


def test_json_keeps_every_byte() -> None:
    value = jsonable({"text": "ü".encode(), "raw": b"\xff\x00", "rows": [(b"a", None)], "row": Column("x", right=True)})
    assert value == {
        "text": "ü",
        "raw": {"hex": "ff00"},
        "rows": [["a", None]],
        "row": {"name": "x", "right": True},
    }


def test_json_is_one_ascii_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "ü\n", "b": b"raw"})
    printed = capsys.readouterr().out
    assert printed == '{"a":"\\u00fc\\n","b":"raw"}\n'
    assert json.loads(printed) == {"a": "ü\n", "b": "raw"}


def test_tables_align_and_keep_one_row_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    writer = TableWriter()
    writer.start([Column("n", right=True), Column("value"), Column("more")])
    writer.row(["1", "日本", ""])
    writer.line("between")
    writer.row(["22", "x" * 200, "end"])
    writer.flush()
    assert capsys.readouterr().out.splitlines() == [
        " n  value                                     more",
        " 1  日本",
        "between",
        f"22  {'x' * 200}  end",
    ]


def test_columns_of_later_chunks_do_not_shrink(capsys: pytest.CaptureFixture[str]) -> None:
    writer = TableWriter()
    writer.start([Column("name"), Column("n")])
    writer.row(["a long name", "1"])
    for number in range(CHUNK_ROWS):
        writer.row(["x", str(number)])
    writer.flush()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == CHUNK_ROWS + 2
    assert {line.index(line.split()[-1], 11) for line in lines} == {13}


def test_nothing_is_printed_for_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    TableWriter().flush()
    assert capsys.readouterr().out == ""
