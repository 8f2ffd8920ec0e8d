"""The environment of a machine that has everything but Java."""

import os
from pathlib import Path

from tests.support.spark_settings import with_plain_python


def environment_without_java(directory: Path) -> dict[str, str]:
    """Its PATH has all commands but `java`; caches begin empty."""
    tools = directory / "tools"
    tools.mkdir()
    for name in os.listdir("/usr/bin"):
        if not name.startswith("java"):
            (tools / name).symlink_to(f"/usr/bin/{name}")
    kept = {name: value for name, value in with_plain_python().items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(tools), "XDG_CACHE_HOME": str(directory / "cache")}
