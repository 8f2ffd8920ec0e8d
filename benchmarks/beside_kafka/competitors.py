"""Who competes, and where: Headrace first, then Apache Kafka if there is a Java to run it."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka.footprint import MakeNode
from benchmarks.beside_kafka.nodes import Headrace, Kafka
from tests.support.kafka_tools import REPOSITORY, KafkaTools, fetch_jars, missing_tool

CACHE: Final = REPOSITORY / ".cache"  # on the disk, which a temporary directory is not everywhere


def competitors(settings: Mapping[str, str] | None = None) -> Iterator[MakeNode]:
    """How each is made. `settings` are server configs, the same for both."""
    yield lambda directory: Headrace(directory, settings)
    missing = missing_tool()
    if missing is None:
        tools = KafkaTools(fetch_jars())
        yield lambda directory: Kafka(directory, tools, settings)
    else:
        print(f"Apache Kafka is not measured: {missing}.", file=sys.stderr)


@contextmanager
def scratch_directory() -> Iterator[Path]:
    CACHE.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=CACHE))
    try:
        yield path
    finally:
        shutil.rmtree(path)
