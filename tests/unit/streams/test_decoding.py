"""Functions of the user's that decode: a row for each record, or what is wrong with it."""

import json
from typing import Any

import pyarrow as pa

from headrace.streams.compiler.decoding import decoder
from headrace.streams.functions import function_of

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64())])


def decoded(*records: bytes | None) -> list[Any]:
    decode = decoder(function_of(json.loads, where="test"), SCHEMA)
    made: list[Any] = decode(pa.array(records, pa.binary())).to_pylist()
    return made


def test_values_become_what_their_columns_hold_and_what_is_not_there_is_null() -> None:
    assert decoded(b'{"n": 1, "x": 2}', None, b"null", b'{"more": 1}') == [
        {"row": {"n": 1, "x": 2.0}, "error": None},
        None,
        None,
        {"row": {"n": None, "x": None}, "error": None},
    ]


def test_what_raises_and_what_does_not_fit_is_the_fault_of_its_record() -> None:
    good, misfit, broken, no_dict = decoded(b'{"n": 1}', b'{"n": "one"}', b"{", b"[]")
    assert good == {"row": {"n": 1, "x": None}, "error": None}
    assert misfit["row"] is None
    assert misfit["error"].startswith("what it gave does not fit the schema: ")
    assert decoded(b'{"n": 5.5, "x": 5.5}', b'{"n": 5.0}') == [
        {
            "row": None,
            "error": "what it gave does not fit the schema: ValueError: 5.5 is not a whole number, which int64 needs",
        },
        {"row": {"n": 5, "x": None}, "error": None},
    ]
    assert broken["error"].startswith("json.decoder.JSONDecodeError: ")
    assert no_dict["error"].startswith("AttributeError: ")
