r"""`meta.properties`: to which cluster and node a data directory belongs, in the format of Java properties.

Read as Java reads it (comments, `=`, `:` or blanks between key and value, backslash escapes, lines that go on after a
backslash) and written so that Java reads it the same in either of its two encodings: what is not printable ASCII is
written as `\uXXXX`.
"""

import re
from typing import Final, NamedTuple

from headrace.log.errors import CorruptCheckpointError
from headrace.log.fs import FileSystem
from headrace.protocol.types import uuid_from_text, uuid_to_text

FILE_NAME: Final = "meta.properties"
VERSION: Final = 1

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_KEY: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_BLANKS: Final = " \t\f"


class MetaProperties(NamedTuple):
    """Who owns a data directory. Version 0 (before KRaft) may lack any of them."""

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None = None
    version: int = VERSION


def read_meta_properties(fs: FileSystem, path: str) -> MetaProperties:
    """Raises CorruptCheckpointError."""
    return parse_meta_properties(fs.read_bytes(path), path=path)


def write_meta_properties(fs: FileSystem, path: str, meta: MetaProperties) -> None:
    fs.write_atomically(path, format_meta_properties(meta))


def parse_meta_properties(data: bytes, *, path: str = FILE_NAME) -> MetaProperties:
    properties = parse_properties(data.decode("latin-1"))
    version = _number(properties, "version", path) if "version" in properties else 0
    if version not in (0, VERSION):
        raise CorruptCheckpointError(f"{path}: version={version}, only 0 and {VERSION} are known")
    if version == 0:
        node_id = _number(properties, "broker.id", path) if "broker.id" in properties else None
    else:
        node_id = _number(properties, "node.id", path)
        if "cluster.id" not in properties:
            raise CorruptCheckpointError(f"{path}: cluster.id is missing")
    directory_id = None
    if "directory.id" in properties:
        try:
            directory_id = uuid_from_text(properties["directory.id"])
        except ValueError:
            raise CorruptCheckpointError(f"{path}: directory.id={properties['directory.id']} is not a uuid") from None
    return MetaProperties(properties.get("cluster.id"), node_id, directory_id, version)


def format_meta_properties(meta: MetaProperties) -> bytes:
    properties = {"version": str(meta.version)}
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    if meta.node_id is not None:
        properties["node.id" if meta.version else "broker.id"] = str(meta.node_id)
    if meta.directory_id is not None:
        properties["directory.id"] = uuid_to_text(meta.directory_id)
    return format_properties(properties)


def _number(properties: dict[str, str], key: str, path: str) -> int:
    text = properties.get(key)
    if text is None:
        raise CorruptCheckpointError(f"{path}: {key} is missing")
    if not re.fullmatch(r"-?[0-9]+", text):
        raise CorruptCheckpointError(f"{path}: {key}={text} is not a number")
    return int(text)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a Java properties file; a later line wins."""
    properties = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None, line  # the pattern matches the empty string
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None, line
        properties[_unescape(key.group())] = _unescape(line[separator.end() :])
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        pending = None
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
        else:
            lines.append(line)
    if pending:
        lines.append(pending)
    return lines


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code, character = match.groups()
        if code is not None:
            return chr(int(code, 16))
        return _ESCAPES.get(character, character or "")

    # Java's \u escapes are UTF-16 units: two of them may make one character.
    unescaped = _ESCAPE.sub(one, text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def format_properties(properties: dict[str, str]) -> bytes:
    lines = [
        f"{_escape(key, all_blanks=True)}={_escape(value, all_blanks=False)}\n" for key, value in properties.items()
    ]
    return "".join(lines).encode("ascii")


def _escape(text: str, *, all_blanks: bool) -> str:
    out = []
    for index, character in enumerate(text):
        if character == " ":
            out.append("\\ " if all_blanks or index == 0 else " ")
        elif character in "\\=:#!":
            out.append("\\" + character)
        elif " " < character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            out.extend(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))
    return "".join(out)
