"""`meta.properties`: to which cluster and node a data directory belongs, in the format of Java properties."""

import re
from typing import Final, NamedTuple

from headrace.log.errors import CorruptCheckpointError
from headrace.log.fs import FileSystem
from headrace.protocol.properties import PropertiesError, format_properties, parse_properties
from headrace.protocol.types import uuid_from_text, uuid_to_text

FILE_NAME: Final = "meta.properties"
VERSION: Final = 1


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
    try:
        properties = parse_properties(data.decode("latin-1"))
    except PropertiesError as error:
        raise CorruptCheckpointError(f"{path}, {error}") from None
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
