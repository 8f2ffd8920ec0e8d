"""What a topic may be called."""

import re
from typing import Final

MAX_NAME_LENGTH: Final = 249  # a partition's directory is the name, a dash and a number, and must fit 255 bytes
METADATA_TOPIC: Final = "__cluster_metadata"

_ALLOWED: Final = re.compile(r"[a-zA-Z0-9._-]+")


def find_name_fault(name: str) -> str | None:
    """What is wrong with a topic name, or None."""
    if not name:
        return "a topic needs a name"
    if name in (".", ".."):
        return f"a topic cannot be called {name!r}, which is a directory"
    if len(name) > MAX_NAME_LENGTH:
        return f"a topic name has at most {MAX_NAME_LENGTH} characters, not {len(name)}"
    if not _ALLOWED.fullmatch(name):
        return f"the topic name {name!r} has other characters than a-z, A-Z, 0-9, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Names with the same key would be one in Kafka's metrics, where '.' and '_' are the same."""
    return name.replace(".", "_")
