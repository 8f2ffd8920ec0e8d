"""What `headrace produce` does: bytes become records, records go out as they come in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from headrace.cli.connect import complaints
from headrace.cli.output import Complaint
from headrace.cli.record_client import Outgoing, RecordWriter
from headrace.cli.values import parse_pairs, unescape

READ_BYTES: Final = 256 * 1024
Parse = Callable[[bytes], Outgoing]


def produce(
    *,
    topic: str,
    files: Sequence[str],
    key_separator: str | None,
    delimiter: str,
    key: str | None,
    headers: Sequence[str],
    empty_is_null: bool,
    as_json: bool,
    partition: int | None,
    compression: str | None,
    acks: str | None,
    configs: Sequence[str],
    bootstrap: str,
) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": "headrace-cli"}
    settings |= parse_pairs(configs, option="--config", example="max.block.ms=5000")
    if compression is not None:
        settings["compression.type"] = compression
    if acks is not None:
        settings["acks"] = acks
    common = Outgoing(
        None if key is None else key.encode(),
        None,
        tuple((name, text.encode()) for name, text in parse_pairs(headers, option="--header", example="a=b").items()),
        partition,
    )
    separator = None if key_separator is None else unescape(key_separator)
    parse = _json_parser(common) if as_json else _line_parser(common, separator, empty_is_null=empty_is_null)
    end = unescape(delimiter)
    if not end:
        raise Complaint("--delimiter must not be empty.", hint="It is what ends a record; \\n if left out.")
    with complaints(bootstrap), RecordWriter(topic, settings) as writer:
        if files:
            _write_files(writer, files, common, parse if as_json else None)
        else:
            _write_stream(writer, sys.stdin.buffer, end, parse)
        if sys.stderr.isatty():
            click.echo(f"{writer.written} {'record' if writer.written == 1 else 'records'} in {topic}.", err=True)


def _write_files(writer: RecordWriter, files: Sequence[str], common: Outgoing, parse: Parse | None) -> None:
    """Each file is one record, or lines of JSON."""
    try:
        for file in files:
            content = Path(file).read_bytes()
            if parse is None:
                writer.send(common._replace(value=content))
            else:
                for line in content.splitlines():
                    writer.send(parse(line))
    finally:
        writer.flush()


def _write_stream(writer: RecordWriter, stream: BinaryIO, delimiter: bytes, parse: Parse) -> None:
    if stream.isatty():
        click.echo("One record per line; Ctrl-D ends it.", err=True)
    try:
        for record in _split(stream, delimiter):
            writer.send(parse(record))
    finally:
        writer.flush()  # also up to a record that cannot be one


def _split(stream: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """Records as they come. One without an end at the end of the input is one, too."""
    rest = b""
    while chunk := stream.read1(READ_BYTES):  # type: ignore[attr-defined]  # what is there, without waiting for more
        *records, rest = (rest + chunk).split(delimiter)
        yield from records
    if rest:
        yield rest


def _line_parser(common: Outgoing, separator: bytes | None, *, empty_is_null: bool) -> Parse:
    def content(data: bytes) -> bytes | None:
        return None if empty_is_null and not data else data

    def parse(line: bytes) -> Outgoing:
        if separator is None:
            return common._replace(value=content(line))
        key, found, value = line.partition(separator)
        if not found:
            raise Complaint(
                f"The key separator is not in {line[:80].decode(errors='replace')!r}.",
                hint="With --key-separator every record has a key before it; the records before this one are written.",
            )
        return common._replace(key=content(key), value=content(value))

    return parse


def _json_parser(common: Outgoing) -> Parse:
    def parse(line: bytes) -> Outgoing:
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise ValueError("an object is expected")
            headers = fields.get("headers") or []
            pairs = headers.items() if isinstance(headers, dict) else headers
            partition = fields.get("partition") if common.partition is None else common.partition
            timestamp = fields.get("timestamp_ms")
            for number in (partition, timestamp):
                if number is not None and type(number) is not int:
                    raise ValueError(f"{number!r} is not a whole number")
            return Outgoing(
                key=common.key if "key" not in fields else _json_bytes(fields["key"]),
                value=_json_bytes(fields.get("value")),
                headers=(*common.headers, *((str(name), _json_bytes(value)) for name, value in pairs)),
                partition=partition,
                timestamp_ms=timestamp,
            )
        except (ValueError, TypeError) as error:
            raise Complaint(
                f"Not a record: {line[:80].decode(errors='replace')!r}: {error}.",
                hint='Each line is such as {"key": "a", "value": "b", "headers": [["name", "value"]]}; '
                "the records before this one are written.",
            ) from None

    return parse


def _json_bytes(value: Any) -> bytes | None:
    """Text as UTF-8, {"hex": …} as the bytes it names, anything else as the JSON that it is."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["hex"] and isinstance(value["hex"], str):
        return bytes.fromhex(value["hex"])
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
