"""Kafka's JSON for a message beside ours: do both say the same?

Kafka's dump tool prints decoded records with its own generated converters: names in camel case, uuids and bytes in
base64, tagged fields left out at their default, fields of other versions left out always.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from headrace.log.inspect.decode import plain
from tests.support.messages import plain as as_values

_RECORD: Final = re.compile(r"^\| offset: (\d+) ", flags=re.MULTILINE)


class DumpedRecord(NamedTuple):
    """One record as Kafka's tool has decoded it; None where it printed nothing."""

    offset: int
    line: str
    key: Any
    payload: Any


def dumped_records(dump: str) -> Iterator[DumpedRecord]:
    """The records of a dump that was made with one of the decoders. Control records have no key or payload."""
    for line in dump.splitlines():
        found = _RECORD.match(line)
        if found:
            yield DumpedRecord(int(found[1]), line, _json_after(line, " key: "), _json_after(line, " payload: "))


def _json_after(line: str, mark: str) -> Any:
    _, found, text = line.partition(mark)
    if not found or text.startswith("<DELETE>"):
        return None
    return json.JSONDecoder().raw_decode(text)[0]


def differences(message: Any, theirs: Mapping[str, Any]) -> list[str]:
    """Where our message and Kafka's JSON of the same bytes disagree; nothing if they say the same."""
    return list(_differences(message, theirs, type(message).__name__))


def _differences(message: Any, theirs: Mapping[str, Any], path: str) -> Iterator[str]:
    left = {_fold(name): value for name, value in theirs.items()}
    printable = plain(message)
    for name in message._fields:
        value = getattr(message, name)
        if _fold(name) in left:
            yield from _compare(value, printable.get(name), left.pop(_fold(name)), f"{path}.{name}")
        elif not _is_default(message, name):
            yield f"{path}.{name}: {value!r}, Kafka leaves it out"
    yield from (f"{path}: Kafka has {name} = {value!r}" for name, value in left.items())


def _compare(value: Any, printable: Any, theirs: Any, path: str) -> Iterator[str]:
    if hasattr(value, "_fields") and theirs is not None:
        yield from _differences(value, theirs, path)
    elif isinstance(value, list | tuple) and theirs is not None:
        if len(value) != len(theirs):
            yield f"{path}: {len(value)} rows, Kafka has {len(theirs)}"
        for number, (row, row_printable, row_theirs) in enumerate(zip(value, printable, theirs, strict=False)):
            yield from _compare(row, row_printable, row_theirs, f"{path}[{number}]")
    else:
        ours = base64.b64encode(printable).decode() if isinstance(printable, bytes) else printable
        if ours != theirs:
            yield f"{path}: {ours!r}, Kafka has {theirs!r}"


def _is_default(message: Any, name: str) -> bool:
    """Lists and the tuples that stand for them as defaults are the same here, also inside of rows."""
    return bool(as_values(getattr(message, name)) == as_values(message._field_defaults[name]))


def _fold(name: str) -> str:
    """kRaftVersion and kraft_version are one name."""
    return name.replace("_", "").lower()
