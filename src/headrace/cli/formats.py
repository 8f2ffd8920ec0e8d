r"""How records are printed: kcat's format strings, and JSON.

In a format, %s is the value, %k the key, %t the topic, %p the partition, %o the offset, %T the timestamp in
milliseconds, %h the headers as name=value,…; %S and %K are the lengths of value and key, -1 for null; %R is %S as four
bytes, %% a percent sign. \n, \r, \t, \\ and \xNN stand for the bytes that they always stand for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.cli.output import Complaint, jsonable
from headrace.cli.values import unescape

if TYPE_CHECKING:
    from headrace.client.consumer_record import ConsumerRecord

Render = Callable[["ConsumerRecord"], bytes]


def compile_format(text: str, *, null: bytes = b"") -> Render:
    """A function that prints a record so; `null` stands for a key or value that is null. Raises Complaint."""
    fields = _fields(null)
    pieces: list[bytes | Render] = []
    for token, plain in re.findall(r"%(.?)|((?:\\.|[^%\\])+|\\$)", text, re.DOTALL):
        if plain:
            pieces.append(unescape(plain))
        elif token == "%":
            pieces.append(b"%")
        elif token in fields:
            pieces.append(fields[token])
        else:
            raise Complaint(
                f"%{token} is not known in the format {text!r}.", hint="Known are %s %k %t %p %o %T %h %S %K %R and %%."
            )
    return lambda record: b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in pieces])


def _fields(null: bytes) -> dict[str, Render]:
    def content(value: bytes | None) -> bytes:
        return null if value is None else value

    def length(value: bytes | None) -> int:
        return -1 if value is None else len(value)

    return {
        "s": lambda each: content(each.value),
        "k": lambda each: content(each.key),
        "t": lambda each: each.topic.encode(),
        "p": lambda each: b"%d" % each.partition,
        "o": lambda each: b"%d" % each.offset,
        "T": lambda each: b"%d" % each.timestamp,
        "h": lambda each: b",".join(name.encode() + b"=" + content(value) for name, value in each.headers),
        "S": lambda each: b"%d" % length(each.value),
        "K": lambda each: b"%d" % length(each.key),
        "R": lambda each: length(each.value).to_bytes(4, "big", signed=True),
    }


def render_json(record: ConsumerRecord) -> bytes:
    """One object on one line. Bytes are text where they are UTF-8, else {"hex": …}, which `produce --json` reads."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "timestamp_type": "LogAppendTime" if record.is_log_append_time else "CreateTime",
        "key": jsonable(record.key),
        "value": jsonable(record.value),
        "headers": [[name, jsonable(value)] for name, value in record.headers],
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
